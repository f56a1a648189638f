#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh LANGUAGE PREFIX SCRATCH LIBDIR [SANITIZERS]: builds and runs one language's program against the library installed in PREFIX, and
# nothing else of this project. All that is built goes to SCRATCH. 77 = skipped: that language is not here.
set -eu
language=$1 prefix=$2 scratch=$3 libdir=$4 sanitize=${5:+-fsanitize=$5}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
data=$here/../data
case $language in c | cpp) rm -rf "$scratch" ;; esac # no file of an earlier run; the others' caches are their own matter
mkdir -p "$scratch"
PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PKG_CONFIG_PATH LD_LIBRARY_PATH
not_here() { echo "skipped: $*" && exit 77; }
without_sanitizers() { if [ -n "$sanitize" ]; then not_here "a sanitized library cannot be loaded into $1"; fi; }

case $language in
  c)
    eval "set -- $(pkg-config --cflags --libs libembed)" # folders with spaces come escaped
    "${CC:-cc}" $sanitize -std=c99 -pedantic -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L "$here/c/consumer.c" "$@" -lm -pthread -o "$scratch/consumer"
    "$scratch/consumer" "$data"
    ;;
  cpp)
    command -v "${CXX:-c++}" >/dev/null || not_here "no C++ compiler"
    without_sanitizers "a C++ program of another compiler"
    cmake -S "$here/cpp" -B "$scratch" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS="$sanitize" ${CXX:+-DCMAKE_CXX_COMPILER="$CXX"} >"$scratch/log" 2>&1 &&
      cmake --build "$scratch" >>"$scratch/log" 2>&1 || { cat "$scratch/log" && exit 1; }
    "$scratch/consumer" "$data"
    ;;
  rust)
    command -v cargo >/dev/null && cargo --version >/dev/null 2>&1 || not_here "no cargo"
    without_sanitizers Rust
    # A copy, because old and new versions of cargo write Cargo.lock differently. Older ones also see changed headers this way.
    rm -rf "$scratch/source"
    cp -R "$here/rust" "$scratch/source"
    cd "$scratch/source"
    export CARGO_TARGET_DIR="$scratch/target" EMBED_TEST_DATA="$data" RUSTFLAGS="-D warnings" CARGO_TERM_COLOR=never
    cargo test --quiet --offline 2>&1
    cargo build --quiet --offline --examples 2>&1
    # The example finds the library by its own rpath.
    unset LD_LIBRARY_PATH
    "$scratch/target/debug/examples/nearest" "$data/glove-2000x100.bin" king >"$scratch/said"
    cat "$scratch/said"
    printf 'king 37.4250\nprince 27.6650\nqueen 27.5883\n' | cmp - "$scratch/said"
    # With libembed.a it needs none.
    EMBED_STATIC=1 cargo build --quiet --offline --examples 2>&1
    if ldd "$scratch/target/debug/examples/nearest" | grep libembed; then echo "EMBED_STATIC=1 took the shared library" && exit 1; fi
    "$scratch/target/debug/examples/nearest" "$data/glove-2000x100.bin" king | cmp - "$scratch/said"
    ;;
  go)
    command -v go >/dev/null || not_here "no go"
    without_sanitizers Go
    # Go's cache of builds does not look into C headers: their digest among the flags makes it look.
    digest=$(cat "$prefix"/include/embed/*.h | cksum | tr ' ' -)
    cd "$here/go"
    export EMBED_TEST_DATA="$data" GOCACHE="$scratch/cache" GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local GOPROXY=off GOPATH="$scratch/path"
    export CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -DLIBEMBED_HEADERS=\"$digest\""
    go vet .
    go test -count=1 -v . 2>&1
    ;;
  python)
    without_sanitizers Python
    for python in python3 /usr/bin/python3; do
      if "$python" -c 'import numpy' 2>/dev/null; then
        awk -f "$here/../abi/api.awk" "$prefix"/include/embed/*.h >"$scratch/api"
        PYTHONDONTWRITEBYTECODE=1 exec "$python" "$here/python/consumer.py" "$prefix/$libdir/libembed.so.0" "$data" "$scratch/api" 2>&1
      fi
    done
    not_here "no python3 with numpy"
    ;;
  *) echo "no such language: $language" && exit 2 ;;
esac
