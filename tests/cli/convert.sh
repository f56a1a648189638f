# SPDX-License-Identifier: BSD-3-Clause
# The rows of every format are those of the file; an .embed file answers like it.
rows() { # rows FILE: its first rows as JSON, to $2
  done_by lookup "$1" --ids 0:3,654,1999 --json
  sed 's/"token":"[^"]*",//g; s/"token":null,//g' out >"$2"
}
rows "$glove" want
for out in t.embed t.safetensors t.npy t.bin T.W2V; do
  done_by convert "$glove" $out
  holds "$out: 2000 rows x 100  f32"
  is "$(wc -l <out)" 1
  case $out in *.safetensors | *.npy) holds "not kept: the tokens" ;; *) holds_not "not kept" ;; esac
  rows $out got
  cmp got want || wrong "$out has other rows"
done
tail -c +129 t.npy | head -c 400 >row0
tail -c +14 "$glove" | head -c 400 | cmp - row0 || wrong "row 0 of t.npy is not the file's"
cmp t.bin "$glove" || wrong "word2vec's own bytes do not come back"
is "$(stat -c %s t.safetensors)" "$((2000 * 100 * 4 + 128))"

done_by neighbors "$glove" king -k 5
cp out want
done_by neighbors t.embed king -k 5
cmp out want || wrong "neighbors of t.embed"
done_by verify t.embed

done_by convert t.embed half.embed --dtype f16 --threads 1
holds "2000 rows x 100  f16"
done_by info half.embed
holds "f16  2000 rows x 100"
done_by convert t.embed int8.embed --dtype int8_row
done_by convert int8.embed back.npy --dtype f32
done_by lookup int8.embed --ids 0:2000 --npy decoded.npy
tail -c +129 back.npy >a
tail -c +129 decoded.npy | cmp - a || wrong "int8 rows come back as something else"

# A range keeps its tokens and gives them new ids.
done_by convert "$glove" part.embed --rows 654:700
holds "46 rows x 100"
done_by lookup part.embed --ids 0 --json
holds '"id":0,"token":"king"'
done_by convert int8.embed part8.embed --rows 654:700
done_by lookup part8.embed --ids 0 --json
cp out a
done_by lookup int8.embed --ids 654 --json
sed 's/"id":654/"id":0/' out | cmp - a || wrong "rows of an int8 table"

# A file may be rewritten from itself.
cp "$glove" self.bin
done_by convert self.bin self.bin --rows 0:1000
done_by info self.bin
holds "1000 rows x 100"
is "$(ls -A | grep -c 'embed-tmp$')" 0

refused 1 'no format that is written' convert "$glove" t.xyz
refused 1 'nowhere/t.npy: ' convert "$glove" nowhere/t.npy
refused 1 'safetensors has no type for int8_row rows' convert "$glove" t.safetensors --dtype int8_row
refused 1 'has no token, and word2vec needs one' convert t.npy u.bin
refused 1 'reach past the vocabulary of 2000 rows' convert "$glove" u.npy --rows 1999:2001
refused 1 'is no regular file' convert . u.npy
refused 2 'there is no dtype "f31"' convert "$glove" u.npy --dtype f31
refused 2 '--rows takes a range a:b with a < b, not "5"' convert "$glove" u.npy --rows 5
refused 2 'not "5:5"' convert "$glove" u.npy --rows 5:5
refused 2 '1 of the 2 operands are missing' convert "$glove"
refused 2 'takes no --json' convert "$glove" u.npy --json
refused 2 'info: takes no --dtype' info "$glove" --dtype f32
refused 2 'info: takes no --rows' info "$glove" --rows 0:1
[ ! -e u.npy ] && [ ! -e u.bin ] || wrong "a refused conversion wrote something"

# A limit on the size of files: the old file stays.
cp t.npy old.npy
(ulimit -f 200; "$embed" convert "$glove" old.npy >out 2>err) && wrong "written past the limit"
one_line 'writing it' "convert under a limit"
cmp old.npy t.npy || wrong "the old file has changed"
is "$(ls -A | grep -c 'embed-tmp$')" 0
