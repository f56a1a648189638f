# SPDX-License-Identifier: BSD-3-Clause
# Every --json is one JSON value with its keys in their order.
command -v python3 >/dev/null && python3 -c 'import json' || exit 77
done_by lookup "$glove" --ids 654,0 --npy h.npy
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }" && printf '\216\002\000\000\000\000\000\000'; } >t.npy
printf '2 2\na\377\342\202\300"\\\001 \000\000\300\177\000\000\200\377b \051\153\156\116\001\000\000\000' >odd.bin
cat >check.py <<'PY'
import json, struct, sys

def unique(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)

def value(name):
    raw = open(name, 'rb').read()
    assert raw.endswith(b'\n') and raw.count(b'\n') == 1, name
    def refuse(text): raise ValueError(text)
    return json.loads(raw.decode('utf-8'), object_pairs_hook=unique, parse_constant=refuse)

info = value('info')
assert list(info) == ['format', 'tensors', 'table', 'head', 'beside', 'conventions', 'tokens', 'never_trained', 'notes'], info
assert info['beside'] == {} and info['tokens'] == 2000, info
assert info['conventions'] == {'lookup_scale': 1, 'scale_round': 'f32', 'logit_scale': 1, 'logit_softcap': 0, 'norm_epsilon': 0, 'layer_norm': False, 'norm_plus_one': False}, info
assert list(info['never_trained']) == ['rows', 'zero', 'equal', 'short', 'unused', 'broken', 'median_norm', 'first'] and info['never_trained']['rows'] == 0, info
convert = value('convert')
assert list(convert) == ['file', 'rows', 'dim', 'dtype', 'not_kept'] and convert['rows'] == 2000 and convert['not_kept'] == ['the tokens'], convert
assert list(info['table']) == ['name', 'dtype', 'rows', 'vocab', 'dim', 'bytes'], info
assert list(info['head']) == ['name', 'tied', 'dtype'] and info['head']['tied'] is True, info
assert all(isinstance(note, str) and note for note in info['notes']), info

rows = value('lookup')
stored = open(sys.argv[1], 'rb').read()
assert [list(row) for row in rows] == [['id', 'token', 'vector']] * 2000
for row in rows:  # nine digits give every float back
    packed = struct.pack('<100f', *row['vector'])
    assert packed in stored, row['id']
assert rows[654]['token'] == 'king' and [row['id'] for row in rows] == list(range(2000))

top = value('topk')
assert [list(row) for row in top] == [['logsumexp', 'top']] * 2
assert all(list(one) == ['id', 'token', 'logit'] for row in top for one in row['top'])
assert [one['id'] for one in top[0]['top']] == [654, 1683, 1948, 600, 765]
assert [list(one) for row in value('logprobs') for one in row['top']] == [['id', 'token', 'logit', 'logprob']] * 10

score = value('score')
assert list(score) == ['logprob', 'perplexity', 'targets'], score
assert [list(one) for one in score['targets']] == [['id', 'token', 'logprob', 'rank', 'entropy']] * 2, score
assert [one['rank'] for one in score['targets']] == [1, 1] and abs(score['logprob'] - sum(one['logprob'] for one in score['targets'])) < 1e-6
assert value('logits') == {'file': 'z.npy', 'rows': 2, 'vocab': 2000}
drawn = value('sample')
assert [list(one) for one in drawn] == [['id', 'token', 'logprob']] * 2, drawn
for name in 'neighbors', 'analogy':
    best = value(name)
    assert len(best) == 10 and all(list(one) == ['id', 'token', 'score'] for one in best), best
    assert [one['score'] for one in best] == sorted((one['score'] for one in best), reverse=True)

verify = value('verify')
assert list(verify) == ['ok', 'checks'] and verify['ok'] is True
assert all(list(one) == ['name', 'ok', 'detail'] and one['ok'] is True for one in verify['checks'])

odd = value('odd')
assert odd[0]['token'] == b'a\xff\xe2\x82\xc0"\\\x01'.decode('utf-8', 'replace'), odd
assert odd[0]['vector'] == [None, None], odd
assert struct.pack('<2f', *odd[1]['vector']) == b'\x29\x6b\x6e\x4e\1\0\0\0', odd  # 1000000064 needs nine digits; the least float there is
PY
while read -r name arguments; do
  eval "done_by $arguments --json"
  cp out "$name"
done <<'LIST'
info info "$glove"
lookup lookup "$glove" --ids 0:2000
topk topk "$glove" --hidden h.npy -k 5
logprobs topk "$glove" --hidden h.npy -k 5 --logprobs
sample sample "$glove" --hidden h.npy --history t.npy --repetition 1.5 --typical-p 0.9 --top-n-sigma 3
score score "$glove" --hidden h.npy --targets t.npy
neighbors neighbors "$glove" king
analogy analogy "$glove" man king woman
verify verify "$glove"
logits logits "$glove" --hidden h.npy --npy z.npy
odd lookup odd.bin --ids 0,1
convert convert "$glove" all.npy
LIST
python3 check.py "$glove" >out 2>err || wrong "the JSON is not as it should be"
