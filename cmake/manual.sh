#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# manual.sh SCDOC embed.1.scd OUT VERSION: the man page embed(1). The list of commands comes from commands.def beside the page, as
# `embed help` has it: a new command is in the manual by itself.
set -eu
scdoc=$1 page=$2 out=$3 version=$4
awk -v commands="${page%/*}/commands.def" -v version="$version" '
  function escaped(s) { gsub(/[\\*_<>#~`]/, "\\\\&", s); return s }
  /^; / { next } # a comment, the licence
  { gsub(/@VERSION@/, version) }
  $0 != "@COMMANDS@" { print; next }
  {
    while ((getline line < commands) > 0) {
      if (line !~ /^COMMAND\(/) continue
      n = split(line, quoted, "\"") # ..., help, usage)
      help = quoted[2]
      usage = quoted[4]
      print "*embed " escaped(usage) "*"
      print "\t" toupper(substr(help, 1, 1)) escaped(substr(help, 2)) ".\n"
      ++count
    }
    if (count == 0) { print "manual.sh: no command in " commands > "/dev/stderr"; exit 1 }
  }' "$page" >"$out.scd"
"$scdoc" <"$out.scd" >"$out.new"
rm "$out.scd"
mv "$out.new" "$out"
