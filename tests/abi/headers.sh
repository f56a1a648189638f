#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# headers.sh INCLUDE_DIR SCRATCH COMPILER [FLAGS...]: each public header alone, twice, and all of them in both orders, compile
# without a warning; headers.sh INCLUDE_DIR SCRATCH - : no compiler of that language here (77 = skipped).
set -eu
include=$1 scratch=$2 compiler=$3
shift 3
if [ "$compiler" = - ]; then exit 77; fi
case " $* " in *c++*) suffix=cpp ;; *) suffix=c ;; esac
mkdir -p "$scratch"
cd "$include"
one=$scratch/header.$suffix failed=0
check() {
  "$compiler" "$@" -I"$include" -pedantic -Wall -Wextra -Wshadow -Wundef -Werror -fsyntax-only "$one" || { echo "$name, $*" && failed=1; }
}
for name in embed/*.h; do
  printf '#include <%s>\n#include <%s>\n%s\n' "$name" "$name" 'int embed_header_test;' >"$one"
  check "$@"
done
for order in '' -r; do
  name="all headers${order:+ in reverse}"
  { printf '%s\n' embed/*.h | LC_ALL=C sort $order | sed 's/.*/#include <&>/' && echo 'int embed_header_test;'; } >"$one"
  check "$@"
done
exit $failed
