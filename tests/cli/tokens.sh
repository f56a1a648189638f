# SPDX-License-Identifier: BSD-3-Clause
# Tokens of any bytes: a broken byte, a cut sequence, controls, a quote, a backslash, two characters of UTF-8.
v='\000\000\200\077\000\000\000\100'
printf "6 2\na\377b ${v}\342\202 ${v}c\033[1m ${v}\"q ${v}\\\\ ${v}\303\251\342\202\254 $v" >odd.bin
done_by lookup odd.bin --ids 0:6 --json
is "$(grep -o '"token":"[^:]*",' out | tr '\n' ' ')" \
  "$(printf '"token":"a\357\277\275b", "token":"\357\277\275", "token":"c\\u001b[1m", "token":"\\"q", "token":"\\\\", "token":"\303\251\342\202\254", ')"
done_by lookup odd.bin --ids 0:6
is "$(column 2)" "$(printf 'a\\xffb \\xe2\\x82 c\\x1b[1m "q \\\\ \303\251\342\202\254')"
[ "$(tr -d '\n' <out | tr -dc '\001-\037' | wc -c)" -eq 0 ] || wrong "a control character got through"
done_by neighbors odd.bin "$(printf 'a\377b')" -k 1 --json
holds '"id":1,'
refused 1 'no row has the token' neighbors odd.bin "$(printf '\376')"
