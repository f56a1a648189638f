# SPDX-License-Identifier: BSD-3-Clause
npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; } # TYPE SHAPE: the header

# What all logits say of three targets: king, son and king again.
done_by lookup "$glove" --ids 654,654,1948 --npy h.npy
{ npy '<i4' '(3,)' && printf '\216\002\000\000\130\002\000\000\216\002\000\000'; } >next.npy
done_by logits "$glove" --hidden h.npy --npy z.npy
done_by lookup z.npy --ids 0:3 --json
sed 's/"vector":\[/\n/g' out | sed -n '2,$s/\].*//p' >logits
for target in 655 601 655; do
  read -r row
  echo "$row" | tr , '\n' | awk -v t=$target '{ z[NR] = $1; if (NR == 1 || $1 > m) m = $1 }
    END { for (i in z) { e = exp(z[i] - m); s += e; w += e * z[i]; r += z[i] > z[t] } l = m + log(s); printf "%.9f %d %.9f\n", z[t] - l, 1 + r, l - w / s }'
done <logits >want
done_by score "$glove" --hidden h.npy --targets next.npy
is "$(sed -n 1p out | tr -s ' ')" " id token logprob rank entropy"
is "$(awk '$1 ~ /^[0-9]+$/ { printf "%s %s ", $1, $2 }' out)" "654 king 600 son 654 king "
awk '$1 ~ /^[0-9]+$/ { print $3, $4, $5 }' out >got
while read -r logprob rank entropy <&3 && read -r got_logprob got_rank got_entropy <&4; do
  near "$got_logprob" "$logprob" 1e-5
  is "$got_rank" "$rank"
  near "$got_entropy" "$entropy" 1e-5
done 3<want 4<got
is "$(wc -l <got)" 3
sum=$(awk '{ s += $1 } END { printf "%.9f", s }' want)
last=$(tail -1 out)
case $last in "log-probability "*" of 3 tokens, perplexity "*) ;; *) wrong "the last line: $last" ;; esac
near "$(echo "$last" | cut -d' ' -f2)" "$sum" 3e-5
near "$(echo "$last" | cut -d' ' -f7)" "$(awk -v s="$sum" 'BEGIN { print exp(-s / 3) }')" 1e-3
for threads in 1 3; do
  cp out before
  done_by score "$glove" --hidden h.npy --targets next.npy --threads $threads
  cmp out before || wrong "$threads threads give something else"
done

# Every integer type of numpy says the same.
done_by lookup "$glove" --ids 5,6 --npy two.npy
{ npy '|i1' '(2,)' && printf '\001\144'; } >target.npy
done_by score "$glove" --hidden two.npy --targets target.npy --json
cp out want
holds '{"logprob":-'
is "$(grep -o '"id":[0-9]*,' out | tr -d '\n')" '"id":1,"id":100,'
while read -r type bytes; do
  { npy "$type" '(2,)' && printf "$bytes"; } >target.npy
  done_by score "$glove" --hidden two.npy --targets target.npy --json
  cmp out want || wrong "targets of $type give something else"
done <<'LIST'
|u1 \001\144
<i2 \001\000\144\000
>u2 \000\001\000\144
<u4 \001\000\000\000\144\000\000\000
>i4 \000\000\000\001\000\000\000\144
<i8 \001\000\000\000\000\000\000\000\144\000\000\000\000\000\000\000
>u8 \000\000\000\000\000\000\000\001\000\000\000\000\000\000\000\144
LIST

# The language model of llama2.c on the text that it wrote itself: each token is the best, and their mean log-probability is known.
story=$here/../../../shared/data/stories260k
if [ -d "$story" ]; then
  { npy '<f4' '(512, 64)' && tail -c +29 "$story/stories260K.bin" | head -c 131072; } >table.npy
  { npy '<i4' '(256,)' && tail -c 1024 "$story/ids_257_i32.npy"; } >written.npy
  done_by score table.npy --hidden "$story/hidden_256x64_f32.npy" --targets written.npy --json
  is "$(grep -o '"rank":1,' out | wc -l)" 256
  near "$(sed 's/{"logprob":\([^,]*\),.*/\1/' out)" -117.080626995 1e-3
  near "$(sed 's/.*"perplexity":\([^,]*\),.*/\1/' out)" 1.579875741 1e-5
fi

npy '<f4' '(0, 100)' >none.npy
npy '<i4' '(0,)' >no.npy
done_by score "$glove" --hidden none.npy --targets no.npy --json
is "$(cat out)" '{"logprob":0,"perplexity":null,"targets":[]}'
done_by score "$glove" --hidden none.npy --targets no.npy
is "$(tail -1 out)" "log-probability 0.000000 of 0 tokens"

# A hidden state with NaN says nothing; the other keeps what it says.
{ npy '<f4' '(3, 1)' && printf '\000\000\000\100\000\000\200\077\000\000\000\000'; } >column.npy
{ npy '<f4' '(2, 1)' && printf '\000\000\200\077\000\000\300\177'; } >nan.npy
{ npy '|u1' '(2,)' && printf '\001\002'; } >target.npy
done_by score column.npy --hidden nan.npy --targets target.npy
is "$(tail -1 out)" "log-probability nan of 2 tokens"
near "$(awk '$1 == 1 { print $2 }' out)" -1.407606 2e-6
done_by score column.npy --hidden nan.npy --targets target.npy --json
holds '{"logprob":null,"perplexity":null,"targets":[{"id":1,"token":null,"logprob":-1.40760'
holds '"rank":2,"entropy":0.83'

{ npy '<i4' '(2,)' && printf '\001\000\000\000\377\377\377\377'; } >bad.npy
refused 1 'bad.npy: target -1 at position 1 is outside the vocabulary of 2000 rows' score "$glove" --hidden two.npy --targets bad.npy
{ npy '<u2' '(2,)' && printf '\320\007\001\000'; } >bad.npy
refused 1 'target 2000 at position 0 is outside' score "$glove" --hidden two.npy --targets bad.npy
{ npy '<u8' '(2,)' && printf '\001\000\000\000\000\000\000\000\377\377\377\377\377\377\377\377'; } >bad.npy
refused 1 'at position 1 is outside' score "$glove" --hidden two.npy --targets bad.npy
{ npy '<i8' '(2,)' && printf '\001\000\000\000\000\000\000\000\001\000\000\000\001\000\000\000'; } >bad.npy
refused 1 'target 4294967297 at position 1 is outside' score "$glove" --hidden two.npy --targets bad.npy
{ npy '<i8' '(2,)' && printf '\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\200'; } >bad.npy
refused 1 'target -9223372036854775808 at position 1 is outside' score "$glove" --hidden two.npy --targets bad.npy
refused 1 'next.npy: there are 3 targets for 2 hidden states' score "$glove" --hidden two.npy --targets next.npy
refused 1 'targets are an .npy file of integers' score "$glove" --hidden two.npy --targets two.npy
refused 1 'targets are an .npy file of integers' score "$glove" --hidden two.npy --targets "$glove"
{ npy '<i4' '(1, 2)' && printf '\001\000\000\000\001\000\000\000'; } >bad.npy
refused 1 'not of rank 2' score "$glove" --hidden two.npy --targets bad.npy
{ npy '<i4' '(2,)' && printf '\001\000\000\000'; } >bad.npy
refused 1 'bad.npy: ' score "$glove" --hidden two.npy --targets bad.npy
refused 1 'absent.npy: ' score "$glove" --hidden two.npy --targets absent.npy
refused 2 '--hidden is missing' score "$glove" --targets next.npy
refused 2 '--targets is missing' score "$glove" --hidden two.npy
refused 2 'topk: takes no --targets' topk "$glove" --hidden two.npy --targets next.npy
