#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: cmake/demo.sh BUILD_FOLDER
# What libembed does, in a minute, on 2,000 words of GloVe.
set -eu
build=${1:?usage: cmake/demo.sh BUILD_FOLDER}
embed=$build/src/cli/embed
glove=$(dirname "$0")/../tests/data/glove-2000x100.bin
[ -x "$embed" ] || { echo "demo.sh: $embed is not there: build with EMBED_CLI=ON first" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heading() { printf '\n== %s\n\n' "$1"; }

heading "What the file is"
"$embed" info "$glove"

heading "Three views of a lookup agree, and the head mirrors the table"
"$embed" verify "$glove"

for word in king water three; do
  heading "Nearest to \"$word\" (exact cosine)"
  "$embed" neighbors "$glove" "$word" -k 5
done

heading "king - man + woman"
"$embed" analogy "$glove" man king woman -k 5

heading "The tied head on row 654, \"king\": logits of a row are its dot products with the table"
"$embed" lookup "$glove" --ids 654 --npy "$work/king.npy"
"$embed" topk "$glove" --hidden "$work/king.npy" -k 5

heading "Time, beside what this machine can read"
if [ -x "$build/bench/bench_op" ]; then
  "$build/bench/bench_op" --only demo
else
  echo "(build with EMBED_BENCH=ON to see it)"
fi
