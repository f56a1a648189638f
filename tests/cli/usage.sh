# SPDX-License-Identifier: BSD-3-Clause
refused 2 "no command is given (try 'embed help')"
refused 2 'there is no command "frobnicate"' frobnicate "$glove"
refused 2 '1 of the 1 operands are missing' info
refused 2 'there is no option --frob' info "$glove" --frob
refused 2 'there is no option -z' info "$glove" -z
refused 2 'there is no option -z' info "$glove" -zk
refused 2 'the option takes no value' info "$glove" --json=yes
refused 2 '-k needs a value' neighbors "$glove" king -k
refused 2 '--ids needs a value' lookup "$glove" --ids
refused 2 'info: takes no --ids' info "$glove" --ids 0
refused 2 'takes no -k' info "$glove" -k 3
refused 2 '--threads takes a number from 1 to 1024, not "0"' info "$glove" --threads 0
refused 2 'not "many"' info "$glove" --threads many
refused 2 'not "-3"' neighbors "$glove" king -k -3
refused 2 "try 'embed help info'" info "$glove" more
refused 2 'one operand too many' info a b c d e f g
refused 1 'a\nb: ' info 'a
b'
# Options before, between and behind the operands, whatever POSIXLY_CORRECT says.
done_by neighbors "$glove" king -k 2 --json
cp out want
for order in 1 2 3; do
  case $order in
    1) set -- -k 2 --json neighbors "$glove" king ;;
    2) set -- neighbors -k 2 "$glove" --json king ;;
    3) set -- neighbors --json "$glove" -k2 -- king ;;
  esac
  POSIXLY_CORRECT=1 "$embed" "$@" >out 2>err || wrong "order $order fails"
  cmp out want || wrong "order $order gives something else"
done
