#!/usr/bin/env bash
# usage: ./run.sh [SUBCOMMAND …]
# Installs what is missing, builds the program and makes a small demo model, each only where it is not there yet;
# then runs `dsv4 SUBCOMMAND …`, or chats with the demo model. `./run.sh --help` lists the subcommands.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
demo=$root/models/demo
tokenizer=$root/models/tokenizer/tokenizer.json

"$root/scripts/install_deps.sh" </dev/null
"$root/scripts/build.sh" release dsv4
dsv4=$root/build/release/tools/dsv4

if [[ ! -f $demo/config.json || ! -f $demo/tokenizer.json ]]; then
  echo "making a small demo model in models/demo (144 MB)" >&2
  "$root/scripts/fetch_tokenizer.sh" "$tokenizer" </dev/null
  rm -rf "$demo"
  "$dsv4" synth --preset tiny-flash --out "$demo" --tokenizer "$tokenizer" </dev/null >&2
fi

if [[ $# -gt 0 ]]; then exec "$dsv4" "$@"; fi
# Random weights seldom say that they are done, hence the limit.
echo "models/demo has the architecture but random weights: what it says is noise, exactly computed." >&2
exec "$dsv4" chat --model "$demo" --max-new-tokens 100
