# SPDX-License-Identifier: BSD-3-Clause
done_by analogy "$glove" man king woman -k 3
is "$(column 1)" "1948 1057 1683"
is "$(awk 'NR == 2 { print $2 }' out)" queen
near "$(awk 'NR == 2 { print $3 }' out)" 0.769854 2e-6
near "$(awk 'NR == 3 { print $3 }' out)" 0.659456 2e-6
near "$(awk 'NR == 4 { print $3 }' out)" 0.651703 2e-6
done_by analogy "$glove" man king woman -k 1 --json
is "$(sed 's/"score":0\.[0-9]*/"score":X/' out)" '[{"id":1948,"token":"queen","score":X}]'
done_by analogy "$glove" man king woman -k 2000 --json
is "$(grep -o '"id":' out | wc -l)" 1997
holds_not '"id":654,'
refused 1 'xyzzy' analogy "$glove" man king xyzzy
refused 2 '1 of the 4 operands are missing' analogy "$glove" man king
