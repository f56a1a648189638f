#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# installed.sh WAY PREFIX SCRATCH CONSUMER COMPILER LIBDIR BLAS SANITIZERS: builds the consumer against an installed copy and runs it.
set -eu
way=$1 prefix=$2 scratch=$3 consumer=$4 compiler=$5 libdir=$6 blas=$7 sanitize=${8:+-fsanitize=$8}
rm -rf "$scratch"
mkdir -p "$scratch"
if [ "$way" = moved ]; then # an installed tree may be moved
  cp -R "$prefix" "$scratch/moved to here"
  prefix="$scratch/moved to here"
fi
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

case $way in
  pkg_config | moved)
    eval "set -- $(pkg-config --cflags --libs libembed)" # folders with spaces come escaped
    "$compiler" $sanitize "$consumer/consumer.c" "$@" -o "$scratch/consumer"
    ;;
  pkg_config_static)
    eval "set -- $(pkg-config --static --cflags --libs libembed)"
    for flag in "$@"; do # libembed.a instead of the library beside it
      shift
      case $flag in
        -lgfortran) continue ;; # openblas.pc names it for OpenBLAS's own archive; its package does not bring it
        -lembed) flag=-l:libembed.a ;;
      esac
      set -- "$@" "$flag"
    done
    "$compiler" $sanitize "$consumer/consumer.c" "$@" -o "$scratch/consumer"
    LD_LIBRARY_PATH=
    ;;
  cmake | cmake_static)
    static=OFF
    if [ "$way" = cmake_static ]; then static=ON; fi
    cmake -S "$consumer" -B "$scratch" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="$sanitize" -DCMAKE_PREFIX_PATH="$prefix" \
      -DCONSUMER_STATIC=$static >"$scratch/log" 2>&1 && cmake --build "$scratch" >>"$scratch/log" 2>&1 || { cat "$scratch/log" && exit 1; }
    ;;
esac
export LD_LIBRARY_PATH
"$scratch/consumer"

# A user of the shared library is not handed the libraries that it uses itself.
case $way in
  pkg_config)
    case $(pkg-config --libs libembed) in *openblas*) echo "pkg-config --libs names openblas" && exit 1 ;; esac
    if [ "$blas" = OFF ]; then case $(pkg-config --static --libs libembed) in *openblas*) echo "built without BLAS, and asks for it" && exit 1 ;; esac fi
    ;;
esac
