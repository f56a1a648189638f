# SPDX-License-Identifier: BSD-3-Clause
done_by info "$glove"
is "$(sed -n 2,3p out)" "format   word2vec
tensors  1"
holds "f32  2000 rows x 100  800000 bytes"
holds "tied: the table itself"

done_by info "$glove" --json
is "$(wc -l <out)" 1
holds '{"format":"word2vec","tensors":1,"table":{"name":"'
holds '","dtype":"f32","rows":2000,"vocab":2000,"dim":100,"bytes":800000},"head":{"name":"'
holds '","tied":true,"dtype":"f32"},"beside":{},"conventions":{"lookup_scale":1,'
holds '"median_norm":'
holds ',"first":[]},"notes":['

# Rows that look never trained, and why: all zeros, equal ones, one that is far shorter than the others.
cat >rows.vec <<'VEC'
10 2
a 1 2
b 0 0
c 3 -1
d 1 2
e 2 2
f 0.01 0.01
g 1 3
h -2 1
i 2 -3
j 4 1
VEC
done_by info rows.vec
holds "unused   4 rows look never trained: 1 zero, 2 equal to others, 1 short (the median norm is 2.82843)"
holds "         0 a (equal), 1 b (zero), 3 d (equal), 5 f (short)"
holds "tokens   10"
done_by info rows.vec --json
holds '"tokens":10,"never_trained":{"rows":4,"zero":1,"equal":2,"short":1,"unused":0,"broken":0,"median_norm":2.82842708,"first":[{"id":0,"token":"a","norm":2.23606801,"is":["equal"]},'
# Tokens named unused lend their direction to others that were left alone.
cat >unused.vec <<'VEC'
9 2
<unused0> 1 0
<unused1> 1 0.01
<unused2> 1 -0.01
<unused3> 1 0.3
a 2 0.001
b 0 1
c -1 0
d 1 1
e 1 -2
VEC
done_by info unused.vec
holds "unused   3 rows look never trained: 3 unused (cosine with the 4 tokens named unused from 0.9974)"
holds "         0 <unused0> (unused), 1 <unused1> (unused), 4 a (unused)"
printf '2 1\na \000\000\300\177b \000\000\200\077' >odd.bin
done_by info odd.bin
holds "unused   1 rows look never trained: 1 broken (NaN or infinite)"

# Formats that no content tells: their name and shape are given.
printf '\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\100' >rows.f32
refused 1 "rows.f32: " info rows.f32
done_by info rows.f32 --format raw --dim 2
holds "f32  2 rows x 2"
done_by info --vocab 1 --format raw rows.f32
holds "f32  1 rows x 4"
done_by lookup rows.f32 --format raw --dim 2 --ids 1 --json
is "$(cat out)" '[{"id":1,"token":null,"vector":[3,4]}]'
done_by neighbors rows.f32 '#0' --format raw --dim 2 -k 1
done_by verify rows.f32 --format raw --dim 2
done_by convert rows.f32 rows.npy --from raw --dim 2
done_by convert rows.f32 out.bin --from raw-f16 --dim 4 --format npy
done_by info out.bin
holds "f16  2 rows x 4"
refused 1 "out.bin: 3 rows are expected" info out.bin --vocab 3
refused 1 "rows.f32: " info rows.f32 --format nothing
refused 2 "--dim takes a number from 1" info rows.f32 --format raw --dim 0
refused 2 "--vocab takes a number from 1" info rows.f32 --format raw --vocab x
refused 2 "takes no --from" info rows.f32 --from raw
refused 2 "takes no --dim" help info --dim 2

# Tokens beside a model, and roles of other names.
mkdir model
done_by convert "$glove" model/a.safetensors --rows 0:3 --rename vectors=E
printf 'x\n\ny z\n' >model/vocab.txt
done_by info model/a.safetensors
holds "tokens   3"
holds "vocab.txt: 3 tokens are those of this file, which lies beside"
done_by neighbors model/a.safetensors "y z" -k 1
printf '{"model":{"vocab":{"q":0,"r":2}}}' >model/tokenizer.json
done_by info model/a.safetensors
holds "tokens   2, 1 of the valid ids have none"
done_by lookup model/a.safetensors --ids 1,2 --json
holds '[{"id":1,"token":null,"vector":['
holds '{"id":2,"token":"r","vector":['

cp "$glove" ./-name
done_by --json info -- -name
holds '"rows":2000'
done_by info --threads 1 "$glove"

refused 1 "./none.bin: " info ./none.bin
is "$(grep -o none.bin err | wc -l)" 1
head -c 5000 "$glove" >cut.bin
refused 1 "cut.bin: " info cut.bin
printf 'no such format' >text
refused 1 "text: " info text
: >empty
refused 1 "empty: " info empty
refused 1 "embed: .: " info .
EMBED_ISA=sse9
export EMBED_ISA
refused 1 "EMBED_ISA: " info "$glove"
