#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symbols.sh ROOT SCRATCH NM LIBRARY ARCHIVE: what libembed.so exports = the functions of include/embed/*.h = the names in
# cmake/libembed.map = tests/abi/symbols.txt, which has their versions too; each meets NULL in tests/api/null_test.c; libembed.a has no global name outside embed_; neither holds a variable that changes.
set -eu
root=$1 scratch=$2 nm=$3 library=$4 archive=$5
export LC_ALL=C
mkdir -p "$scratch"
cd "$scratch"
failed=0

cat "$root"/include/embed/*.h | grep -v '^[[:space:]]*#' | grep -E 'EMBED_(API|FN) ' | grep -oE 'embed_[a-z0-9_]+\(' | tr -d '(' | sort >headers
grep -oE '^[[:space:]]+embed_[a-z0-9_]+;' "$root/cmake/libembed.map" | tr -d ' \t;' | sort >map
"$nm" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >exported
for list in headers map exported; do
  test -s $list || { echo "the list of $list is empty" && failed=1; }
  if uniq -d $list | grep .; then echo "named twice in $list" && failed=1; fi
done
compare() { # names of $1 missing in $2
  if comm -23 "$1" "$2" | grep .; then echo "^ in the $1, not in the $2" && failed=1; fi
}
compare headers map
compare map headers
compare headers exported
compare exported headers

"$nm" -D --defined-only "$library" | awk '$2 != "A" { sub(/@@/, "@", $3); print $3 }' | sort >versioned
grep -v '^#' "$root/tests/abi/symbols.txt" | sort >committed
compare versioned committed
compare committed versioned

# Programs that were built against other sizes of options: every struct that begins with its size is in one of these lists.
awk -f "$root/tests/abi/api.awk" "$root"/include/embed/*.h | awk -F'\t' '$1 == "field" && $3 == "size" { print $2 }' | sort >sized
cat "$root/tests/api/calls.h" "$root/tests/abi/options_test.c" | grep -oE 'sizeof\(embed_[a-z_]+\)' | grep -oE 'embed_[a-z_]+' | sort -u >resized
compare sized resized

if grep '\*' "$root/cmake/libembed.map" | grep -v '/\*' | grep -vE '^[[:space:]]*\*;$'; then echo "^ a wildcard in the map" && failed=1; fi

# FF-05: each of them is tried with NULL.
cat "$root/tests/api/null_test.c" "$root/tests/api/calls.h" | grep -oE 'embed_[a-z0-9_]+\(' | tr -d '(' | sort -u >tried
comm -23 headers tried >untried
if grep . untried; then echo "^ not named in tests/api/null_test.c" && failed=1; fi

# The archive (its names are C's global name space for whoever links it).
"$nm" -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >globals
if grep -vE '^(embed_|__x86\.get_pc_thunk\.)' globals; then echo "^ global in libembed.a, outside embed_" && failed=1; fi

# Variables that change are state shared by all contexts: the CPU word and the guards around BLAS are the only ones.
"$nm" --format=sysv --defined-only "$archive" 2>/dev/null | awk -F'|' '
  /^[^|]*\.o:?$/ || / from .*\[.*\]:/ { object = $0; next }
  $NF ~ /^\.?(bss|data|tbss|tdata|\*COM\*)/ && $NF !~ /^\.data\.rel\.ro/ { gsub(/ /, "", $1); print $1, object }' |
  grep -vE '^(embed__cpu\.)?word[. ].*cpu\.c|gemm_blas\.c' >variables || true
if grep . variables; then echo "^ variables that change" && failed=1; fi
exit $failed
