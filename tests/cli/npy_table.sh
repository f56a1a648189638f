# SPDX-License-Identifier: BSD-3-Clause
done_by lookup "$glove" --ids 600:700 --npy table.npy
done_by info table.npy --json
holds '{"format":"npy","tensors":1,"table":{'
holds '"rows":100,"vocab":100,"dim":100,"bytes":40000}'
done_by lookup table.npy --ids 54 --json
holds '[{"id":54,"token":null,"vector":['
sed 's/.*"vector"//' out >row
done_by lookup "$glove" --ids 654 --json
is "$(sed 's/.*"vector"//' out)" "$(cat row)"
done_by neighbors table.npy '#54' -k 1
is "$(column 1)" 0 # row 600, son
done_by neighbors table.npy '#54' -k 1 --json
holds '[{"id":0,"token":null,"score":0.70'
done_by verify table.npy
refused 1 'table.npy: ' neighbors table.npy king

# An array of integers is no table, but what it is can be said.
{ printf '\223NUMPY\001\000\066\000%-53s\n' "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }" | head -c 10 && printf '%-53s\n' "{'descr':'<i4','fortran_order':False,'shape':(2,3)}" && printf '%024d' 0; } >ints.npy
done_by info ints.npy --json
holds '"table":{"name":"array","dtype":"<i4","rows":2,"vocab":2,"dim":3,"bytes":24}'
refused 1 'ints.npy: ' lookup ints.npy --ids 0
