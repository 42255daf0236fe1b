#!/usr/bin/env bash
# The tests of a machine without a GPU, cheap checks first. Installs what is missing. Ends with one line
# "N passed, N failed, N skipped" (steps, and the tests inside them) and a non-zero exit code on any failure.
#   test.sh                 format, style, and every unit and end-to-end test of one build
#   test.sh --all           the same and more: sanitizers, clang, lint, fuzzing, all instruction sets, CUDA compiled,
#                           benchmarks' own tests, browsers, a live Prometheus; what CI runs
#   test.sh STEP...         only these; `test.sh --list` names them
#   SOFTMAX_FUZZ_SECONDS    time for each fuzz target (20)
#   SOFTMAX_SKIP_INSTALL    1: install nothing
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

STEPS="format shell style dev"
ALL_STEPS="$STEPS buf python depth simd asan tsan clang tidy cuda fuzz"
LOGS=$ROOT/build/logs
PASSED=0 FAILED=0 SKIPPED=0
FAILED_NAMES=""

# The lines of a log that say what failed.
WHY=': Failure$|ERROR: .*Sanitizer|: error: |multiple definition|undefined reference|^(FAIL|AssertionError)'
WHY+='|\[  FAILED  \]|\*\*\*(Failed|Timeout|Exception)'

# A step's exit code when something it needs is not installed; its last line of output says what.
SKIP=77

# step NAME: runs step_NAME in a shell of its own and counts it. Steps have no time limit, for a slow or busy machine is
# no fault; what may hang is a test, and each has its own.
step() {
  local name=$1 started=$SECONDS code=0 log=$LOGS/test_$1.log
  bash scripts/test_steps.sh "$name" >"$log" 2>&1 || code=$?
  local took=$((SECONDS - started))
  case $code in
    0)
      PASSED=$((PASSED + 1))
      say "passed   $name (${took} s)"
      # One that passed only when it was tried again is named, with what it said.
      grep -E -A 4 "$WHY" "$log" | cut -c 1-240 | sed 's/^/         unsteady: /' | head -n 20 || true
      ;;
    "$SKIP")
      SKIPPED=$((SKIPPED + 1))
      say "skipped  $name: $(tail -n 1 "$log")"
      ;;
    *)
      FAILED=$((FAILED + 1))
      FAILED_NAMES+=" $name"
      say "FAILED   $name (${took} s, exit code $code); the end of build/logs/test_$name.log:"
      tail -n 12 "$log" | cut -c 1-240
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

case ${1:-} in
  "") ;;
  --all) [ $# = 1 ] || die "--all stands alone"; STEPS=$ALL_STEPS ;;
  --list) say "$ALL_STEPS"; exit 0 ;;
  --help | -h) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *)
    for name in "$@"; do
      case " $ALL_STEPS " in *" $name "*) ;; *) die "there is no step $name; the steps are: $ALL_STEPS" ;; esac
    done
    STEPS=$*
    ;;
esac

mkdir -p "$LOGS"
rm -f "$LOGS"/junit_*.xml
# Everything is installed when a step wants it, and little for the others.
depth=test
for name in $STEPS; do
  case $name in format | shell | style | dev) ;; *) depth=all ;; esac
done
bash scripts/setup.sh "$depth"
choose_cuda
for name in $STEPS; do step "$name"; done
[ "$STEPS" = "$ALL_STEPS" ] || say "not run  the other steps: scripts/test.sh --all"
say "not run  the tier long: scripts/long.sh"
say "not run  the tier gpu: scripts/gpu_check.sh, on a machine with a GPU"
[ -z "$FAILED_NAMES" ] || say "failed steps:$FAILED_NAMES"
# What failed in them, last: whoever reads only the end sees why. The servers' own log lines are not the reason.
for name in $FAILED_NAMES; do
  say "$name failed:"
  grep -vE '^\[20[0-9-]+ ' "$LOGS/test_$name.log" | grep -E -A 4 "$WHY" | cut -c 1-240 | head -n 40 || true
done
say "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
