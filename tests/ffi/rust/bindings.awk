# SPDX-License-Identifier: BSD-3-Clause
# awk -f ../../abi/api.awk include/embed/*.h | awk -f bindings.awk: libembed-sys/src/bindings.rs, which is committed.
# sh tests/ffi/bindings.sh write makes it anew after a change of the headers; the test ffi.bindings compares the two.
BEGIN {
  FS = "\t"
  split("int32_t i32 uint32_t u32 int64_t i64 uint64_t u64 int16_t i16 uint16_t u16 int8_t i8 uint8_t u8 float f32 double f64 size_t usize char c_char void c_void", words, " ")
  for (i = 1; words[i] != ""; i += 2) known[words[i]] = words[i + 1]
  print "// SPDX-License-Identifier: BSD-3-Clause"
  print "// Written by ../../bindings.awk from the public headers: names are C's. Edit neither by hand."
  print "use std::marker::{PhantomData, PhantomPinned};"
  print "use std::os::raw::{c_char, c_void};"
}
function rust(type,    base, inner, at) {
  if (type ~ /^callback /) {
    at = index(type, "(")
    base = substr(type, 10, at - 11)
    inner = substr(type, at + 1, length(type) - at - 1)
    return "Option<unsafe extern \"C\" fn(" list(inner) ")" (base == "void" ? "" : " -> " rust(base)) ">"
  }
  if (type ~ /\]$/) {
    at = index(type, "[")
    return "[" rust(substr(type, 1, at - 1)) "; " substr(type, at + 1, length(type) - at - 1) "]"
  }
  if (type ~ /\*$/) {
    base = substr(type, 1, length(type) - 1)
    if (base in task) return "Option<" base ">"
    if (base ~ /\*const$/) return "*const " rust(substr(base, 1, length(base) - 5)) # const T*const*
    if (base ~ /^const [a-z_0-9]+$/) return "*const " rust(substr(base, 7))
    return "*mut " rust(base)
  }
  return type in known ? known[type] : type
}
function name_of(s) { return s == "type" || s == "ref" || s == "use" || s == "in" || s == "as" || s == "of" ? s "_" : s }
function list(s,    n, each, i, at, out) {
  n = split(s, each, "; ")
  for (i = 1; i <= n; ++i) {
    at = length(each[i])
    while (substr(each[i], at, 1) != " ") --at
    out = out (i > 1 ? ", " : "") name_of(substr(each[i], at + 1)) ": " rust(substr(each[i], 1, at - 1))
  }
  return out
}
function finish() {
  if (open_struct == "") return
  print "}"
  print "impl Default for " open_struct " {"
  print "    /// All default, of this version's size."
  print "    fn default() -> Self {"
  print "        let mut all_zero: Self = unsafe { std::mem::zeroed() };"
  print "        all_zero.size = std::mem::size_of::<Self>() as u32;"
  print "        all_zero"
  print "    }"
  print "}"
  open_struct = ""
}
$1 == "alias" { print "pub type " $2 " = " rust($3) ";" }
$1 == "opaque" {
  print "#[repr(C)]\npub struct " $2 " {\n    _opaque: [u8; 0],\n    _not_send: PhantomData<(*mut u8, PhantomPinned)>,\n}"
}
$1 == "callback" { task[$2] = 1; print "pub type " $2 " = unsafe extern \"C\" fn(" list($4) ")" ($3 == "void" ? "" : " -> " rust($3)) ";" }
$1 == "const" { print "pub const " $2 ": " rust($4) " = " $3 ";" }
$1 == "struct" { finish(); open_struct = $2; print "#[repr(C)]\n#[derive(Clone, Copy)]\npub struct " $2 " {" }
$1 == "field" { print "    pub " name_of($3) ": " rust($4) "," }
$1 == "function" { functions[++count] = "    pub fn " $2 "(" list($4) ")" ($3 == "void" ? "" : " -> " rust($3)) ";" }
$1 != "field" && $1 != "struct" { pending = 1 }
END {
  finish()
  print "extern \"C\" {"
  for (i = 1; i <= count; ++i) print functions[i]
  print "}"
}
