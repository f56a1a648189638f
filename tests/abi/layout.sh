#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# layout.sh check ROOT SCRATCH: layout.c asserts every public struct, field and constant that the headers have.
# layout.sh write ROOT SCRATCH COMPILER: writes it anew (COMPILER makes 64 and, with -m32, 32 bit). Only while the ABI is open.
set -eu
do=$1 root=$2 scratch=$3
mkdir -p "$scratch"
awk -f "$root/tests/abi/api.awk" "$root"/include/embed/*.h >"$scratch/api"
layout=$root/tests/abi/layout.c
tab=$(printf '\t')

if [ "$do" = check ]; then
  awk -F'\t' '$1 == "struct" { print $2 } $1 == "field" { print $2, $3 } $1 == "const" { print $2 }' "$scratch/api" | LC_ALL=C sort >"$scratch/want"
  sed -n -e 's/^SIZE(\([a-z0-9_]*\), [0-9]*, [0-9]*);$/\1/p' -e 's/^AT(\([a-z0-9_]*\), \([a-z0-9_]*\), [0-9]*, [0-9]*);$/\1 \2/p' \
    -e 's/^IS(\([A-Z0-9_]*\), -*[0-9]*);$/\1/p' "$layout" | LC_ALL=C sort >"$scratch/got"
  [ -s "$scratch/want" ] || { echo "no structs in the headers" && exit 1; }
  diff "$scratch/want" "$scratch/got" || { echo "< in the headers, > in tests/abi/layout.c" && exit 1; }
  exit 0
fi

# Every size and offset as the value of a variable, read from the assembler's text.
compiler=$4
{
  echo '#include <embed/embed.h>'
  awk -F'\t' '$1 == "struct" { print "const int at_" n++ " = (int)sizeof(" $2 ");" }
    $1 == "field" { print "const int at_" n++ " = (int)offsetof(" $2 ", " $3 ");" }' n=0 "$scratch/api"
} >"$scratch/ask.c"
for bits in 64 32; do
  "$compiler" -m$bits -ffreestanding -std=c11 -I"$root/include" -S "$scratch/ask.c" -o - | awk '
    /^at_[0-9]+:/ { sub(/:.*/, ""); name = $1 }
    name && $1 == ".zero" { print name, 0; name = "" }
    name && $1 == ".long" { print name, $2; name = "" }' | sed 's/^at_//' | sort -n | cut -d' ' -f2 >"$scratch/numbers.$bits"
done
grep -E "^(struct|field)$tab" "$scratch/api" >"$scratch/asked"
[ "$(wc -l <"$scratch/asked")" = "$(wc -l <"$scratch/numbers.64")" ] && [ "$(wc -l <"$scratch/asked")" = "$(wc -l <"$scratch/numbers.32")" ]
{
  cat <<'HEAD'
/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of every public struct on 64-bit and 32-bit machines, and the values of all constants: compiled, never run.
 * Until the release that closes LIBEMBED_0.1 it is written by `cmake --build build --target abi_baseline`; after that a line
 * changes only with the soname, and a new field is a new line. */
#include <embed/embed.h>
#include <stddef.h>

#if UINTPTR_MAX == UINT64_MAX
#define PICK(on_64_bits, on_32_bits) (on_64_bits)
#else
#define PICK(on_64_bits, on_32_bits) (on_32_bits)
#endif
#define SIZE(type, on_64_bits, on_32_bits)      _Static_assert(sizeof(type) == PICK(on_64_bits, on_32_bits), #type " has another size")
#define AT(type, field, on_64_bits, on_32_bits) _Static_assert(offsetof(type, field) == PICK(on_64_bits, on_32_bits), #type "." #field " has moved")
#define IS(constant, value)                     _Static_assert((constant) == (value), #constant " was renumbered")
HEAD
  paste "$scratch/asked" "$scratch/numbers.64" "$scratch/numbers.32" | awk -F'\t' '
    $1 == "struct" { print "\nSIZE(" $2 ", " $(NF - 1) ", " $NF ");" }
    $1 == "field" { print "AT(" $2 ", " $3 ", " $(NF - 1) ", " $NF ");" }'
  echo
  echo '/* Values are never renumbered. */'
  awk -F'\t' '$1 == "const" { print "IS(" $2 ", " $3 ");" }' "$scratch/api"
} >"$scratch/layout.c"
mv "$scratch/layout.c" "$layout"
