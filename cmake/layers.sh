#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sh cmake/layers.sh [ROOT]: holds the sources to src/layers.txt. Names file:line of each breach and exits 1 when there is one.
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

{
  echo src/layers.txt
  find include/embed src tests bench \( -name '*.c' -o -name '*.h' -o -name '*.def' \) -type f 2>/dev/null | LC_ALL=C sort
} | LC_ALL=C awk '
# Is place (a path below src/) one of the rules places? A place that ends in / is a folder, * is one path component.
function stands_in(place, rule,    n, i, part, pattern) {
  n = split(rule, part, " ")
  for (i = 1; i <= n; ++i) {
    pattern = part[i]
    gsub(/\./, "[.]", pattern)
    gsub(/\*/, "[^/]+", pattern)
    if (place ~ ("^" pattern (part[i] ~ /\/$/ ? "" : "$"))) return 1
  }
  return 0
}
function breach(text) { print file ":" line ": " text; ++breaches }

function read_rules(page,    left, right, n, i, name) {
  while ((getline text < page) > 0) {
    sub(/#.*/, "", text)
    if (text !~ /[^ \t]/) continue
    left = text; right = ""
    if (i = index(text, "->")) { left = substr(text, 1, i - 1); right = substr(text, i + 2) }
    n = split(left, name, " ")
    if (name[1] == "layer") row[name[2]] = right " "
    else if (name[1] == "limit") { limit[name[2]] = name[3]; unlimited[name[2]] = right }
    else if (name[1] == "public") for (i = 2; i <= n; ++i) outside[name[i]] = 1
    else if (name[1] == "header") for (i = 2; i <= n; ++i) header_rule[name[i]] = right
    else if (name[1] == "call") for (i = 2; i <= n; ++i) call_rule[name[i]] = right
    else { print page ": no such rule: " name[1]; broken = 1; exit 1 }
  }
  close(page)
}

# What folder may include: its row, with NAME+ opened up.
function reach(folder, seen,    n, i, part, all) {
  n = split(row[folder], part, " ")
  all = " "
  for (i = 1; i <= n; ++i) {
    if (part[i] ~ /\+$/) {
      sub(/\+$/, "", part[i])
      if (index(seen, " " part[i] " ") == 0) all = all part[i] reach(part[i], seen part[i] " ")
    } else all = all part[i] " "
  }
  return all
}

# The line without comments and literals.
function strip(s,    out, c, rest) {
  out = ""
  while (s != "") {
    if (in_comment) {
      if (!(c = index(s, "*/"))) return out
      s = substr(s, c + 2)
      in_comment = 0
      continue
    }
    if (!match(s, /["\047]|\/\*|\/\//)) return out s
    out = out substr(s, 1, RSTART - 1)
    c = substr(s, RSTART, RLENGTH)
    rest = substr(s, RSTART + RLENGTH)
    if (c == "//") return out
    if (c == "/*") { in_comment = 1; out = out " "; s = rest; continue }
    if (c == "\"" ? match(rest, /^([^"\\]|\\.)*"/) : match(rest, /^([^\047\\]|\\.)*\047/)) s = substr(rest, RLENGTH + 1)
    else s = rest
    out = out (c == "\"" ? "\"\"" : "0")
  }
  return out
}

function check_include(name, quoted,    first) {
  if (file in public_file) {
    if (quoted && (name ~ /\.\.\// || name in known)) breach("includes \"" name "\": only <embed/*.h> may be included here")
    return
  }
  if (file !~ /^src\//) return
  if (!quoted) {
    if (name in header_rule && !stands_in(place, header_rule[name])) breach("includes <" name ">: that stands only in" header_rule[name])
    return
  }
  if (name ~ /\.\.\//) { breach("includes \"" name "\": paths start at src/"); return }
  if (name !~ /\//) return
  first = name
  sub(/\/.*/, "", first)
  if (first == folder) return
  if (!(first in row)) { breach("includes \"" name "\": src/layers.txt has no layer " first); return }
  if (index(allowed, " " first " ") == 0 && index(allowed, " " name " ") == 0)
    breach("includes \"" name "\": " folder " may include only" (allowed == " " ? " itself" : allowed))
}

# Names of functions in a stripped line, outside bodies (defined or declared) and inside (called).
function check_names(s, inside,    name, before) {
  while (match(s, /[A-Za-z_][A-Za-z_0-9]*/)) {
    before = RSTART > 1 ? substr(s, RSTART - 1, 1) : ""
    if (RSTART > 2 && substr(s, RSTART - 2, 2) == "->") before = "."
    name = substr(s, RSTART, RLENGTH)
    s = substr(s, RSTART + RLENGTH)
    if (name ~ /^[0-9]/ || before == ".") continue
    if (pass == 1) {
      if (!inside && name in public_name && s ~ /^\(/) defined[folder, name] = 1
      continue
    }
    if (!inside) continue
    if (name in public_name && !((folder, name) in defined)) breach("uses the public " name ": another folder defines it")
    if (name in call_rule && s ~ /^[ ]*\(/ && !stands_in(place, call_rule[name])) breach("calls " name ": that stands only in" call_rule[name])
  }
}

function read_file(    raw, s, depth, macro, started, parts, at, before) {
  line = 0; depth = 0; in_comment = 0; macro = 0
  place = substr(file, 5)
  split(place, parts, "/")
  folder = parts[2] == "" ? "" : parts[1]
  allowed = folder in row ? reach(folder, " " folder " ") : " "
  if (pass == 2 && file ~ /^src\// && !(folder in row)) { line = 1; breach("src/layers.txt has no layer " folder); return }
  while ((getline raw < file) > 0) {
    ++line
    if (pass == 2 && !in_comment && raw ~ /^[ \t]*#[ \t]*include[ \t]/) {
      s = raw
      sub(/^[ \t]*#[ \t]*include[ \t]*/, "", s)
      if (s ~ /^"/) { split(substr(s, 2), parts, "\""); check_include(parts[1], 1) }
      else if (s ~ /^</) { split(substr(s, 2), parts, ">"); check_include(parts[1], 0) }
      continue
    }
    s = strip(raw)
    if (pass == 0) {
      if (s ~ /EMBED_(API|FN) / && s !~ /^[ \t]*#/ && match(s, /embed_[a-z0-9_]+\(/)) public_name[substr(s, RSTART, RLENGTH - 1)] = 1
      continue
    }
    if (file !~ /^src\// || folder == "cli") continue
    if (macro || s ~ /^[ \t]*#/) { # may be used anywhere: the body counts as a call, its braces do not
      check_names(s, 1)
      macro = raw ~ /\\$/
      continue
    }
    while (at = match(s, /[{}]/)) {
      before = substr(s, 1, at - 1)
      check_names(before, depth > 0)
      if (substr(s, at, 1) == "{") {
        if (depth++ == 0) started = before ~ /\)[ \t]*$/ ? line : 0
      } else if (--depth == 0 && pass == 2 && started && line - started + 1 > limit["function"] && !stands_in(place, unlimited["function"]))
        breach("a function of " (line - started + 1) " lines: " limit["function"] " are enough")
      s = substr(s, at + 1)
    }
    check_names(s, depth > 0)
  }
  close(file)
  if (pass == 2 && line > limit["file"] && !stands_in(place, unlimited["file"])) breach("a file of " line " lines: " limit["file"] " are enough")
}

NR == 1 { read_rules($0); next }
{
  list[++count] = $0
  if ($0 ~ /^src\//) known[substr($0, 5)] = 1
  for (prefix in outside) if (index($0, prefix "/") == 1) public_file[$0] = 1
}
END {
  if (broken) exit 1
  if (count == 0) { print "no sources here"; exit 1 }
  pass = 0
  for (f = 1; f <= count; ++f) { file = list[f]; if (file ~ /^include\/embed\//) read_file() }
  pass = 1
  for (f = 1; f <= count; ++f) { file = list[f]; if (file ~ /^src\//) read_file() }
  pass = 2
  for (f = 1; f <= count; ++f) { file = list[f]; if (file ~ /^src\// || file in public_file) read_file() }
  if (breaches) { print breaches " breaches of src/layers.txt"; exit 1 }
  print count " files keep to src/layers.txt"
}'
