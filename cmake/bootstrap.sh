#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/bootstrap.sh GOAL [ARGUMENTS]: from a fresh checkout to the goal. What the machine lacks is installed; where all
# is there, nothing is touched. Goals: the list in usage(); each builds in build/GOAL with the settings of cmake/presets/.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # package managers want them
export PATH

usage() {
  cat >&2 <<'USAGE'
usage: sh cmake/bootstrap.sh GOAL [ARGUMENTS]
  demo     build the library and the embed tool, and show what they do
  check    build with warnings as errors and run the tests; ARGUMENTS go to ctest
  bench    build and run the benchmarks; ARGUMENTS go to bench_op
  noblas   check without OpenBLAS
  clang    check with clang
  consumers  the tests of check that use an installed copy from C, C++, Rust, Go and Python, and those of the ABI; none is skipped
  docs     the headers' comments as HTML and manual pages, in build/docs
  asan     check with clang's address and undefined-behaviour sanitizers
  tsan     check with clang's thread sanitizer
  msan     check with clang's sanitizer of uninitialised memory
  valgrind check under valgrind
  blas     the tests around OpenBLAS with each of Debian's variants of it, as several CPUs
  nehalem  check in qemu as a CPU without AVX
  haswell  check in qemu as a CPU with AVX2
  arm64    check on another machine, in qemu: the neon level
  s390x    the same, big-endian
  i386     check with pointers of 32 bits
  fuzz     run the fuzzers under the same sanitizers; the ARGUMENT is the executions of each (500000)
USAGE
  exit 2
}

say() { printf 'bootstrap: %s\n' "$*" >&2; }

# Runs a command with its output in the log; shows the end of it when the command fails.
logged() {
  if "$@" >>"$log" 2>&1 </dev/null; then return 0; fi
  tail -n 40 "$log" >&2
  say "failed: $* (all of it: $log)"
  exit 1
}

# --- What a goal needs: each thing is tested for itself, whoever installed it.

find_clang() { command -v clang-14 || command -v clang || true; }

compiles() { # FLAGS...: does the goal's compiler make a program with them?
  trial=$build/trial
  printf 'int main(void) { return 0; }\n' >"$trial.c"
  "$@" "$trial.c" -o "$trial" >>"$log" 2>&1 && rm -f "$trial" "$trial.c"
}

runs() { # FLAGS...: and does the kernel run it?
  trial=$build/trial
  printf 'int main(void) { return 0; }\n' >"$trial.c"
  "$@" "$trial.c" -o "$trial" >>"$log" 2>&1 && "$trial" >>"$log" 2>&1 && rm -f "$trial" "$trial.c"
}

variant_folder() { echo "/usr/lib/$("${CC:-cc}" -print-multiarch)/openblas-$1"; }

have() {
  case $1 in
    compiler) command -v "${CC:-cc}" >/dev/null && compiles "${CC:-cc}" ;;
    cmake) command -v cmake >/dev/null ;;
    builder) command -v ninja >/dev/null || command -v make >/dev/null ;;
    pkgconfig) command -v pkg-config >/dev/null ;;
    openblas) command -v pkg-config >/dev/null && pkg-config --exists 'openblas >= 0.3.10' ;;
    cmocka | zlib) command -v pkg-config >/dev/null && pkg-config --exists "$1" ;;
    clang) clang=$(find_clang) && test -n "$clang" && compiles "$clang" ;;
    sanitizers) clang=$(find_clang) && test -n "$clang" && compiles "$clang" -fsanitize=address,undefined ;;
    valgrind) command -v valgrind >/dev/null ;;
    cxx) command -v "${CXX:-c++}" >/dev/null ;;
    fortran) test -e "$("${CC:-cc}" -print-file-name=libgfortran.a)" ;; # openblas.pc names it for static programs
    cargo) command -v cargo >/dev/null && cargo --version >/dev/null 2>&1 ;;
    go | scdoc | doxygen) command -v "$1" >/dev/null ;;
    abigail) command -v abidiff >/dev/null && command -v abidw >/dev/null ;;
    numpy) python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null ;;
    variants) for variant in serial openmp pthread; do test -e "$(variant_folder $variant)/libopenblas.so.0" || return 1; done ;;
    qemu) command -v "qemu-$machine-static" >/dev/null ;;
    cross) command -v "$triplet-gcc" >/dev/null && compiles "$triplet-gcc" ;;
  esac
}

# Names of the packages; apt's were tried, the others are from the distributions' lists.
package() { # MANAGER THING
  case $1:$2 in
    apt-get:compiler) echo gcc libc6-dev ;;
    apt-get:builder | dnf:builder) echo ninja-build ;;
    apt-get:pkgconfig) echo pkg-config ;;
    apt-get:openblas) echo libopenblas-dev ;;
    apt-get:cmocka) echo libcmocka-dev ;;
    apt-get:zlib) echo zlib1g-dev ;;
    apt-get:clang) echo clang-14 ;;
    apt-get:sanitizers) echo clang-14 libclang-rt-14-dev llvm-14 ;;
    apt-get:cxx) echo g++ ;;
    apt-get:fortran | apk:fortran) echo gfortran ;;
    apt-get:go) echo golang-go ;;
    apt-get:numpy | dnf:numpy) echo python3-numpy ;;
    apt-get:abigail) echo abigail-tools ;;
    apt-get:variants) echo libopenblas0-serial libopenblas0-openmp libopenblas0-pthread ;;
    apt-get:qemu) echo qemu-user-static ;;
    apt-get:cross) echo "gcc-$triplet libc6-dev-$architecture-cross" ;;
    dnf:compiler | pacman:compiler | zypper:compiler) echo gcc ;;
    dnf:pkgconfig) echo pkgconf-pkg-config ;;
    dnf:openblas | zypper:openblas) echo openblas-devel ;;
    dnf:cmocka | zypper:cmocka) echo libcmocka-devel ;;
    dnf:sanitizers) echo clang compiler-rt ;;
    apk:compiler) echo build-base ;;
    apk:builder) echo samurai ;;
    apk:openblas) echo openblas-dev ;;
    apk:cmocka) echo cmocka-dev ;;
    dnf:zlib | zypper:zlib) echo zlib-devel ;;
    apk:zlib) echo zlib-dev zlib-static ;;
    apk:sanitizers) echo clang compiler-rt ;;
    pacman:builder | zypper:builder | brew:builder) echo ninja ;;
    pacman:sanitizers) echo clang compiler-rt ;;
    dnf:cxx | zypper:cxx) echo gcc-c++ ;;
    dnf:go) echo golang ;;
    dnf:abigail | zypper:abigail) echo libabigail ;;
    dnf:fortran) echo gcc-gfortran ;;
    pacman:fortran | zypper:fortran) echo gcc-fortran ;;
    pacman:numpy) echo python-numpy ;;
    pacman:cargo) echo rust ;;
    *:pkgconfig) echo pkgconf ;;
    *:sanitizers) echo clang ;;
    brew:compiler) echo gcc ;;
    *) echo "$2" ;;
  esac
}

install_missing() {
  missing=
  for thing in "$@"; do have "$thing" || missing="$missing $thing"; done
  if [ -z "$missing" ]; then return 0; fi
  manager=
  for candidate in apt-get dnf pacman apk zypper brew; do
    if command -v $candidate >/dev/null; then manager=$candidate && break; fi
  done
  if [ -z "$manager" ]; then say "missing:$missing; no package manager that this script knows is here" && exit 1; fi
  packages=
  for thing in $missing; do packages="$packages $(package $manager "$thing")"; done
  update=
  case $manager in
    apt-get) update='apt-get -q update' install="apt-get -q -y --no-install-recommends install$packages" ;;
    dnf) install="dnf -q -y install$packages" ;;
    pacman) install="pacman -Sy --noconfirm --needed$packages" ;;
    apk) install="apk add --no-progress$packages" ;;
    zypper) install="zypper --non-interactive install$packages" ;;
    brew) install="brew install$packages" ;;
  esac
  become=
  if [ "$manager" != brew ] && [ "$(id -u)" != 0 ]; then
    become=sudo
    if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && ! [ -t 0 ]; }; then
      say "missing:$missing; run as root: ${update:+$update && }$install"
      exit 1
    fi
    if ! sudo -n true 2>/dev/null; then sudo true; fi # asks for the password where it can be seen
  fi
  say "installing$packages"
  if [ -n "$update" ]; then logged $become env DEBIAN_FRONTEND=noninteractive $update; fi
  logged $become env DEBIAN_FRONTEND=noninteractive $install
  if [ "$manager" = brew ]; then # its openblas is not linked into the prefix
    PKG_CONFIG_PATH=$(brew --prefix openblas)/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    export PKG_CONFIG_PATH
  fi
  for thing in $missing; do
    if ! have "$thing"; then say "still missing after the installation: $thing (see $log)" && exit 1; fi
  done
}

require_cmake() { # 3.25
  version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  major=${version% *} minor=${version#* }
  if [ "$major" -lt 3 ] || { [ "$major" -eq 3 ] && [ "$minor" -lt 25 ]; }; then
    say "cmake $major.$minor is here, 3.25 is needed"
    exit 1
  fi
}

configure_and_build() { # CMAKE_ARGUMENTS...
  if ! [ -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then set -- -G Ninja "$@"; fi
  logged cmake -C "$root/cmake/presets/$goal.cmake" -S "$root" -B "$build" "$@"
  logged cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)"
}

left_out='fuzz|registry|blas' # labels of tests; CONTRIBUTING.md says what they mean

run_tests() { # CTEST_ARGUMENTS...
  cd "$build"
  exec ctest --no-tests=error -LE "$left_out" --output-on-failure -j2 "$@"
}

debian_only() {
  if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then return 0; fi
  say "$goal works with the packages of Debian alone"
  exit 77
}

# Another machine: its compiler, its cmocka (unpacked beside the build, not installed), and qemu to run what comes out.
foreign_check() { # ARCHITECTURE TRIPLET MACHINE CTEST_ARGUMENTS...: its names for Debian, gcc and qemu; - = this CPU runs it
  debian_only
  architecture=$1 triplet=$2 machine=$3
  shift 3
  if [ "$machine" = - ]; then
    install_missing cross cmake builder pkgconfig
    if ! runs "$triplet-gcc" -static; then
      say "this kernel runs no programs of $architecture"
      exit 77
    fi
  else
    install_missing cross qemu cmake builder pkgconfig
    left_out="$left_out|native|long"
  fi
  require_cmake
  if ! [ -d "$build/foreign/usr" ]; then logged sh "$root/cmake/foreign.sh" "$architecture" "$build/foreign"; fi
  configure_and_build -DEMBED_FOREIGN="$build/foreign"
  run_tests "$@"
}

older_cpu_check() { # CTEST_ARGUMENTS...
  machine=x86_64
  install_missing compiler cmake builder pkgconfig openblas cmocka qemu
  require_cmake
  configure_and_build
  left_out="$left_out|native|long|masked"
  export OPENBLAS_CORETYPE=Prescott # OpenBLAS takes qemu's CPUs for what they are not
  run_tests "$@"
}

sanitized_check() { # CTEST_ARGUMENTS...
  install_missing sanitizers cmake builder pkgconfig zlib cmocka
  require_cmake
  configure_and_build -DCMAKE_C_COMPILER="$(find_clang)"
  run_tests "$@"
}

[ $# -ge 1 ] || usage
goal=$1
shift
build=$root/build/$goal
case $goal in
  consumers) build=$root/build/check ;; # check's own build
  docs) ;;
  *) [ -f "$root/cmake/presets/$goal.cmake" ] || usage ;;
esac
log=$build/bootstrap.log
mkdir -p "$build"
: >"$log"

case $goal in
  demo)
    install_missing compiler cmake builder pkgconfig openblas
    require_cmake
    configure_and_build
    exec sh "$root/cmake/demo.sh" "$build"
    ;;
  bench)
    install_missing compiler cmake builder pkgconfig openblas
    require_cmake
    configure_and_build
    # Some machines pin OpenBLAS to an older core: a benchmark measures the one that is here.
    exec env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$build/bench/bench_op" "$@"
    ;;
  check)
    install_missing compiler cmake builder pkgconfig openblas zlib cmocka
    require_cmake
    configure_and_build
    run_tests "$@"
    ;;
  consumers)
    install_missing compiler cmake builder pkgconfig openblas zlib cmocka cxx fortran cargo go numpy scdoc abigail
    require_cmake
    goal=check configure_and_build
    cd "$build"
    status=0
    ctest --no-tests=error -R '^(abi|install|ffi|examples)\.' --output-on-failure -j2 "$@" >consumers.out || status=$?
    cat consumers.out
    [ -d "$root/../shared" ] || sed -i '/examples\.story/d' consumers.out # its weights are not part of the repository
    if grep -q '\*\*\*Skipped' consumers.out; then say "skipped, although all that they need is here (see above)" && exit 1; fi
    exit $status
    ;;
  docs)
    install_missing doxygen
    exec sh "$root/cmake/docs.sh" "$build"
    ;;
  noblas)
    install_missing compiler cmake builder pkgconfig zlib cmocka
    require_cmake
    configure_and_build
    run_tests "$@"
    ;;
  clang)
    install_missing clang cmake builder pkgconfig openblas zlib cmocka
    require_cmake
    configure_and_build -DCMAKE_C_COMPILER="$(find_clang)"
    run_tests "$@"
    ;;
  asan)
    install_missing sanitizers cmake builder pkgconfig openblas zlib cmocka
    require_cmake
    configure_and_build -DCMAKE_C_COMPILER="$(find_clang)"
    # Allocations that cannot be had are part of the tests: NULL, as without the sanitizer.
    ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
    UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
    export ASAN_OPTIONS UBSAN_OPTIONS
    run_tests "$@"
    ;;
  tsan)
    TSAN_OPTIONS=allocator_may_return_null=1:halt_on_error=1:die_after_fork=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}
    export TSAN_OPTIONS
    sanitized_check "$@"
    ;;
  msan)
    MSAN_OPTIONS=allocator_may_return_null=1${MSAN_OPTIONS:+:$MSAN_OPTIONS}
    export MSAN_OPTIONS
    sanitized_check "$@"
    ;;
  valgrind)
    install_missing compiler cmake builder pkgconfig openblas zlib cmocka valgrind
    require_cmake
    configure_and_build
    left_out="$left_out|native|long"
    unset OPENBLAS_CORETYPE # one with AVX-512 stops valgrind
    run_tests "$@"
    ;;
  blas)
    install_missing compiler cmake builder pkgconfig openblas zlib cmocka variants
    require_cmake
    configure_and_build
    cd "$build"
    exec ctest --no-tests=error -L blas --output-on-failure "$@" # one at a time: each starts hundreds of threads
    ;;
  nehalem | haswell) older_cpu_check "$@" ;;
  arm64) foreign_check arm64 aarch64-linux-gnu aarch64 "$@" ;;
  s390x) foreign_check s390x s390x-linux-gnu s390x "$@" ;;
  i386) foreign_check i386 i686-linux-gnu - "$@" ;;
  fuzz)
    install_missing sanitizers cmake builder pkgconfig zlib cmocka
    require_cmake
    logged cmake -C "$root/cmake/presets/fuzz.cmake" -S "$root" -B "$build" -DCMAKE_C_COMPILER="$(find_clang)" -DEMBED_FUZZ_RUNS="${1:-500000}"
    logged cmake --build "$build" --target fuzzers --parallel "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)"
    cd "$build"
    exec ctest --no-tests=error -L fuzz --output-on-failure -j2
    ;;
  *) usage ;;
esac
