#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# example.sh NAME PREFIX SCRATCH LIBDIR COMPILER SANITIZERS: compiles NAME.c against nothing but `pkg-config libembed`, as README.md says,
# and runs it. 77 = skipped.
set -eu
name=$1 prefix=$2 scratch=$3 libdir=$4 compiler=$5 sanitize=${6:+-fsanitize=$6}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
glove=$here/../data/glove-2000x100.bin
mkdir -p "$scratch"
cd "$scratch"
PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PKG_CONFIG_PATH LD_LIBRARY_PATH
eval "set -- $(pkg-config --cflags --libs libembed)" # folders with spaces come escaped
compile() { "$compiler" $sanitize -Wall -Wextra -Werror "$@"; }
says() { # WANTED: what the program said, whole
  [ "$said" = "$1" ] || { printf '%s\n--- is not\n%s\n' "$said" "$1" && exit 1; }
}

case $name in
  plugin)
    if [ -n "$sanitize" ]; then echo "skipped: a sanitizer's run-time cannot come with a plugin" && exit 77; fi
    compile -shared -fPIC -fvisibility=hidden "$here/plugin.c" "$@" -o plugin.so
    compile "$here/plugin_host.c" -o plugin_host -ldl
    said=$(./plugin_host ./plugin.so) || { echo "exit status $?" && exit 1; }
    says "20 rounds"
    ;;
  small_stack)
    if [ -n "$sanitize" ]; then echo "skipped: sanitizers need stacks of their own size" && exit 77; fi
    compile "$here/small_stack.c" "$@" -pthread -o small_stack
    said=$(ulimit -s 128 && ./small_stack "$glove") || { echo "exit status $?" && exit 1; }
    says "main's limit 128 KiB, a thread of 128 KiB: done"
    ;;
  executor)
    compile "$here/executor.c" "$@" -pthread -o executor
    said=$(./executor) || { echo "$said" && exit 1; }
    says "the thread's own number: the same bits as alone
any worker that is free: the same bits as alone"
    ;;
  decode)
    compile "$here/decode.c" "$@" -o decode
    said=$(./decode "$glove" king 8)
    says "$(cat "$here/decode.txt")"
    if ./decode "$glove" no-such-word 3 2>err; then exit 1; fi
    grep -q no-such-word err
    ;;
  answers)
    compile "$here/answers.c" "$@" -o answers
    said=$(./answers "$glove" king queen)
    says "best: prince queen son
drawn: prince
queen: log-probability -9.837, rank 3
entropy: 0.00152"
    if ./answers "$glove" king no-such-word 2>err; then exit 1; fi
    grep -q no-such-word err
    ;;
  first)
    compile "$here/first.c" "$@" -o first
    said=$(./first "$glove" king)
    says "king 37.4250
prince 27.6650
queen 27.5883"
    ;;
  story)
    data=$here/../../../shared/data/stories260k
    if [ ! -d "$data" ]; then echo "skipped: no model in ../shared/data" && exit 77; fi
    compile "$here/story.c" "$@" -lm -o story
    ./story -i "$data/stories260K.bin" "$data/tok512.bin" >ids # the 256 that follow BOS
    od -An -v -t d4 -w4 -j 132 "$data/ids_257_i32.npy" | tr -d ' ' >published
    [ "$(wc -l <published)" -eq 256 ] && diff published ids
    said=$(./story "$data/stories260K.bin" "$data/tok512.bin")
    says "$(tail -n +3 "$data/greedy.txt")" # behind BOS
    ./story -t 1 -p 0.9 -s 4 "$data/stories260K.bin" "$data/tok512.bin" >other
    ./story -t 1 -p 0.9 -s 4 "$data/stories260K.bin" "$data/tok512.bin" | cmp - other # the same seed, the same story
    ./story -t 1 -p 0.9 -s 5 "$data/stories260K.bin" "$data/tok512.bin" >another
    if [ "$(cat other)" = "$said" ] || cmp -s other another; then echo "another seed tells the same story" && exit 1; fi
    ./story -t 1 -p 0.0001 -s 5 "$data/stories260K.bin" "$data/tok512.bin" >greedy # the least nucleus is one token
    [ "$(cat greedy)" = "$said" ]
    head -c 100000 "$data/stories260K.bin" >cut
    if ./story cut "$data/tok512.bin" 2>err; then exit 1; fi
    grep -q '^cut: no whole checkpoint' err
    if ./story "$data/stories260K.bin" cut 2>err; then exit 1; fi
    grep -q '^cut: no tokenizer' err
    ;;
  train)
    compile "$here/train.c" "$@" -o train
    said=$(./train)
    says "loss falls from 7 to below 2"
    ;;
  *) echo "no such example: $name" && exit 2 ;;
esac
