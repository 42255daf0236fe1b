#!/usr/bin/env bash
# The `ci` tier: everything that can be checked on a machine without a GPU, cheap checks first. Ends with one line
# "N passed, N failed, N skipped" (steps, and the tests inside them) and a non-zero exit code on any failure.
#   test.sh                 all steps
#   test.sh STEP...         only these; `test.sh --list` names them
#   SOFTMAX_FUZZ_SECONDS    time for each fuzz target (20)
#   SOFTMAX_SKIP_INSTALL    1: install nothing
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

STEPS="format shell style buf dev python asan tsan clang tidy cuda fuzz"
LOGS=$ROOT/build/logs
PASSED=0 FAILED=0 SKIPPED=0
FAILED_NAMES=""

# A step's exit code when something it needs is not installed; its last line of output says what.
SKIP=77

# step NAME SECONDS: runs step_NAME in a shell of its own and counts it.
step() {
  local name=$1 limit=$2 started=$SECONDS code=0 log=$LOGS/test_$1.log
  timeout --kill-after=10 "$limit" bash scripts/test_steps.sh "$name" >"$log" 2>&1 || code=$?
  local took=$((SECONDS - started))
  case $code in
    0)
      PASSED=$((PASSED + 1))
      say "passed   $name (${took} s)"
      ;;
    "$SKIP")
      SKIPPED=$((SKIPPED + 1))
      say "skipped  $name: $(tail -n 1 "$log")"
      ;;
    *)
      FAILED=$((FAILED + 1))
      FAILED_NAMES+=" $name"
      [ "$code" != 124 ] || echo "step $name ran longer than $limit s" >>"$log"
      say "FAILED   $name (${took} s, exit code $code); the end of build/logs/test_$name.log:"
      tail -n 60 "$log"
      ;;
  esac
  count_tests "$name"
}

# Adds the tests of a step's ctest run, when it had one.
count_tests() {
  local junit=$LOGS/junit_$1.xml counts
  [ -f "$junit" ] || return 0
  counts=$(python3 scripts/junit_counts.py "$junit")
  say "         $1: $(printf '%s' "$counts" | awk '{print $1 " tests passed, " $2 " failed, " $3 " skipped"}')"
  PASSED=$((PASSED + $(printf '%s' "$counts" | awk '{print $1}')))
  FAILED=$((FAILED + $(printf '%s' "$counts" | awk '{print $2}')))
  SKIPPED=$((SKIPPED + $(printf '%s' "$counts" | awk '{print $3}')))
}

limit_of() {
  case $1 in
    dev | asan) echo 2400 ;;
    *) echo 900 ;;
  esac
}

case ${1:-} in
  --list) say "$STEPS"; exit 0 ;;
  --help | -h) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
for name in "$@"; do
  case " $STEPS " in *" $name "*) ;; *) die "there is no step $name; the steps are: $STEPS" ;; esac
done

mkdir -p "$LOGS"
rm -f "$LOGS"/junit_*.xml
bash scripts/setup.sh test
choose_cuda
for name in ${*:-$STEPS}; do
  step "$name" "$(limit_of "$name")"
done
say "not run  the tier long: scripts/long.sh"
say "not run  the tier gpu: scripts/gpu_check.sh, on a machine with a GPU"
[ -z "$FAILED_NAMES" ] || say "failed steps:$FAILED_NAMES"
say "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
