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
holds '","tied":true,"dtype":"f32"},"notes":['

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
