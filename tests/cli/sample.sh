# SPDX-License-Identifier: BSD-3-Clause
npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; } # TYPE SHAPE: the header
ids() { awk '$1 ~ /^[0-9]+$/ { printf "%s ", $1 }' out; }
share() { awk -v id="$1" '$1 ~ /^[0-9]+$/ { ++n; hits += $1 == id } END { print hits / n }' out; } # of a token among those drawn

# Five tokens of one column: with the hidden state 1 their logits are 2, 1, 0.5, 0.1 and -1.
{ npy '<f4' '(5, 1)' && printf '\000\000\000\100\000\000\200\077\000\000\000\077\315\314\314\075\000\000\200\277'; } >five.npy
{ npy '<f4' '(1, 1)' && printf '\000\000\200\077'; } >one.npy
# Known answers: the logits plus Gumbel noise of these positions (Philox, worked out in double precision).
done_by sample five.npy --hidden one.npy --seed 42
is "$(ids)" "0 "
is "$(sed -n 1p out | tr -s ' ')" " id token logprob"
near "$(awk '$1 == 0 { print $2 }' out)" -0.582419658 2e-6 # softmax .5585452
done_by sample five.npy --hidden one.npy --seed 42 --position 8
is "$(ids)" "1 "
done_by sample five.npy --hidden one.npy --seed 1099511627781 --position 8589934593 --json
is "$(sed 's/:-[^}]*/:X/' out)" '[{"id":0,"token":null,"logprob":X}]'

# The largest seed is one of its own.
done_by sample five.npy --hidden one.npy --seed 18446744073709551615 --position 10
is "$(ids)" "4 " # 1 by the largest signed one, and by 0

# 4,096 positions: each token as often as it is probable, within five standard deviations.
printf '\000\000\200\077' >ones
for doubling in 1 2 3 4 5 6 7 8 9 10 11 12; do cat ones ones >twice && mv twice ones; done
{ npy '<f4' '(4096, 1)' && cat ones; } >many.npy
done_by sample five.npy --hidden many.npy --seed 7
cp out drawn
while read -r id probability; do near "$(share "$id")" "$probability" 0.04; done <<'LIST'
0 0.5585452
1 0.2054773
2 0.1246283
3 0.0835408
4 0.0278083
LIST
for threads in 1 3; do
  done_by sample five.npy --hidden many.npy --seed 7 --threads $threads
  cmp out drawn || wrong "$threads threads draw something else"
done
done_by sample five.npy --hidden one.npy --seed 7 --position 17
is "$(ids)" "$(awk '$1 ~ /^[0-9]+$/ && n++ == 17 { printf "%s ", $1 }' drawn)"
done_by sample five.npy --hidden many.npy --seed 8
! cmp -s out drawn || wrong "another seed draws the same"

# Two orders, two distributions: temperature 2, top-k 4, top-p 0.7, min-p 0.3.
done_by sample five.npy --hidden many.npy --temperature 2 --top-k 4 --top-p 0.7 --min-p 0.3
cp out drawn
near "$(share 0)" 0.4810243 0.04
near "$(share 1)" 0.2917560 0.04
near "$(share 2)" 0.2272198 0.04
is "$(share 3) $(share 4)" "0 0"
near "$(awk '$1 == 2 { print $2; exit }' out)" -2.082419658 2e-6 # the model's own, whatever filters do
done_by sample five.npy --hidden many.npy --temperature 2 --top-k 4 --top-p 0.7 --min-p 0.3 --order hf
cmp out drawn || wrong "hf is not the order if none is given"
done_by sample five.npy --hidden many.npy --temperature 2 --top-k 4 --top-p 0.7 --min-p 0.3 --order llamacpp
near "$(share 0)" 0.6224593 0.04
near "$(share 1)" 0.3775407 0.04
done_by sample five.npy --hidden many.npy --temperature 0 --seed 3
is "$(share 0)" 1

# The other filters: deviations from the mean surprise 1.217 are .635, .365, .865, 1.265 and 2.365; the logits' standard deviation is .99076.
done_by sample five.npy --hidden many.npy --typical-p 0.2
is "$(share 1)" 1
for least in --top-p --top-n-sigma; do # one token is the fewest
  done_by sample five.npy --hidden many.npy $least 0
  is "$(share 0)" 1
done
done_by sample five.npy --hidden many.npy --typical-p 0
is "$(share 1)" 1
done_by sample five.npy --hidden many.npy --top-n-sigma 1
is "$(share 0)" 1
for filter in "--top-n-sigma 1.02" "--top-n-sigma 1 --min-keep 2"; do
  done_by sample five.npy --hidden many.npy $filter
  near "$(share 0)" 0.7310586 0.04
  near "$(share 1)" 0.2689414 0.04
done

# Penalties: 2, 1, .5, .1 and -1 become 1, .5, .5, .1 and -1; the log-probability stays the model's.
{ npy '<i8' '(3,)' && printf '\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000'; } >said.npy # 1, 0, 0
{ npy '|u1' '(1,)' && printf '\004'; } >four.npy
done_by sample five.npy --hidden many.npy --history said.npy --repetition 2
near "$(share 0)" 0.3629808 0.04
near "$(share 1)" 0.2201588 0.04
near "$(awk '$1 == 0 { print $2; exit }' out)" -0.582419658 2e-6
done_by sample five.npy --hidden many.npy --seed 7 --history said.npy
cp out unpenalised
done_by sample five.npy --hidden many.npy --seed 7
cmp out unpenalised || wrong "a history alone changes what is drawn"
best_by() { # best_by ID OPTIONS: what --temperature 0 takes
  want=$1
  shift
  done_by sample five.npy --hidden one.npy --temperature 0 "$@"
  is "$(ids)" "$want "
}
best_by 2 --history said.npy --frequency 0.8            # .4, .2
best_by 1 --history said.npy --presence 1.95 --last-n 2 # .05, 1: the last two are 0
best_by 0 --history said.npy --presence 0.9             # 1.1, .1
best_by 2 --history said.npy --repetition 2 --frequency 0.5 --presence 0.25
best_by 4 --history four.npy --presence -4
best_by 4 --history four.npy --frequency -3.5
done_by sample five.npy --hidden many.npy --history four.npy --repetition 0.5 # -.5
near "$(share 4)" 0.0450355 0.02

# On words: the best one by --temperature 0 and by --top-k 1; tokens come with it.
done_by lookup "$glove" --ids 1948,654,50 --npy three.npy
done_by sample "$glove" --hidden three.npy --temperature 0
is "$(awk '$1 ~ /^[0-9]+$/ { printf "%s %s ", $1, $2 }' out)" "1948 queen 654 king 50 two "
cp out best
done_by sample "$glove" --hidden three.npy --top-k 1 --seed 12
cmp out best || wrong "top-k 1 is not the best"
done_by sample "$glove" --hidden three.npy --temperature 0 --json
is "$(sed 's/"logprob":[^}]*/"logprob":X/g' out)" \
  '[{"id":1948,"token":"queen","logprob":X},{"id":654,"token":"king","logprob":X},{"id":50,"token":"two","logprob":X}]'
npy '<f4' '(0, 100)' >none.npy
done_by sample "$glove" --hidden none.npy --json
is "$(cat out)" '[]'

{ npy '<f4' '(2, 1)' && printf '\000\000\200\077\000\000\300\177'; } >nan.npy
refused 1 'five.npy: hidden row 1 has a NaN' sample five.npy --hidden nan.npy
refused 2 '--hidden is missing' sample "$glove"
refused 2 '--order is hf or llamacpp, not "best"' sample "$glove" --hidden three.npy --order best
refused 2 '--temperature takes a number from 0 to 1000, not "-1"' sample "$glove" --hidden three.npy --temperature -1
for text in nan inf 0x1 1e999 1.5x '' ' 1' 1e; do refused 2 "--temperature takes a number" sample "$glove" --hidden three.npy --temperature "$text"; done
refused 2 '--top-p takes a number from 0 to 1, not "1.01"' sample "$glove" --hidden three.npy --top-p 1.01
refused 2 '--min-p takes a number from 0 to 1' sample "$glove" --hidden three.npy --min-p 2
refused 2 '--top-k takes a number from 1 to' sample "$glove" --hidden three.npy --top-k 0
refused 2 '--seed takes a number from 0 to 18446744073709551615, not "18446744073709551616"' sample "$glove" --hidden three.npy --seed 18446744073709551616
refused 2 '--seed takes a number from 0 to' sample "$glove" --hidden three.npy --seed -1
refused 2 '--frequency looks at a history: --history is missing' sample "$glove" --hidden three.npy --repetition 1.1 --frequency 0.5
refused 2 '--last-n looks at a history: --history is missing' sample "$glove" --hidden three.npy --last-n 2
refused 2 '--typical-p takes a number from 0 to 1' sample "$glove" --hidden three.npy --typical-p 1.5
refused 2 '--top-n-sigma takes a number from 0 to 1000, not "-1"' sample "$glove" --hidden three.npy --top-n-sigma -1
refused 2 '--min-keep takes a number from 1 to' sample "$glove" --hidden three.npy --min-keep 0
refused 2 '--repetition takes a number from 0.001 to 1000, not "0"' sample "$glove" --hidden three.npy --repetition 0
refused 2 '--frequency takes a number from -1000 to 1000, not "nan"' sample "$glove" --hidden three.npy --frequency nan
refused 2 '--presence takes a number from -1000 to 1000, not "--1"' sample "$glove" --hidden three.npy --presence --1
refused 2 '--last-n takes a number from 1 to' sample "$glove" --hidden three.npy --last-n x
refused 2 'score: takes no --history' score "$glove" --hidden three.npy --targets said.npy --history said.npy
{ npy '<i4' '(2,)' && printf '\004\000\000\000\005\000\000\000'; } >five_ids.npy
refused 1 'five_ids.npy: id 5 at position 1 is outside the vocabulary of 5 rows' sample five.npy --hidden one.npy --history five_ids.npy
refused 1 'one.npy: ids of a history are an .npy file of integers' sample five.npy --hidden one.npy --history one.npy
refused 1 'nothing.npy' sample five.npy --hidden one.npy --history nothing.npy
done_by sample five.npy --hidden one.npy --position 9223372036854775807
refused 1 '--position: ' sample "$glove" --hidden three.npy --position 9223372036854775806
refused 2 'topk: takes no --seed' topk "$glove" --hidden three.npy --seed 1
