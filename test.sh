#!/usr/bin/env bash
# usage: ./test.sh [--all]
# Installs what is missing, builds and runs every test. --all adds the tests at the real widths, address, undefined
# and thread sanitizers, and DSV4_FUZZ_SECONDS (30) of every fuzzer. The last line is the total.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
all=false
case "${1-}" in
  "") ;;
  --all) all=true ;;
  *)
    sed -n '2,4s/^# //p' test.sh >&2
    exit 2
    ;;
esac

jobs=${DSV4_TEST_JOBS:-$(nproc)}
passed=0
failed=0
broken=false
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# run_tests PRESET [ctest options]: runs them and adds to the totals. No test at all is a failure.
run_tests() {
  local preset=$1
  shift
  echo "== tests of build/$preset"
  # A terminal shows each test as it ends, a log only those that fail.
  local hidden='^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed +[0-9.]+ sec$)'
  if [[ -t 1 ]]; then hidden='^ *Start +[0-9]+:'; fi
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" \
    </dev/null 2>&1 | tee "$log" | grep --line-buffered -v -E "$hidden" || true
  local failed_here total_here
  if ! read -r failed_here total_here < <(
    sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log"); then
    echo "no tests ran in build/$preset"
    broken=true
    return
  fi
  failed=$((failed + failed_here))
  passed=$((passed + total_here - failed_here))
}

# build PRESET [TARGET …]: a build that fails is one failure; the rest still runs.
build() {
  echo "== build of $1"
  if scripts/build.sh "$@"; then return 0; fi
  failed=$((failed + 1))
  return 1
}

# Every fuzzer on its corpus for a bounded time; what it finds stays in build/fuzz/found.
run_fuzzers() {
  local seconds=${DSV4_FUZZ_SECONDS:-30} fuzzer name corpus
  mkdir -p build/fuzz/found
  for fuzzer in build/fuzz/tests/*_fuzz; do
    name=$(basename "$fuzzer" _fuzz)
    corpus=build/fuzz/corpus/$name
    mkdir -p "$corpus"
    local seeds=()
    if [[ -d tests/fuzz/corpus/$name ]]; then seeds=("tests/fuzz/corpus/$name"); fi
    echo "== fuzzing $name for $seconds s"
    if "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -artifact_prefix="build/fuzz/found/$name-" \
      "$corpus" "${seeds[@]}" </dev/null >"$log" 2>&1; then
      tail -n 1 "$log"
      passed=$((passed + 1))
    else
      tail -n 40 "$log"
      failed=$((failed + 1))
    fi
  done
}

if $all; then scripts/install_deps.sh --dev; else scripts/install_deps.sh; fi
scripts/fetch_tokenizer.sh models/tokenizer/tokenizer.json
if build release; then
  if $all; then run_tests release; else run_tests release -LE slow; fi
fi
if $all; then
  export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
  export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
  # The matrix of identity and the layers of real widths take the paths of the tests on tiny models, many times over.
  if build asan; then run_tests asan -LE slow -E '^scripts\.|IdentityMatrix|GoldenRealModel'; fi
  # What starts threads: the pool, the operations split over it, and all that runs on them.
  if build tsan dsv4_{platform,ops,model,engine,service}_test identity_test generation_test; then
    run_tests tsan -LE slow -R '^(platform|ops|model|engine|service)\.|ThreadsChangeNothing|^Generation'
  fi
  if build fuzz; then run_fuzzers; fi
fi

echo "$passed passed, $failed failed"
if [[ $failed -ne 0 || $passed -eq 0 ]] || $broken; then exit 1; fi
