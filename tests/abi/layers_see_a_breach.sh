#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# layers_see_a_breach.sh ROOT SCRATCH: plants breaches into a copy of the tree; cmake/layers.sh must name each of them.
set -eu
root=$1 tree=$2
rm -rf "$tree"
mkdir -p "$tree"
for folder in include src tests bench cmake; do
  if [ -d "$root/$folder" ]; then cp -R "$root/$folder" "$tree/$folder"; fi
done
mkdir -p "$tree/tests/api"

cat >"$tree/src/core/planted.c" <<'PLANTED'
#include "table/table.h"
#include <pthread.h>
#include <immintrin.h>
#include "../core/error.h"
/* #include "sweep/sweep.h" is a comment, "malloc(" a string */
static const char *text(void) { return "malloc( // \" abort("; }
static int planted(const embed_table *t, void *p) {
  free(p);
  getenv("HOME");
  return (int)embed_table_rows(t); /* core does not define it */
}
PLANTED
echo '#include "gather/rows.h"' >"$tree/src/sweep/planted.h"
echo '#include "kernels/row.h"' >"$tree/tests/api/planted.c"
mkdir "$tree/src/newroom"
echo 'int newroom;' >"$tree/src/newroom/planted.c"
{
  echo 'static void long_one(void) {'
  i=0
  while [ $i -lt 90 ]; do echo '  ;' && i=$((i + 1)); done
  echo '}'
} >"$tree/src/vocab/planted.c"

if sh "$root/cmake/layers.sh" "$tree" >"$tree/answer"; then
  echo "cmake/layers.sh found nothing wrong in a tree with planted breaches"
  exit 1
fi
failed=0
for place in src/core/planted.c:1 src/core/planted.c:2 src/core/planted.c:3 src/core/planted.c:4 src/core/planted.c:8 src/core/planted.c:9 \
  src/core/planted.c:10 src/sweep/planted.h:1 tests/api/planted.c:1 src/newroom/planted.c:1 src/vocab/planted.c:92; do
  grep -q "^$place: " "$tree/answer" || { echo "not seen: $place" && failed=1; }
done
if grep -E '^src/core/planted.c:(5|6|7|11): ' "$tree/answer"; then
  echo "these lines are right" && failed=1
fi
if [ $failed = 1 ]; then cat "$tree/answer"; fi
exit $failed
