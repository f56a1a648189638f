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
  asan     check with clang's address and undefined-behaviour sanitizers
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

have() {
  case $1 in
    compiler) command -v "${CC:-cc}" >/dev/null && compiles "${CC:-cc}" ;;
    cmake) command -v cmake >/dev/null ;;
    builder) command -v ninja >/dev/null || command -v make >/dev/null ;;
    pkgconfig) command -v pkg-config >/dev/null ;;
    openblas) command -v pkg-config >/dev/null && pkg-config --exists 'openblas >= 0.3.10' ;;
    cmocka) command -v pkg-config >/dev/null && pkg-config --exists cmocka ;;
    clang) clang=$(find_clang) && test -n "$clang" && compiles "$clang" ;;
    sanitizers) clang=$(find_clang) && test -n "$clang" && compiles "$clang" -fsanitize=address,undefined ;;
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
    apt-get:clang) echo clang-14 ;;
    apt-get:sanitizers) echo clang-14 libclang-rt-14-dev llvm-14 ;;
    dnf:compiler | pacman:compiler | zypper:compiler) echo gcc ;;
    dnf:pkgconfig) echo pkgconf-pkg-config ;;
    dnf:openblas | zypper:openblas) echo openblas-devel ;;
    dnf:cmocka | zypper:cmocka) echo libcmocka-devel ;;
    dnf:sanitizers) echo clang compiler-rt ;;
    apk:compiler) echo build-base ;;
    apk:builder) echo samurai ;;
    apk:openblas) echo openblas-dev ;;
    apk:cmocka) echo cmocka-dev ;;
    apk:sanitizers) echo clang compiler-rt ;;
    pacman:builder | zypper:builder | brew:builder) echo ninja ;;
    pacman:sanitizers) echo clang compiler-rt ;;
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

run_tests() { # CTEST_ARGUMENTS...
  cd "$build"
  exec ctest --no-tests=error -LE 'fuzz|cross|registry' --output-on-failure -j2 "$@"
}

[ $# -ge 1 ] || usage
goal=$1
shift
[ -f "$root/cmake/presets/$goal.cmake" ] || usage
build=$root/build/$goal
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
    install_missing compiler cmake builder pkgconfig openblas cmocka
    require_cmake
    configure_and_build
    run_tests "$@"
    ;;
  noblas)
    install_missing compiler cmake builder pkgconfig cmocka
    require_cmake
    configure_and_build
    run_tests "$@"
    ;;
  clang)
    install_missing clang cmake builder pkgconfig openblas cmocka
    require_cmake
    configure_and_build -DCMAKE_C_COMPILER="$(find_clang)"
    run_tests "$@"
    ;;
  asan)
    install_missing sanitizers cmake builder pkgconfig openblas cmocka
    require_cmake
    configure_and_build -DCMAKE_C_COMPILER="$(find_clang)"
    # Allocations that cannot be had are part of the tests: NULL, as without the sanitizer.
    ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
    UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
    export ASAN_OPTIONS UBSAN_OPTIONS
    run_tests "$@"
    ;;
  fuzz)
    install_missing sanitizers cmake builder pkgconfig cmocka
    require_cmake
    logged cmake -C "$root/cmake/presets/fuzz.cmake" -S "$root" -B "$build" -DCMAKE_C_COMPILER="$(find_clang)" -DEMBED_FUZZ_RUNS="${1:-500000}"
    logged cmake --build "$build" --target fuzzers --parallel "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)"
    cd "$build"
    exec ctest --no-tests=error -L fuzz --output-on-failure -j2
    ;;
  *) usage ;;
esac
