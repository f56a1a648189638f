# SPDX-License-Identifier: BSD-3-Clause
# awk -f comments.awk include/embed/*.h: every public function has a doc comment of its own that begins with its name and has the sections
#   Shapes   where an array is read or written     Types    where vectors or stored rows are
#   Errors   Threads   Cost   Since   always
# in the order of the template (Shapes Types Options NaN Empty Errors Threads Cost Since Source). Exit status 1 says what lacks.
function fail(text) { print FILENAME ":" FNR ": " name ": " text; failed = 1 }
function needs(label) { if (!(label in has)) fail("no " label) }
function judge(    n, each, i, arrays, vectors, type) {
  if (!match(one, /embed_[a-z0-9_]+\(/)) return
  name = substr(one, RSTART, RLENGTH - 1)
  ++functions
  if (comment == "") { fail("no comment of its own"); return }
  if (comment !~ ("^ *" name "[:,]")) fail("its comment does not begin with its name")
  n = split(substr(one, RSTART + RLENGTH), each, ",")
  arrays = vectors = 0
  for (i = 1; i <= n; ++i) {
    type = each[i]
    if (type ~ /(float|int32_t|int64_t) \*(ids|offsets|weights|out|logits|scores|count|norms|queries|exclude|abc|bias|weight|logsumexp)\)?;?$/) arrays = 1
    if (type ~ /void \*(data|out|src|hidden|x)\)?;?$/) arrays = vectors = 1
    if (type ~ /embed_dtype /) vectors = 1
  }
  if (arrays) needs("Shapes")
  if (vectors) needs("Types")
  needs("Errors")
  needs("Threads")
  needs("Cost")
  needs("Since")
}
BEGIN { split("Shapes Types Options NaN Empty Errors Threads Cost Since Source", order, " "); for (i = 1; i in order; ++i) place[order[i]] = i }
FNR == 1 { inside = 0; comment = ""; one = "" }
/^\/\*\*/ { inside = 1; comment = ""; split("", has); last = 0 }
inside {
  line = $0
  sub(/^\/\*\*|^ \*\/|^ \*/, "", line)
  sub(/ *\*\/.*/, "", line)
  if (comment == "" && line !~ /^ *$/) comment = line
  if (match(line, /^ [A-Z][A-Za-z]+( +|$)/)) {
    label = line
    gsub(/^ /, "", label)
    sub(/ .*/, "", label)
    if (label in place) {
      if (place[label] < last) { name = "comment"; fail(label " stands too late") }
      last = place[label]
      has[label] = 1
    }
  }
  if ($0 ~ /\*\//) inside = 0
  next
}
/^EMBED_(FN|API) / { one = "" ; open_decl = 1 }
open_decl {
  text = $0
  sub(/ *\/\*.*/, "", text)
  one = one text
  if (one ~ /;/) { judge(); open_decl = 0; comment = ""; split("", has) }
  next
}
/^(typedef|enum)/ { comment = ""; split("", has) }
END {
  if (functions == 0) { print "no functions"; exit 1 }
  if (failed) exit 1
  print functions " functions have their comments"
}
