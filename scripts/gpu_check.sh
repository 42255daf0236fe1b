#!/usr/bin/env bash
# gpu_check.sh [DIR]: the `gpu` tier, on a machine with a GPU. DIR is what scripts/gpu_pack.sh made (out/gpu); where it
# is missing and nvcc is here, it is made first. Runs every GPU test, that of the kernels in as many parts at once as
# there are cores; where compute-sanitizer is installed, the kernels' suite `small` and the tests of the whole server
# under its memcheck, and the suite under synccheck; then a served request and verified load on the GPU. Ends with one
# line of counts.
#   SOFTMAX_GPU_PARTS="tests sanitizers service"   which of these
#   SOFTMAX_MEMCHECK_FILTER=RowCountTest.NothingIsReadPastFewRows*   --gtest_filter of the kernels' tests that memcheck
#                                                  runs too; all take hours under it
#   SOFTMAX_CHECK_SECONDS=560                      that one program may take
#   SOFTMAX_SEARCH_SECONDS=60                      of the search for rows that break the promised bounds, a kind of rows
#   SOFTMAX_LOAD_SECONDS=5                         of each load
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=${1:+$(realpath -m "$1")}
. "$HERE/common.sh"

has_gpu || { say "gpu: skipped, this machine has no NVIDIA GPU"; exit 0; }
# The script lies in the tree or, carried along, in the package itself.
if [ -z "$DIR" ] && [ -f "$HERE/manifest" ]; then DIR=$HERE; fi
DIR=${DIR:-$ROOT/out/gpu}
[ -f "$DIR/manifest" ] || bash scripts/gpu_pack.sh "$DIR"
cd "$DIR"
PARTS=${SOFTMAX_GPU_PARTS:-tests sanitizers service}
# For the tests of the whole server: on the GPU, and which program to start.
export SOFTMAX_TEST_BACKEND=cuda SOFTMAX_SERVER=$PWD/softmax-server
PASSED=0 FAILED=0 SKIPPED=0
LOGS=${OUT:-$PWD/logs}
mkdir -p "$LOGS"
SERVER_PID=
trap '[ -z "$SERVER_PID" ] || kill -KILL "$SERVER_PID" 2>/dev/null || true' EXIT

# limited LOG COMMAND...: the command, within the time that one may take.
limited() {
  timeout "${SOFTMAX_CHECK_SECONDS:-560}" "${@:2}" >"$1" 2>&1
}

# verdict NAME LOG STARTED CODE: one counted entry. "SKIPPED: no GPU" cannot be, there is one; nor may a GoogleTest
# program have run nothing.
verdict() {
  local took=$((SECONDS - $3)) passed
  passed=$(awk '/^\[  PASSED  \]/ { ran = 1; n += $4 } /ERROR SUMMARY/ { errors = $0 }
                END { if (ran) printf "  %d tests", n; if (errors) printf "  %s", errors }' "$2")
  if [ "$4" = 0 ] && ! grep -q 'SKIPPED: no GPU' "$2" && [[ $passed != "  0 tests"* ]]; then
    PASSED=$((PASSED + 1))
    say "passed   $1 ($took s)$passed"
  else
    FAILED=$((FAILED + 1))
    say "FAILED   $1 ($took s, exit code $4)"
    grep -hA 6 ': Failure$' "$2" | head -n 60 || true
    grep '^=========' "$2" | head -n 40 || true  # a sanitizer's reports, which stand above the program's own lines
    grep '^\[  FAILED  \]' "$2" || tail -n 40 "$2"
  fi
}

# check NAME COMMAND...
check() {
  local log=$LOGS/$1.log started=$SECONDS code=0
  limited "$log" "${@:2}" || code=$?
  verdict "$1" "$log" "$started" "$code"
}

# check_in_parts NAME FILTER COMMAND...: the same for a GoogleTest program, with a part of its tests on each core.
check_in_parts() {
  local log=$LOGS/$1.log started=$SECONDS code=0 parts i jobs=()
  parts=$(cores)
  [ "$parts" -le 16 ] || parts=16
  for ((i = 0; i < parts; ++i)); do
    GTEST_FILTER=$2 GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$i limited "$log.$i" "${@:3}" &
    jobs+=($!)
  done
  for i in "${jobs[@]}"; do wait "$i" || code=$?; done
  for ((i = 0; i < parts; ++i)); do cat "$log.$i"; done >"$log"
  verdict "$1" "$log" "$started" "$code"
}

# each_test PREFIX COMMAND...: every test of the manifest behind COMMAND, but the kernels' and those that EXCLUDED
# names, in the words that a filter has after a minus.
each_test() {
  local prefix=$1 kind name binary arguments
  shift
  while IFS=$'\t' read -r kind name binary arguments <&3; do
    [ "$kind" = test ] && [ "$binary" != softmax_cuda_test ] || continue
    case $arguments in --gtest_filter=*) arguments+=${EXCLUDED:+-$EXCLUDED} ;; esac
    # shellcheck disable=SC2086 -- the arguments are words
    check "$prefix$name" "$@" "./$binary" $arguments
  done 3<manifest
}

# kernel_tests PREFIX COMMAND...: those of the kernels behind COMMAND. The streams' test looks at how much of the
# device's memory is taken, so nothing runs beside it.
kernel_tests() {
  check_in_parts "$1softmax_cuda_test" '-StreamsTest.*' "${@:2}" ./softmax_cuda_test
  check "$1streams" "${@:2}" ./softmax_cuda_test --gtest_filter='StreamsTest.*'
}

part_tests() {
  kernel_tests ""
  # Minutes of it, beside the fraction of a second that it has among the tests.
  SOFTMAX_SEARCH_SECONDS=${SOFTMAX_SEARCH_SECONDS:-60} check_in_parts row_search '*RowSearch*' ./softmax_cuda_test
  # What GPUs without clusters run.
  kernel_tests no_clusters_ env SOFTMAX_NO_CLUSTERS=1
  each_test ""
  if python3 -c 'import torch' 2>/dev/null; then
    check torch_difference python3 torch_difference.py ./softmax_of_file
  else
    SKIPPED=$((SKIPPED + 1))
    say "skipped  torch_difference: python3 has no torch"
  fi
}

# Tests that bring about what memcheck reports as errors: kernels that read where there is no memory, and more pinned
# memory than there is. They run in the part `tests`.
PROVOKED=Faults.ARealIllegalAddressEndsTheProcessWith70:Faults.MemoryThatIsNotToBeHadIsNamedWithSizesAndAdvice
PROVOKED+=:Devices.OneContextThatIsBrokenIsBrokenForAllThatPose

# small_suite SANITIZER TOOL FLAGS...: the kernels' suite `small` under a tool.
small_suite() {
  check "$2_small" "$1" --tool "${@:2}" --error-exitcode 9 \
    ./softmax-kernel-bench --suite small --samples 1 --providers softmax --csv "$LOGS/$2.csv"
}

part_sanitizers() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || true)
  [ -n "$sanitizer" ] || sanitizer=/usr/local/cuda/bin/compute-sanitizer
  if [ ! -x "$sanitizer" ]; then
    SKIPPED=$((SKIPPED + 1))
    say "skipped  sanitizers: compute-sanitizer is not installed"
    return 0
  fi
  small_suite "$sanitizer" memcheck
  # A block of the rings has up to 110 barriers. With its usual number synccheck warns, and kernels fail in it.
  small_suite "$sanitizer" synccheck --num-cuda-barriers 128
  local memcheck=("$sanitizer" --tool memcheck --error-exitcode 9 --leak-check no)
  check memcheck_softmax_cuda_test "${memcheck[@]}" ./softmax_cuda_test \
    --gtest_filter="${SOFTMAX_MEMCHECK_FILTER:-RowCountTest.NothingIsReadPastFewRows*}"
  say "not under memcheck: $PROVOKED"
  EXCLUDED=$PROVOKED SOFTMAX_TEST_CALLS=20000 each_test memcheck_ "${memcheck[@]}"
}

# load NAME FLAGS...: verified load on the running server, its table shown.
load() {
  local name=$1
  shift
  check "load_$name" ./softmax-loadgen --address "$SERVER_ADDRESS" --duration "${SOFTMAX_LOAD_SECONDS:-5}" \
    --csv "$LOGS/load.csv" "$@"
  cat "$LOGS/load_$name.log"
}

part_service() {
  start_server ./softmax-server "$LOGS/server.log" --backend cuda
  check health ./softmax-client --address "$SERVER_ADDRESS" --health --wait 30s
  load small --connections 8 --in-flight 16 --shape 1x16
  load medium --connections 8 --in-flight 4 --shape 16x1024
  load large --connections 4 --in-flight 2 --shape 256x1024
  load mixed --connections 8 --in-flight 8 --shape 1x16 --shape 16x1000 --shape 64x1024 --shape 4x50257 --verify 0.05
  stop_server
  check server_exit test "$SERVER_EXIT" = 0
}

say "gpu: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tr '\n' ';') commit $(cat commit)"
for part in $PARTS; do "part_$part"; done
say "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
