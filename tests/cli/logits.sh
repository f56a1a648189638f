# SPDX-License-Identifier: BSD-3-Clause
done_by lookup "$glove" --ids 654,0 --npy h.npy
done_by logits "$glove" --hidden h.npy --npy z.npy
[ ! -s out ] || wrong "logits printed something"
is "$(head -c 128 z.npy | tail -c +11 | sed 's/ *$//')" "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2000), }"
is "$(wc -c <z.npy)" $((128 + 2 * 2000 * 4))
# Logits 654 and 1683 of the first row, read back by the tool itself: z.npy is a table of two rows.
done_by lookup z.npy --ids 0 --json
holds '"token":null'
sed 's/.*"vector":\[//; s/\].*//' out | tr , '\n' >row
near "$(sed -n 655p row)" 37.42504 2e-5
near "$(sed -n 1684p row)" 27.66496 2e-5

refused 2 '--npy is missing' logits "$glove" --hidden h.npy
refused 2 '--hidden is missing' logits "$glove" --npy z.npy
done_by logits "$glove" --hidden h.npy --npy z.npy --json
is "$(cat out)" '{"file":"z.npy","rows":2,"vocab":2000}'
refused 2 'takes no --json' help logits --json
cp h.npy before.npy
refused 1 'which is not overwritten' logits "$glove" --hidden h.npy --npy h.npy
ln -s h.npy link.npy
refused 1 'link.npy: it is the input h.npy' logits "$glove" --hidden h.npy --npy link.npy
cmp h.npy before.npy || wrong "the hidden states were changed"
