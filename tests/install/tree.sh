#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tree.sh CASE BUILD PREFIX SCRATCH SOURCE LIBDIR: what lies in an installed tree. 77 = skipped.
set -eu
case=$1 build=$2 prefix=$3 scratch=$4 source=$5 libdir=$6
rm -rf "$scratch"
mkdir -p "$scratch"
wrong() { echo "$*" && exit 1; }
list() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }

case $case in
  destdir) # a packager's way: made here, at home there; nothing of the making stays in it
    DESTDIR="$scratch/root" cmake --install "$build" --prefix /opt/there >"$scratch/log" || { cat "$scratch/log" && exit 1; }
    list "$prefix" >"$scratch/want"
    list "$scratch/root/opt/there" >"$scratch/got"
    cmp "$scratch/want" "$scratch/got" || wrong "another tree than without DESTDIR"
    [ "$(ls "$scratch/root")" = opt ] || wrong "something lies outside of the prefix"
    ;;
  no_path_of_the_making) # of the source, the build, or the prefix it was configured for
    for path in "$source" "$build"; do
      if grep -rIlF -- "$path" "$prefix"; then wrong "^ names $path"; fi
    done
    if grep -rIl '/usr/local' "$prefix/$libdir/pkgconfig" "$prefix/$libdir/cmake"; then wrong "^ names the configured prefix"; fi
    ;;
  components) # runtime, dev and tools are the whole, and nothing twice
    for component in runtime dev tools; do
      cmake --install "$build" --prefix "$scratch/$component" --component $component >>"$scratch/log" || { cat "$scratch/log" && exit 1; }
      if [ -d "$scratch/$component" ]; then list "$scratch/$component" >"$scratch/list.$component"; fi
    done
    cat "$scratch"/list.* | LC_ALL=C sort >"$scratch/got"
    list "$prefix" >"$scratch/want"
    diff "$scratch/want" "$scratch/got" || wrong "< in the whole, > in the components"
    grep -q 'libembed.so.0$' "$scratch/list.runtime" || wrong "no library in runtime"
    if grep -v '/libembed\.so\.' "$scratch/list.runtime"; then wrong "^ is not needed at run time"; fi
    ;;
  tool) # bin/embed finds its library, here and wherever the tree is moved
    [ -x "$prefix/bin/embed" ] || { echo "skipped: built without the tool" && exit 77; }
    unset LD_LIBRARY_PATH
    want="embed $(sed -n 's/^Version: //p' "$prefix/$libdir/pkgconfig/libembed.pc")"
    cp -R "$prefix" "$scratch/moved to here"
    for place in "$prefix" "$scratch/moved to here"; do
      [ "$("$place/bin/embed" --version)" = "$want" ] || wrong "$place/bin/embed does not run"
      found=$(ldd "$place/bin/embed" | sed -n 's/^[[:space:]]*libembed\.so\.0 => \(.*\) (.*/\1/p')
      [ "$found" -ef "$place/$libdir/libembed.so.0" ] || wrong "$place/bin/embed runs with $found"
    done
    ;;
  manual) # embed(1): reads without complaint, names every command and option
    page=$prefix/share/man/man1/embed.1
    [ -f "$page" ] || { echo "skipped: built without the tool or without scdoc" && exit 77; }
    tr -d '\\' <"$page" >"$scratch/page"
    sed -n 's/^COMMAND(\([a-z]*\),.*/embed \1/p' "$source/src/cli/commands.def" >"$scratch/words"
    [ -s "$scratch/words" ] || wrong "no list of commands"
    sed -n 's/^ *{"\([a-z-]*\)", .*_argument.*/fB--\1fR/p' "$source/src/cli/options.c" >"$scratch/options"
    [ -s "$scratch/options" ] || wrong "no list of options"
    while read -r word; do
      grep -qF -- "$word" "$scratch/page" || wrong "the manual does not name $word"
    done <<WORDS
$(cat "$scratch/words" "$scratch/options")
EMBED_ISA
EXIT STATUS
WORDS
    if command -v man >/dev/null; then LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -l "$page" 2>"$scratch/warnings" >/dev/null; fi
    if [ -s "$scratch/warnings" ]; then cat "$scratch/warnings" && exit 1; fi
    if command -v mandoc >/dev/null; then mandoc -T lint -W error "$page" || wrong "mandoc does not read it"; fi
    ;;
  pc_folders) # libembed.pc of packagers who give absolute folders, and of those who do not
    cmake -S "$source" -B "$scratch/absolute" -DEMBED_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=/elsewhere/lib64 \
      -DCMAKE_INSTALL_INCLUDEDIR=include/deep >"$scratch/log" 2>&1 || { cat "$scratch/log" && exit 1; }
    grep -qx 'libdir=/elsewhere/lib64' "$scratch/absolute/libembed.pc" || wrong "libdir: $(grep libdir= "$scratch/absolute/libembed.pc")"
    grep -qx 'includedir=${prefix}/include/deep' "$scratch/absolute/libembed.pc" || wrong "includedir"
    grep -qx 'prefix=${pcfiledir}/../../../usr' "$scratch/absolute/libembed.pc" || wrong "$(grep ^prefix "$scratch/absolute/libembed.pc")"
    ;;
  *) wrong "no such case: $case" ;;
esac
