#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: quoted.sh README.md PROGRAM.c: the first C block of the README is the program, its SPDX line apart.
set -eu
quoted=$(awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$1")
program=$(sed 1d "$2")
[ "$quoted" = "$program" ] || { echo "README.md does not quote $2 as it stands" >&2; exit 1; }
