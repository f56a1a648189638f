# SPDX-License-Identifier: BSD-3-Clause
done_by neighbors "$glove" king -k 3
is "$(column 1)" "1683 1948 600"
is "$(column 2)" "prince queen son"
near "$(awk 'NR == 2 { print $3 }' out)" 0.768233 2e-6
near "$(awk 'NR == 3 { print $3 }' out)" 0.750769 2e-6
near "$(awk 'NR == 4 { print $3 }' out)" 0.702089 2e-6
done_by neighbors -k2 "$glove" three
is "$(column 1)" "125 50"
is "$(column 2)" "four two"
near "$(awk 'NR == 2 { print $3 }' out)" 0.988259 2e-6

done_by neighbors "$glove" king -k 2 --json
is "$(sed 's/"score":0\.[0-9]*/"score":X/g' out)" '[{"id":1683,"token":"prince","score":X},{"id":1948,"token":"queen","score":X}]'
cp out by_word
done_by neighbors "$glove" '#654' -k 2 --json
cmp out by_word || wrong "king and #654 differ"
done_by neighbors "$glove" king
is "$(wc -l <out)" 11
done_by neighbors "$glove" king -k 5000 --json # all but the word itself
is "$(grep -o '"id":' out | wc -l)" 1999
holds_not '"id":654,'

refused 1 'xyzzy' neighbors "$glove" xyzzy
refused 1 'row #2000 is outside the vocabulary of 2000 rows' neighbors "$glove" '#2000'
refused 2 '1 of the 2 operands are missing' neighbors "$glove"
refused 2 '"water" is one operand too many' neighbors "$glove" king water
