#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# serves.sh WAY PREFIX SCRATCH CONSUMER COMPILER LIBDIR BLAS SANITIZERS: builds the consumer against an installed copy and runs it.
# 77 = this machine cannot (said on stdout).
set -eu
way=$1 prefix=$2 scratch=$3 consumer=$4 compiler=$5 libdir=$6 blas=$7 sanitize=${8:+-fsanitize=$8}
rm -rf "$scratch"
mkdir -p "$scratch"
case $way in
  moved*) # an installed tree may be moved
    cp -R "$prefix" "$scratch/moved to here"
    prefix="$scratch/moved to here"
    ;;
esac
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
not_here() { echo "skipped: $*" && exit 77; }
configure() { # CMAKE_ARGUMENTS...
  cmake -S "$consumer" -B "$scratch/build" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="$sanitize" -DCMAKE_PREFIX_PATH="$prefix" "$@" >"$scratch/log" 2>&1
}
build_with_cmake() {
  configure "$@" && cmake --build "$scratch/build" >>"$scratch/log" 2>&1 || { cat "$scratch/log" && exit 1; }
  cp "$scratch/build/consumer" "$scratch/consumer"
}
refused_with() { # TEXT CMAKE_ARGUMENTS...: find_package says no, and why
  text=$1
  shift
  if configure "$@"; then echo "found all the same: $*" && exit 1; fi
  tr -s ' \n' ' ' <"$scratch/log" | grep -qF -- "$text" || { cat "$scratch/log" && echo "the log does not say: $text" && exit 1; }
}

case $way in
  pkg_config | moved)
    eval "set -- $(pkg-config --cflags --libs libembed)" # folders with spaces come escaped
    "$compiler" $sanitize "$consumer/consumer.c" "$@" -o "$scratch/consumer"
    # A user of the shared library is not handed the libraries that it uses itself.
    case $(pkg-config --libs libembed) in *openblas*) echo "pkg-config --libs names openblas" && exit 1 ;; esac
    case $blas:$(pkg-config --static --libs libembed) in OFF:*openblas*) echo "built without BLAS, and asks for it" && exit 1 ;; esac
    case $way:$(pkg-config --cflags --libs libembed) in moved:*installed*) echo "libembed.pc names the folder it was moved from" && exit 1 ;; esac
    ;;
  pkg_config_static) # a program without any shared library: the line that pkg-config gives, as it is
    if [ -n "$sanitize" ]; then not_here "sanitizers come as shared libraries"; fi
    eval "set -- $(pkg-config --static --cflags --libs libembed)"
    for flag in "$@"; do # openblas.pc names it; Debian's OpenBLAS does not bring it
      case $flag in -lgfortran) [ -e "$("$compiler" -print-file-name=libgfortran.a)" ] || not_here "no libgfortran.a: install gfortran" ;; esac
    done
    "$compiler" -static "$consumer/consumer.c" "$@" -o "$scratch/consumer" 2>"$scratch/log" || { cat "$scratch/log" && exit 1; }
    LD_LIBRARY_PATH=
    ;;
  cmake | moved_cmake) build_with_cmake -DCONSUMER_COMPONENTS= ;;
  cmake_shared) build_with_cmake -DCONSUMER_COMPONENTS=shared ;;
  cmake_static) build_with_cmake -DCONSUMER_COMPONENTS=static && LD_LIBRARY_PATH= ;;
  cmake_both) build_with_cmake "-DCONSUMER_COMPONENTS=shared;static" ;;
  cmake_unknown) refused_with "embed has no component wrong" -DCONSUMER_COMPONENTS=wrong && exit 0 ;;
  cmake_newer) refused_with 'compatible with requested version "0.99"' -DCONSUMER_COMPONENTS= -DCONSUMER_VERSION=0.99 && exit 0 ;;
  *) echo "no such way: $way" && exit 2 ;;
esac
export LD_LIBRARY_PATH
"$scratch/consumer"
