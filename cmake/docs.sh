#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs.sh OUT: OUT/html and OUT/man/man3 from the comments of include/embed/*.h. A warning of doxygen is a failure.
# The comments keep to the template of CONTRIBUTING.md; the filter says the same to doxygen: the first line is the brief, each section a
# paragraph with a title, an indented formula a block of code, what stands behind a field is about the field.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$1
mkdir -p "$out"
cat >"$out/filter.sed" <<'FILTER'
s|^/\* embed/([a-z]+\.h): (.*) \*/$|/** @file \1\n * @brief \2 */|
s|^(  [^/]*[;,]) +/\* (.*) \*/$|\1 /**< \2 */|
/^\/\*\*$/,/\*\// {
  s/^ \* embed_[a-z0-9_]+: (.*)$/ * @brief \1/
  s/^ \* (Shapes|Types|Options|NaN|Empty|Errors|Threads|Cost|Since|Source) +(.*)$/ * @par \1\n * \2/
  s/^ \* {10,}/ * /
  s/^ \* {3}([^ ])/ *     \1/
}
FILTER
version=$(sed -n 's/^project(embed VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
cat >"$out/Doxyfile" <<DOXYFILE
PROJECT_NAME = libembed
PROJECT_NUMBER = $version
PROJECT_BRIEF = "The vocabulary side of a language model, both ends"
INPUT = "$root/include/embed"
FILE_PATTERNS = *.h
STRIP_FROM_PATH = "$root/include"
STRIP_FROM_INC_PATH = "$root/include"
OUTPUT_DIRECTORY = "$out"
INPUT_FILTER = "sed -E -f '$out/filter.sed'"
OPTIMIZE_OUTPUT_FOR_C = YES
EXTRACT_ALL = NO
HAVE_DOT = NO
GENERATE_LATEX = NO
GENERATE_MAN = YES
MAN_LINKS = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = EMBED_API= EMBED_FN=
TYPEDEF_HIDES_STRUCT = YES
SORT_MEMBER_DOCS = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_NO_PARAMDOC = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
DOXYFILE
doxygen "$out/Doxyfile"
# Every public function has arrived in both.
missing=0
for name in $(awk -f "$root/tests/abi/api.awk" "$root"/include/embed/*.h | awk -F'\t' '$1 == "function" { print $2 }'); do
  grep -qs "\b$name\b" "$out"/html/*_8h.html || { echo "not in the pages: $name" && missing=1; }
  grep -qs "$name" "$out"/man/man3/*.3 || { echo "not in the manual: $name" && missing=1; }
done
[ $missing = 0 ] || exit 1
echo "$out/html/index.html, $(find "$out/man/man3" -name '*.3' | wc -l) manual pages"
