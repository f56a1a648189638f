# SPDX-License-Identifier: BSD-3-Clause
done_by lookup "$glove" --ids 654 --npy h.npy
if [ -c /dev/full ] && [ -w /dev/full ]; then
  full() {
    "$embed" "$@" >/dev/full 2>err
    is $? 1
    one_line "standard output: No space left on device" "$* >/dev/full"
  }
  : >out
  full info "$glove"
  full info "$glove" --json
  full lookup "$glove" --ids 0:2000 --json
  full topk "$glove" --hidden h.npy
  full neighbors "$glove" king
  full analogy "$glove" man king woman --json
  full verify "$glove"
  full help
  full --version
  refused 1 '/dev/full: No space left on device' lookup "$glove" --ids 0:2000 --npy /dev/full
  refused 1 '/dev/full: No space left on device' lookup "$glove" --ids 0 --npy /dev/full
  [ -c /dev/full ] || wrong "/dev/full was removed"
fi
"$embed" info "$glove" >&- 2>err && wrong "a closed stdout passes"
one_line "standard output: " "info with stdout closed"
"$embed" lookup "$glove" --ids 0 --npy closed.npy >&- 2>err || wrong "--npy needs no stdout"
cmp -n 128 closed.npy h.npy || wrong "the .npy file is not whole when stdout is closed"

# A file that cannot be written whole is not left behind.
(ulimit -f 64 && exec "$embed" lookup "$glove" --ids 0:2000 --npy big.npy) >out 2>err
is $? 1
one_line "big.npy: File too large" "lookup --npy under a limit"
[ ! -e big.npy ] || wrong "a broken file was left"
(ulimit -f 64 && exec "$embed" logits "$glove" --hidden h.npy --npy z.npy) >out 2>err || wrong "16,128 bytes do not fit into the limit"
refused 1 'none/z.npy: No such file' lookup "$glove" --ids 0 --npy none/z.npy
mkdir folder
refused 1 'folder: Is a directory' lookup "$glove" --ids 0 --npy folder
chmod a-w folder
if ! touch folder/probe 2>/dev/null; then # root writes anywhere
  refused 1 'folder/z.npy: Permission denied' lookup "$glove" --ids 0 --npy folder/z.npy
fi
chmod u+w folder

# What was there before stays until there is a whole one, behind a link too; a file of another kind stays.
cp h.npy before.npy
cp h.npy kept.npy
ln -s before.npy link.npy
for name in before.npy link.npy; do
  (ulimit -f 64 && exec "$embed" lookup "$glove" --ids 0:2000 --npy $name) >out 2>err
  is $? 1
  cmp before.npy kept.npy || wrong "a failure left something else in before.npy"
  [ -L link.npy ] || wrong "a failure removed the link"
done
done_by lookup "$glove" --ids 7 --npy link.npy
[ -L link.npy ] || wrong "the link is no more"
! cmp -s before.npy kept.npy || wrong "nothing was written through the link"
ln -s nowhere.npy lost.npy
refused 1 'lost.npy: it is a link to nothing' lookup "$glove" --ids 7 --npy lost.npy
mkdir model
cp "$glove" model/words.bin
echo words >model/vocab.txt
for name in model/words.bin model/vocab.txt; do
  refused 1 "$name: it is there and no .npy file, which alone is overwritten" lookup "$glove" --ids 0 --npy $name
done
cmp model/words.bin "$glove" || wrong "a model was overwritten"
: >empty.npy
done_by lookup "$glove" --ids 654 --npy empty.npy
cmp empty.npy h.npy || wrong "an empty file was not overwritten"
is "$(ls -A | grep -c '^\.')" 0 # nothing else is left

# The input is not overwritten, by no name of it.
cp "$glove" input.bin
ln input.bin hard.bin
ln -s input.bin soft.bin
for name in input.bin ./input.bin hard.bin soft.bin; do
  refused 1 'it is the input input.bin, which is not overwritten' lookup input.bin --ids 0 --npy $name
done
cmp input.bin "$glove" || wrong "the input was changed"
