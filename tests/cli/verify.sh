# SPDX-License-Identifier: BSD-3-Clause
done_by verify "$glove"
is "$(cut -c1-16 out)" "three views  ok 
head mirror  ok 
row audit    ok "
holds "(2000 rows), = one-hot mix (2000 rows)"
holds "tied head: unit vectors give back 100 of 100 columns exactly"
holds "2000 rows, 0 zero, 0 non-finite, 0 duplicate"
done_by verify "$glove" --json --threads 2
holds '{"ok":true,"checks":[{"name":"three views","ok":true,"detail":"'
holds '{"name":"row audit","ok":true,"detail":"2000 rows, 0 zero, 0 non-finite, 0 duplicate"}]}'

# 1, 2 / 0, -0 / 1, 2 / 3, 4: a zero row and a duplicate are told, and are no fault.
one='\000\000\200\077' two='\000\000\000\100' three='\000\000\100\100' zero='\000\000\000\000' minus='\000\000\000\200'
nan='\000\000\300\177' inf='\000\000\200\177'
printf "4 2\na $one${two}b $zero${minus}c $one${two}d $three$one" >odd.bin
done_by verify odd.bin
holds "4 rows, 1 zero (1), 0 non-finite, 1 duplicate (2)"

# A row that is not finite is a fault of the file, and not one of the other two checks.
printf "3 2\na $one${two}b $nan${one}c $three$inf" >nan.bin
"$embed" verify nan.bin >out 2>err && wrong "a table with NaN passes"
one_line "nan.bin: row audit failed: 3 rows, 0 zero, 2 non-finite (1, 2), 0 duplicate" "verify nan.bin"
holds "2 of 2 columns left out of the mix: not finite"
holds "2 of 3 rows left out: not finite"
is "$(grep -c ' ok ' out)" 2
"$embed" verify nan.bin --json >out 2>err
is $? 1
one_line "row audit failed" "verify nan.bin --json"
holds '{"ok":false,"checks":['
holds '{"name":"row audit","ok":false,'

# The sums of an .embed file: one byte of each section in turn, in the file's order of sections, and the section is named.
flip() { # flip FILE BYTE: that byte with its lowest bit the other way
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\$(printf %o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>dd.log
}
number() { od -An -tu4 -j "$2" -N 4 "$1" | tr -d ' '; } # number FILE BYTE: the 32 bits there
done_by convert "$glove" good.embed
done_by verify good.embed
is "$(head -n 1 out)" "checksums    ok      every section has the sum that the directory says"
sections=$(number good.embed 12)
is "$sections" 2
i=0
while [ $i -lt "$sections" ]; do
  entry=$((64 + 96 * i))
  cp good.embed bad.embed
  flip bad.embed $(($(number good.embed $((entry + 8))) + $(number good.embed $((entry + 16))) / 2))
  "$embed" verify bad.embed >out 2>err && wrong "a damaged section $i passes"
  case $(number good.embed $entry) in 1) kind='(table "vectors")' ;; 2) kind='(tokens)' ;; *) kind='?' ;; esac
  one_line "bad.embed: checksums failed: section $i $kind: " "verify bad.embed, section $i"
  "$embed" verify bad.embed --json >out 2>err && wrong "a damaged section $i passes as JSON"
  holds '{"ok":false,"checks":[{"name":"checksums","ok":false,"detail":"section '
  i=$((i + 1))
done
