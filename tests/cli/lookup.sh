# SPDX-License-Identifier: BSD-3-Clause
done_by lookup "$glove" --ids 0,654,1998:2000
is "$(column 1)" "0 654 1998 1999"
is "$(column 2 | cut -d' ' -f1,2)" "the king"
near "$(awk 'NR == 3 { print $3 }' out)" 6.1174483 0.1

# Row sums of the known answers, from the JSON's nine digits.
for pair in 0:-2.795816911 654:-8.28663075 1948:1.218526959 1999:-4.263745988; do
  done_by lookup "$glove" --ids "${pair%:*}" --json
  near "$(sed 's/.*"vector":\[//; s/\].*//' out | tr , '\n' | awk '{ s += $1; n++ } END { if (n == 100) printf "%.9f", s }')" "${pair#*:}" 1e-6
done
done_by lookup --json --ids 654 "$glove"
holds '[{"id":654,"token":"king","vector":['
holds ']}]'
is "$(wc -l <out)" 1

# .npy: its head is 128 bytes of version 1.0, its data the very bytes of the file's rows.
done_by lookup "$glove" --ids 0:2000 --npy all.npy
[ ! -s out ] || wrong "--npy printed something"
is "$(wc -c <all.npy)" $((128 + 2000 * 100 * 4))
is "$(head -c 10 all.npy | od -An -tx1 | tr -d ' \n')" 934e554d505901007600
is "$(head -c 128 all.npy | tail -c +11 | sed 's/ *$//')" "{'descr': '<f4', 'fortran_order': False, 'shape': (2000, 100), }"
tail -c +14 "$glove" | head -c 400 >row0
tail -c +129 all.npy | head -c 400 | cmp - row0 || wrong "row 0 is not the file's"

refused 1 'id 2000 in item 2 of --ids is outside the vocabulary of 2000 rows' lookup "$glove" --ids 0,2000
refused 1 'id 2004 in item 1 of --ids' lookup "$glove" --ids 1999:2005
refused 1 'id 9000000000000000000 in item 1' lookup "$glove" --ids 9000000000000000000
refused 1 'outside the vocabulary' lookup "$glove" --ids 0:9000000000000000000
refused 2 'item 2, "7x"' lookup "$glove" --ids 0,7x
refused 2 'item 2, ""' lookup "$glove" --ids 0,
refused 2 'item 1, "-1"' lookup "$glove" --ids=-1
refused 2 'item 1, "5:5"' lookup "$glove" --ids 5:5
refused 2 'item 1, "99999999999999999999"' lookup "$glove" --ids 99999999999999999999
refused 2 '--ids is missing' lookup "$glove"
refused 2 '--json and --npy' lookup "$glove" --ids 0 --json --npy x.npy
