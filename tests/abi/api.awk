# SPDX-License-Identifier: BSD-3-Clause
# awk -f api.awk include/embed/*.h: the public headers as a list, one fact a line, fields separated by tabs:
#   opaque TYPE          alias TYPE TARGET         const NAME VALUE TYPE      callback NAME RESULT PARAMETERS
#   struct TYPE          field TYPE NAME CTYPE     function NAME RESULT PARAMETERS
# PARAMETERS are "ctype name" separated by "; ". A field that is an array has the CTYPE "int64_t[8]", one that is a function
# "callback RESULT (PARAMETERS)". A constant is uint32_t unless something in its enum is negative: then int32_t. What is bound to the library in other languages is compared with this list.
function trim(s) { gsub(/[ \t\n]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }
function declared(s,    name, type, result) { # "const float *queries" -> type TAB name
  s = trim(s)
  if (s == "void") return ""
  if (match(s, /\(\*[a-z_0-9]*\)\(/)) { # a function pointer
    name = substr(s, RSTART + 2, RLENGTH - 4)
    result = trim(substr(s, 1, RSTART - 1))
    s = substr(s, RSTART + RLENGTH, length(s) - RSTART - RLENGTH)
    gsub(/ \*/, "*", result)
    return "callback " result " (" parameters(s) ")\t" name
  }
  match(s, /[A-Za-z_][A-Za-z_0-9]*(\[[0-9]*\])?$/)
  name = substr(s, RSTART, RLENGTH)
  type = trim(substr(s, 1, RSTART - 1))
  if (match(name, /\[/)) { type = type substr(name, RSTART); name = substr(name, 1, RSTART - 1) }
  gsub(/ \*/, "*", type)
  return type "\t" name
}
function parameters(s,    depth, i, c, piece, out, pair) { # cut at commas outside of parentheses
  out = ""; piece = ""; depth = 0
  for (i = 1; i <= length(s) + 1; ++i) {
    c = i <= length(s) ? substr(s, i, 1) : ","
    if (c == "(") ++depth
    if (c == ")") --depth
    if (c == "," && depth == 0) {
      piece = trim(piece)
      if (piece != "" && piece != "void") { split(declared(piece), pair, "\t"); out = out (out == "" ? "" : "; ") pair[1] " " pair[2] }
      piece = ""
    } else piece = piece c
  }
  return out
}
function body_end(s, from,    depth, i, c) { # index of the } that closes the { at from
  depth = 0
  for (i = from; i <= length(s); ++i) {
    c = substr(s, i, 1)
    if (c == "{") ++depth
    if (c == "}" && --depth == 0) return i
  }
  return 0
}
function constants(s,    n, list, i, pair, value, type) {
  n = split(s, list, ",")
  type = s ~ /= *-/ ? "int32_t" : "uint32_t"
  value = -1
  for (i = 1; i <= n; ++i) {
    if (trim(list[i]) == "") continue
    if (split(list[i], pair, "=") == 2) {
      value = trim(pair[2])
      if (value !~ /^-?[0-9]+$/) { print "api.awk: no plain number: " trim(list[i]) > "/dev/stderr"; exit 1 }
    }
    else ++value
    print "const\t" trim(pair[1]) "\t" value "\t" type
  }
}
function fields(type, s,    n, list, i, m, each, j, pair, base) {
  n = split(s, list, ";")
  for (i = 1; i <= n; ++i) {
    list[i] = trim(list[i])
    if (list[i] == "") continue
    if (list[i] ~ /\(\*/) { split(declared(list[i]), pair, "\t"); print "field\t" type "\t" pair[2] "\t" pair[1]; continue }
    m = split(list[i], each, ",") # uint32_t size, flags
    for (j = 1; j <= m; ++j) {
      if (j == 1) { base = trim(each[1]); sub(/[ *]*[A-Za-z_0-9]+(\[[0-9]*\])?$/, "", base) }
      split(declared(j == 1 ? each[1] : base " " each[j]), pair, "\t")
      print "field\t" type "\t" pair[2] "\t" pair[1]
    }
  }
}
{ sub(/\r$/, "") }
/^[ \t]*#/ { next }
{ text = text $0 "\n" }
END {
  while (match(text, /\/\*/)) { # comments out
    start = RSTART
    rest = substr(text, start + 2)
    if (!match(rest, /\*\//)) break
    text = substr(text, 1, start - 1) " " substr(rest, RSTART + 2)
  }
  gsub(/extern "C" \{/, "", text)
  gsub(/EMBED_(API|FN) /, "EXPORT ", text)
  for (text = trim(text); text != "" && text != "}"; text = trim(text)) {
    at = index(text, ";"); brace = index(text, "{")
    if (brace && brace < at) { close_at = body_end(text, brace); rest = substr(text, close_at); at = close_at + index(rest, ";") - 1 }
    one = trim(substr(text, 1, at - 1))
    text = substr(text, at + 1)
    sub(/^\} /, "", one)
    if (one ~ /^enum \{/) { constants(substr(one, 7, length(one) - 7)) }
    else if (one ~ /^typedef struct [a-z_0-9]+ \{/) {
      split(one, word, " "); type = word[3]
      print "struct\t" type
      start = index(one, "{")
      fields(type, substr(one, start + 1, body_end(one, start) - start - 1))
    }
    else if (one ~ /^typedef struct [a-z_0-9]+ [a-z_0-9]+$/) { split(one, word, " "); print "opaque\t" word[4] }
    else if (one ~ /^typedef .*\)$/) { # a function type
      sub(/^typedef /, "", one)
      start = index(one, "("); result = trim(substr(one, 1, start - 1))
      split(declared(result), pair, "\t")
      print "callback\t" pair[2] "\t" pair[1] "\t" parameters(substr(one, start + 1, length(one) - start - 1))
    }
    else if (one ~ /^typedef /) { sub(/^typedef /, "", one); split(declared(one), pair, "\t"); print "alias\t" pair[2] "\t" pair[1] }
    else if (one ~ /^EXPORT /) {
      sub(/^EXPORT /, "", one)
      start = index(one, "("); split(declared(substr(one, 1, start - 1)), pair, "\t")
      print "function\t" pair[2] "\t" pair[1] "\t" parameters(substr(one, start + 1, length(one) - start - 1))
    }
    else { print "api.awk: not understood: " one > "/dev/stderr"; exit 1 }
  }
}
