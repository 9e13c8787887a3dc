#!/usr/bin/env bash
# Configures (once) and builds a preset of CMakePresets.json; says nothing where nothing is to be done.
# usage: build.sh PRESET [TARGET …]     DSV4_WERROR=ON makes compiler warnings errors
# Standard input is left alone and standard output stays empty: all messages go to standard error.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
preset=${1:?usage: build.sh PRESET [TARGET …]}
shift
folder=$root/build/$preset

configure=()
if [[ ! -f $folder/build.ninja ]]; then configure=(-DDSV4_WERROR=OFF); fi
if [[ -n ${DSV4_WERROR-} ]]; then configure=("-DDSV4_WERROR=$DSV4_WERROR"); fi
if [[ ${#configure[@]} -ne 0 ]]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! (cd "$root" && cmake --preset "$preset" "${configure[@]}") </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
  fi
fi

targets=()
for target in "$@"; do targets+=(--target "$target"); done
cmake --build "$folder" "${targets[@]}" </dev/null 2>&1 |
  { grep --line-buffered -v -e 'Re-checking globbed directories' -e '^ninja: no work to do' || true; } >&2
