#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# round_trip.sh EMBED FOLDER: installs numpy, safetensors, gguf, gensim, finalfusion and model2vec into FOLDER/venv, where they are not yet,
# and has them read what `embed convert` writes. Exit 77 = they cannot be had (no network).
set -u
embed=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
python=$folder/venv/bin/python
if ! [ -f "$folder/venv/whole" ]; then
  mkdir -p "$folder"
  "${PYTHON:-python3}" -m venv "$folder/venv" && "$python" -m pip install -q --disable-pip-version-check numpy safetensors gguf gensim model2vec || {
    echo "round_trip.sh: skipped: the packages cannot be installed"
    exit 77
  }
  # Builds from source: readers of its files are few, and it may not build with tomorrow's Python. Its lines say skipped then.
  "$python" -m pip install -q --disable-pip-version-check finalfusion || echo "round_trip.sh: finalfusion cannot be installed"
  : >"$folder/venv/whole"
fi
work=$(mktemp -d "$folder/work.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
"$python" "$here/round_trip.py" "$embed" "$here/../data/glove-2000x100.bin" "$work"
