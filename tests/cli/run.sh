#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: run.sh EMBED CASE. Runs CASE.sh in an empty folder whose name holds a blank, with these words to say what must be.
set -u
embed=$1
here=$(cd "$(dirname "$0")" && pwd)
glove=$here/../data/glove-2000x100.bin
work=$(mktemp -d "${TMPDIR:-/tmp}/embed cli.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

wrong() { # says why, and ends the test
  echo "$*"
  echo "--- stdout"; head -c 2000 out
  echo "--- stderr"; head -c 2000 err
  exit 1
}
done_by() { # embed ARGUMENTS succeeds, silent on stderr; its stdout is in the file out
  "$embed" "$@" >out 2>err || wrong "embed $*: exit status $?"
  [ ! -s err ] || wrong "embed $*: it succeeded and wrote to stderr"
}
refused() { # refused STATUS TEXT ARGUMENTS: that exit status, one line on stderr that holds TEXT, nothing on stdout
  status=$1 text=$2
  shift 2
  "$embed" "$@" >out 2>err
  got=$?
  [ $got -eq "$status" ] || wrong "embed $*: exit status $got, not $status"
  one_line "$text" "$*"
  [ ! -s out ] || wrong "embed $*: it failed and wrote to stdout"
}
one_line() { # err is one line that begins with "embed: " and holds $1
  [ "$(wc -l <err)" -eq 1 ] || wrong "embed $2: stderr is not one line"
  grep -q '^embed: ' err || wrong "embed $2: the line does not begin with embed:"
  grep -qF -- "$1" err || wrong "embed $2: the line does not hold: $1"
}
holds() { grep -qF -- "$1" out || wrong "not in the output: $1"; }
holds_not() { ! grep -qF -- "$1" out || wrong "in the output: $1"; }
is() { [ "$1" = "$2" ] || wrong "got: $1
want: $2"; }
near() { # near GOT WANT TOLERANCE
  awk -v got="$1" -v want="$2" -v tolerance="$3" 'BEGIN { d = got - want; if (d < 0) d = -d; exit !(got != "" && d <= tolerance) }' ||
    wrong "got $1, want $2 within $3"
}
column() { awk -v c="$1" 'NR > 1 { printf "%s%s", s, $c; s = " " }' out; } # of a table with one line of headings

. "$here/$2.sh"
