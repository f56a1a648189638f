#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# baseline.sh check ROOT SCRATCH LIBRARY: the library breaks nothing of the committed ABI (tests/abi/libembed.amd64.abi).
# baseline.sh write ROOT SCRATCH LIBRARY: writes that file and tests/abi/symbols.txt anew. Only while the ABI is open, or for what is new.
# 77 = skipped: no abigail-tools here.
set -eu
do=$1 root=$2 scratch=$3 library=$4
baseline=$root/tests/abi/libembed.amd64.abi
mkdir -p "$scratch"
here() { command -v "$1" >/dev/null || { echo "skipped: no $1 here: install abigail-tools" && exit 77; }; }
described() { # a stripped library compares equal to everything
  readelf -SW "$library" | grep -q '\.debug_info' || { echo "$library has no debug information: build with -g" && exit 1; }
}

case $do in
  write)
    here abidw
    described
    abidw --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs --drop-private-types --headers-dir "$root/include" --out-file "$scratch/new.abi" "$library"
    mv "$scratch/new.abi" "$baseline"
    {
      echo '# SPDX-License-Identifier: BSD-3-Clause'
      nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@@/, "@", $3); print $3 }' | LC_ALL=C sort
    } >"$root/tests/abi/symbols.txt"
    ;;
  check)
    if grep -nE "path='/|'/[a-z]+/" "$baseline"; then echo "^ a path of the machine that made the baseline" && exit 1; fi
    here abidiff
    described
    # Exit status other than 0 with --no-added-syms: somebody's program would break.
    abidiff --exported-interfaces-only --no-show-locs --drop-private-types --headers-dir2 "$root/include" --no-added-syms "$baseline" "$library"
    ;;
esac
