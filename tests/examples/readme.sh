#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# readme.sh ROOT PREFIX SCRATCH LIBDIR COMPILER SANITIZERS DEMO_BUILD: what README.md shows is so.
#   ```c with main     is a program of tests/examples, its SPDX line apart; ```c without, ```cpp, ```rust, ```go: lines of a file below tests/
#   ``` with "$ ..."   a dialogue: each command is run against the installed copy, and its output is what stands below it
#   ``` with "== ..."  what the demo says (DEMO_BUILD has the tool; "" = not compared)
#   indented commands  bootstrap.sh has the goal, embed the command; cmake's own are what CI does
# Every other block must be a table of figures, under "## Speed".
set -eu
root=$1 prefix=$2 scratch=$3 libdir=$4 compiler=$5 sanitize=${6:+-fsanitize=$6} demo=$7
rm -rf "$scratch"
mkdir -p "$scratch/blocks" "$scratch/work" "$scratch/bin"
failed=0
wrong() { echo "README.md: $*" && failed=1; }

awk -v out="$scratch/blocks" '
  /^## / { section = $0; gsub(/[^A-Za-z]/, "", section) }
  /^```/ {
    if (inside) { inside = 0; close(file); next }
    language = substr($0, 4)
    file = sprintf("%s/%02d.%s.%s", out, ++n, language == "" ? "text" : language, section)
    inside = 1
    printf "" > file
    next
  }
  inside { print > file }
  !inside && /^    [^ ]/ { print substr($0, 5) > (out "/commands") }' "$root/README.md"

contains() { # FILE BLOCK: the block's lines stand one after another in the file
  awk 'NR == FNR { want[NR] = $0; n = NR; next } { line[FNR] = $0; m = FNR }
    END { for (i = 0; i + n <= m; ++i) { for (j = 1; j <= n && line[i + j] == want[j];) ++j; if (j > n) exit 0 } exit 1 }' "$2" "$1"
}
quoted() { # BLOCK: of which file?
  for file in "$root"/tests/examples/*.c "$root"/tests/ffi/*/*.* "$root"/tests/ffi/rust/*/*/*.rs "$root"/include/embed/*; do
    if contains "$file" "$1"; then return 0; fi
  done
  return 1
}
dialogue() { # BLOCK: command after command
  awk -v out="$scratch/work/.step" '/^\$ / { ++n; print substr($0, 3) > (out n ".sh"); printf "" > (out n ".want"); next } { print > (out n ".want") }
    END { print n + 0 }' "$1" >"$scratch/steps"
  step=0
  while [ $step -lt "$(cat "$scratch/steps")" ]; do
    step=$((step + 1))
    (cd "$scratch/work" && sh ".step$step.sh" >".step$step.got" 2>&1) || wrong "this fails: $(cat "$scratch/work/.step$step.sh")"
    diff "$scratch/work/.step$step.want" "$scratch/work/.step$step.got" || wrong "< said to be the output of this, > it is: $(cat "$scratch/work/.step$step.sh")"
  done
}

# A user's folder: the installed copy, this checkout's tests, and his compiler.
printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$compiler" "$sanitize" >"$scratch/bin/cc"
chmod +x "$scratch/bin/cc"
PATH="$scratch/bin:$prefix/bin:$PATH"
PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH PKG_CONFIG_PATH LD_LIBRARY_PATH
ln -s "$root/tests" "$scratch/work/tests"

programs=0 dialogues=0
for block in "$scratch"/blocks/*.*.*; do
  case ${block##*/} in
    *.c.*)
      if grep -q '^int main(' "$block"; then
        found=
        for file in "$root"/tests/examples/*.c; do
          if sed 1d "$file" | cmp -s - "$block"; then found=$file; fi
        done
        [ -n "$found" ] || { wrong "no program of tests/examples is quoted as it stands by: $(head -3 "$block")" && continue; }
        cp "$block" "$scratch/work/${found##*/}"
        programs=$((programs + 1))
      else
        quoted "$block" || wrong "not in any file: $(head -3 "$block")"
      fi
      ;;
    *.cpp.* | *.rust.* | *.go.* | *.python.*) quoted "$block" || wrong "not in any file: $(head -3 "$block")" ;;
    *.text.Speed) ;;
    *.text.*)
      case $(head -1 "$block") in
        '$ '*)
          case $(cat "$block") in
            *'$ embed '*) [ -x "$prefix/bin/embed" ] || continue ;;
          esac
          dialogue "$block"
          dialogues=$((dialogues + 1))
          ;;
        '== '*)
          if [ -z "$demo" ]; then continue; fi
          any_level='s/= [a-z0-9]* lookup/= LEVEL lookup/'
          sh "$root/cmake/demo.sh" "$demo" | sed "$any_level" >"$scratch/demo"
          sed "$any_level" "$block" >"$scratch/demo.want"
          while IFS= read -r line; do
            grep -qxF -- "$line" "$scratch/demo" || wrong "the demo does not say: $line"
          done <"$scratch/demo.want"
          ;;
        *) wrong "nobody checks this block: $(head -1 "$block")" ;;
      esac
      ;;
    *) wrong "nobody checks blocks of this kind: ${block##*/}" ;;
  esac
done
[ $programs -gt 0 ] && [ $dialogues -gt 0 ] || wrong "no program, or no dialogue"

goals=$(sed -n '/USAGE/,/^USAGE/s/^  \([a-z0-9]*\) .*/\1/p' "$root/cmake/bootstrap.sh")
while IFS= read -r line; do
  case $line in
    'sh cmake/bootstrap.sh '*) ;; # below
    'embed '*)
      command=${line#embed }
      grep -q "^COMMAND(${command%% *}," "$root/src/cli/commands.def" || wrong "embed has no command: $line"
      ;;
    'cmake '*) ;;
    *) wrong "nobody checks this line: $line" ;;
  esac
done <"$scratch/blocks/commands"
for goal in $(cat "$root/README.md" "$root/CONTRIBUTING.md" | grep -oE 'cmake/bootstrap\.sh [a-z0-9]+' | sed 's/.* //' | sort -u); do
  echo "$goals" | grep -qx "$goal" || wrong "bootstrap.sh has no goal $goal"
done
exit $failed
