# SPDX-License-Identifier: BSD-3-Clause
case $("$embed" --version) in "embed "[0-9]*.[0-9]*.[0-9]*) ;; *) wrong "--version: $("$embed" --version)" ;; esac
done_by --help
cp out help
for ask in help -h; do
  done_by $ask
  cmp out help || wrong "$ask is not --help"
done
sed -n 's/^COMMAND(\([a-z]*\),.*/\1/p' "$here/../../src/cli/commands.def" >commands
[ "$(wc -l <commands)" -ge 8 ] || wrong "no list of commands"
while read -r command; do
  grep -q "^  $command  *[a-zA-Z]" help || wrong "embed help does not list $command"
  done_by help "$command"
  cp out one
  holds "usage: embed $command"
  done_by "$command" --help
  cmp out one || wrong "$command --help is not help $command"
done <commands
done_by help lookup
holds "--ids LIST"
holds_not "-k K"
refused 2 'there is no command "nonsense"' help nonsense
done_by help sample
holds "--temperature T  divides"
holds_not "--logprobs"
done_by help topk
holds "--logprobs       log-prob"
holds_not "--temperature"
