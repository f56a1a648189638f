# SPDX-License-Identifier: BSD-3-Clause
# Known answers: row 654 as a hidden state of the tied head.
done_by lookup "$glove" --ids 654 --npy h.npy
done_by topk "$glove" --hidden h.npy -k 5 --json
is "$(sed 's/"logsumexp":[^,]*/"logsumexp":X/; s/"logit":[^}]*/"logit":X/g' out)" \
  '[{"logsumexp":X,"top":[{"id":654,"token":"king","logit":X},{"id":1683,"token":"prince","logit":X},{"id":1948,"token":"queen","logit":X},{"id":600,"token":"son","logit":X},{"id":765,"token":"ii","logit":X}]}]'
near "$(sed 's/.*"logsumexp":\([^,]*\),.*/\1/' out)" 37.425170182 2e-5
sed 's/"logit":/\n/g' out | sed -n 's/^\([0-9][^}]*\)}.*/\1/p' >logits
is "$(wc -l <logits)" 5
for want in 37.42504 27.66496 27.58828 26.0587 25.14043; do
  read -r got
  near "$got" $want 2e-5
done <logits

done_by topk --hidden h.npy "$glove" -k 2
is "$(sed -n '1s/ [0-9.]*$//p' out)" "hidden state 0, logsumexp"
is "$(awk 'NR > 2 { print $1, $2 }' out)" "654 king
1683 prince"
done_by lookup "$glove" --ids 1948,654,50 --npy three.npy
done_by topk "$glove" --hidden three.npy -k 2
is "$(grep '^hidden state' out | cut -d, -f1 | tr '\n' ' ')" "hidden state 0 hidden state 1 hidden state 2 "
is "$(awk '$1 ~ /^[0-9]+$/ { printf "%s ", $1 }' out)" "1948 654 654 1683 50 80 "
done_by topk "$glove" --hidden three.npy -k 2 --json
is "$(grep -o '"id":[0-9]*' out | cut -d: -f2 | tr '\n' ' ')" "1948 654 654 1683 50 80 "

done_by topk "$glove" --hidden h.npy -k 1000000000 --json # more than there are: all
is "$(grep -o '"id":' out | wc -l)" 2000
done_by topk "$glove" --hidden h.npy --json
is "$(grep -o '"id":' out | wc -l)" 10

# One hidden state of rank 1: the same bytes under another head.
{ head -c 10 h.npy; printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (100,), }"; tail -c +129 h.npy; } >vector.npy
done_by topk "$glove" --hidden h.npy --json
cp out matrix
done_by topk "$glove" --hidden vector.npy --json
cmp out matrix || wrong "[dim] and [1, dim] differ"

printf '1 3\nx 123456789abc' >small.bin
done_by lookup small.bin --ids 0 --npy short.npy
refused 1 'short.npy: the hidden states have 3 columns, the head of ' topk "$glove" --hidden short.npy
holds_in_err=$(grep -c 'reads 100$' err)
is "$holds_in_err" 1
{ head -c 10 h.npy; printf "%-117s\n" "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 100), }"; tail -c +129 h.npy; } >integers.npy
refused 1 'integers.npy: ' topk "$glove" --hidden integers.npy
refused 1 'none.npy: ' topk "$glove" --hidden none.npy
head -c 300 h.npy >cut.npy
refused 1 'cut.npy: ' topk "$glove" --hidden cut.npy
refused 2 '--hidden is missing' topk "$glove"
refused 2 'not "0"' topk "$glove" --hidden h.npy -k 0

# Log-probabilities: each logit less the log-sum-exp of all; the column comes only where it is asked for.
done_by topk "$glove" --hidden three.npy -k 2 --logprobs
is "$(grep -c '^      id  token  *logit  *logprob$' out)" 3
is "$(awk '$1 == 654 || $1 == 1683 { printf "%s %s ", $1, $2 }' out)" "654 king 654 king 1683 prince "
done_by topk "$glove" --hidden h.npy -k 2 --logprobs
near "$(awk '$1 == 654 { print $4 }' out)" -0.000132 5e-6
near "$(awk '$1 == 1683 { print $4 }' out)" -9.760214 2e-5
done_by topk "$glove" --hidden h.npy -k 2000 --logprobs --json
is "$(grep -o '"logit":[^,]*,"logprob":[^,}]*}' out | wc -l)" 2000
near "$(grep -o '"logprob":[^}]*' out | awk -F: '{ s += exp($2) } END { print s }')" 1 2e-5
done_by topk "$glove" --hidden h.npy -k 2
holds_not logprob
refused 2 'takes no --logprobs' neighbors "$glove" king --logprobs
refused 2 'takes no --top-p' topk "$glove" --hidden h.npy --top-p 0.5
