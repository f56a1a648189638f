# SPDX-License-Identifier: BSD-3-Clause
# The rows of every format are those of the file; an .embed file answers like it.
rows() { # rows FILE: its first rows as JSON, to $2
  done_by lookup "$1" --ids 0:3,654,1999 --json
  sed 's/"token":"[^"]*",//g; s/"token":null,//g' out >"$2"
}
rows "$glove" want
for out in t.embed t.safetensors t.npy t.npz t.bin T.W2V t.vec t.fifu t.gguf; do
  done_by convert "$glove" $out
  holds "$out: 2000 rows x 100  f32"
  is "$(wc -l <out)" 1
  case $out in *.safetensors | *.np?) holds "not kept: the tokens" ;; *) holds_not "not kept" ;; esac
  rows $out got
  cmp got want || wrong "$out has other rows"
done
tail -c +129 t.npy | head -c 400 >row0
tail -c +14 "$glove" | head -c 400 | cmp - row0 || wrong "row 0 of t.npy is not the file's"
for from in t.vec t.fifu t.gguf; do # tokens and all
  done_by convert $from back.bin
  cmp back.bin "$glove" || wrong "$from has other tokens or rows"
done
is "$(head -n 1 t.vec)" "2000 100"
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
refused 2 'info: takes no --dtype' info "$glove" --dtype f32
refused 2 'info: takes no --rows' info "$glove" --rows 0:1
[ ! -e u.npy ] && [ ! -e u.bin ] || wrong "a refused conversion wrote something"

# A format by its name, tables by other names, the answer as JSON.
done_by convert "$glove" t.txt --format npz --rename vectors=wte.weight --json
is "$(cat out)" '{"file":"t.txt","rows":2000,"dim":100,"dtype":"f32","not_kept":["the tokens"]}'
done_by info t.txt
holds 'table    wte.weight  f32  2000 rows x 100'
done_by convert t.txt named.embed --rename wte.weight=a=b --rename wte.weight=c
done_by info named.embed
holds 'table    a=b  f32'
refused 1 'there is no table to be renamed: "wte=x"' convert t.txt u.npy --rename wte=x
refused 1 'no format named "xyz" is written' convert "$glove" u.npy --format xyz
refused 2 '--rename takes OLD=NEW, not "wte"' convert t.txt u.npy --rename wte
refused 2 '--rename takes OLD=NEW, not "=x"' convert t.txt u.npy --rename =x
refused 2 '--rename takes OLD=NEW, not "x="' convert t.txt u.npy --rename x=
refused 2 'info: takes no --rename' info "$glove" --rename a=b
refused 1 'gguf has no type for int8_row rows' convert "$glove" u.gguf --dtype int8_row
refused 1 'finalfusion has no type for f16 rows' convert "$glove" u.fifu --dtype f16
refused 1 'has no token, and word2vec-text needs one' convert t.npy u.vec
[ ! -e u.npy ] && [ ! -e u.gguf ] && [ ! -e u.fifu ] && [ ! -e u.vec ] || wrong "a refused conversion wrote something"

# A limit on the size of files: the old file stays.
cp t.npy old.npy
(ulimit -f 200; "$embed" convert "$glove" old.npy >out 2>err) && wrong "written past the limit"
one_line 'writing it' "convert under a limit"
cmp old.npy t.npy || wrong "the old file has changed"
is "$(ls -A | grep -c 'embed-tmp$')" 0

# Both ends of a model with all that stands beside them: a GGUF file of Gemma's family, 4 tokens, 2 columns.
octal() { # octal NUMBER BYTES: little-endian, for printf
  number=$1 count=$2 bytes=
  while [ "$count" -gt 0 ]; do
    bytes=$bytes$(printf '\\%03o' $((number & 255)))
    number=$((number >> 8)) count=$((count - 1))
  done
  printf %s "$bytes"
}
string() { printf %s "$(octal ${#1} 8)$1"; }
pair() { printf %s "$(string "$1")$(octal 8 4)$(string "$2")"; }                    # KEY TEXT
real() { printf %s "$(string "$1")$(octal 6 4)$(octal $(($2)) 4)"; }                # KEY BITS
vector() { printf %s "$(string "$1")$(octal 1 4)$(octal "$2" 8)$(octal 0 4)$(octal "$3" 8)"; } # NAME N OFFSET
matrix() { printf %s "$(string "$1")$(octal 2 4)$(octal 2 8)$(octal "$2" 8)$(octal 0 4)$(octal "$3" 8)"; }
floats() { for bits in "$@"; do octal $((0x$bits)) 4; done; }
make_gguf() {
  printf "GGUF$(octal 3 4)$(octal 5 8)$(octal 7 8)"
  printf "$(pair general.architecture gemma2)$(pair general.name 'a "small" one')$(pair tokenizer.chat_template '{{ x }}')"
  printf "$(real gemma2.attention.layer_norm_rms_epsilon 0x358637BD)$(real gemma2.final_logit_softcapping 0x41F00000)"
  printf "$(string general.file_type)$(octal 4 4)$(octal 7 4)"
  printf "$(string tokenizer.ggml.tokens)$(octal 9 4)$(octal 8 4)$(octal 4 8)$(string a)$(string of)$(string the)$(string is)"
  printf "$(matrix token_embd.weight 4 0)$(matrix output.weight 4 32)$(vector output.bias 4 64)$(vector output_norm.weight 2 96)$(matrix position_embd.weight 3 128)"
}
make_gguf >model.gguf
while [ $(($(wc -c <model.gguf) % 32)) -ne 0 ]; do printf '\000' >>model.gguf; done
printf "$(floats 3F800000 40000000 40400000 40800000 40A00000 40C00000 BF800000 3F000000)" >>model.gguf
printf "$(floats 3F000000 3F800000 3FC00000 40000000 40200000 40400000 C0000000 3E800000)" >>model.gguf
printf "$(floats 3E800000 3F000000 3F400000 BF800000)$(octal 0 8)$(octal 0 8)$(floats 3F800000 40000000)$(octal 0 8)$(octal 0 8)$(octal 0 8)" >>model.gguf
printf "$(floats 3DCCCCCD 3E4CCCCD 3E99999A 3ECCCCCD 3F000000 3F19999A)$(octal 0 8)" >>model.gguf
facts() { # facts FILE: what info says of the model, whatever the format, to $2
  done_by info "$1"
  grep -E '^(table|head|bias|position|type|norm|scale|soft-cap|padding) ' out >"$2"
}
facts model.gguf want
is "$(wc -l <want)" 7
for line in 'bias     output.bias  f32 [4]' 'norm     output_norm.weight  f32 [2]  RMS norm, epsilon 1e-06' 'soft-cap logits are soft-capped at 30' \
  'scale    lookups are scaled by 1.41421354' 'head     output.weight  f32  untied' 'position position_embd.weight  f32 [3, 2]'; do
  grep -qF -- "$line" want || wrong "not told of model.gguf: $line"
done
done_by lookup model.gguf --ids 0:4 --json
sed 's/"token":"[^"]*",//g; s/"token":null,//g' out >rows
done_by lookup model.gguf --ids 1,3 --npy h.npy
done_by logits model.gguf --hidden h.npy --npy z.npy
for out in m.embed m.safetensors m.gguf again.safetensors again.embed by-embed.gguf; do
  from=model.gguf
  case $out in again.safetensors) from=m.embed ;; again.embed) from=m.safetensors ;; by-embed.gguf) from=m.embed ;; esac
  done_by convert $from $out
  facts $out got
  cmp got want || wrong "$out describes another model: $(cat got)"
  done_by lookup $out --ids 0:4 --json
  sed 's/"token":"[^"]*",//g; s/"token":null,//g' out | cmp - rows || wrong "$out has other rows"
  done_by logits $out --hidden h.npy --npy got.npy
  cmp got.npy z.npy || wrong "$out has other logits"
  done_by verify $out
  grep -aq 'a "small" one\|a \\u0022small\\u0022 one' $out || wrong "$out has lost the model's name"
  ! grep -aq 'general.file_type' $out || wrong "$out says what type the tensors of another file had"
done
done_by lookup m.embed --ids 2 --json
holds '"token":"the"'
for from in m.gguf by-embed.gguf; do
  done_by lookup $from --ids 2 --json
  holds '"token":"the"'
done
done_by convert model.gguf m.npz
holds "not kept: the tokens, the family's scales and norm, the metadata"
done_by info m.npz
holds 'head     output.weight  f32  untied'
holds 'bias     output.bias  f32 [4]'
# Names of fastText's and llama2.c's readers are known again elsewhere; what no name says is told.
done_by convert model.gguf fast.npz --rename token_embd.weight=input --rename output.weight=output
holds "not kept: the tokens, the family's scales and norm, the metadata"
done_by info fast.npz
holds 'table    input  f32  4 rows x 2'
holds 'head     output  f32  untied'
done_by convert model.gguf c.safetensors --rename token_embd.weight=token_embedding_table --rename output.weight=wcls --rename output_norm.weight=rms_final_weight
holds "not kept: the tokens"
done_by info c.safetensors
for line in 'table    token_embedding_table' 'head     wcls  f32  untied' 'norm     rms_final_weight'; do holds "$line"; done
done_by convert model.gguf odd.embed --rename token_embd.weight=first --rename output.weight=second --rename output_norm.weight=third
holds_not "not kept"
done_by convert odd.embed odd.npz
holds "which one is the head, which one is the norm"
done_by convert model.gguf m.npy
holds "not kept: the head, the head's bias, the positions, the norm, the tokens, the family's scales and norm, the metadata"
done_by convert model.gguf cut.embed --rows 1:3 --dtype f16
done_by info cut.embed
holds 'table    token_embd.weight  f16  2 rows x 2'
holds 'bias     output.bias  f32 [1, 2]'
holds 'norm     output_norm.weight  f32 [2]'
holds 'position position_embd.weight  f32 [3, 2]'
done_by logits cut.embed --hidden h.npy --npy cut.npy
done_by lookup z.npy --ids 0 --json
sed 's/.*"vector":\[//; s/\].*//' out | cut -d, -f2,3 >a
done_by lookup cut.npy --ids 0 --json
sed 's/.*"vector":\[//; s/\].*//' out | cmp - a || wrong "a range of the head has other logits"
# Product-quantised rows, [1, 4], [2, 3], [2, 4]: in place, and floats where they are written.
{ printf '\004\000\000\000\076\000\000\000\000\000\000\000' &&
  printf '\000\000\000\000\000\000\000\000\002\000\000\000\002\000\000\000\002\000\000\000\003\000\000\000\000\000\000\000' &&
  printf '\001\000\000\000\012\000\000\000\000\000\000\000' &&
  printf '\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\100' && printf '\000\001\001\000\001\001'; } >codes.fifu
done_by info codes.fifu
holds 'pq  3 rows x 2  6 bytes'
done_by convert codes.fifu codes.npy
holds 'codes.npy: 3 rows x 2  f32'
done_by convert codes.fifu some.npy --rows 1:3
holds 'some.npy: 2 rows x 2  f32'
tail -c 24 codes.npy >a
{ printf '\000\000\200\077\000\000\200\100' && tail -c 16 some.npy; } | cmp - a || wrong "codes.fifu has other rows"
refused 1 'pq rows are codes' convert codes.fifu no.npy --dtype pq
# A block of text is written by whichever thread is free; what the disk refuses is told all the same, and nothing is left.
for threads in 1 2; do
  (ulimit -f 100 && refused 1 'limited.vec: writing it: ' convert "$glove" limited.vec --threads $threads) || exit 1
  [ "$(ls -A | grep -c limited)" -eq 0 ] || wrong "something is left of limited.vec"
done
