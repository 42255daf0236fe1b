#!/usr/bin/env bash
# gpu_check.sh [DIR]: the `gpu` tier, on a machine with a GPU. DIR is what scripts/gpu_pack.sh made (out/gpu); where it
# is missing and nvcc is here, it is made first. Runs every GPU test plainly and, where compute-sanitizer is
# installed, under its memcheck; then a served request and verified load on the GPU. Ends with one line of counts.
#   SOFTMAX_GPU_PARTS="tests memcheck service"   which of these
#   SOFTMAX_MEMCHECK_FILTER                      --gtest_filter of the memcheck run (it is 10 to 100 times slower)
#   SOFTMAX_LOAD_SECONDS=5                       of each load
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=${1:+$(realpath -m "$1")}
. "$HERE/common.sh"

has_gpu || { say "gpu: skipped, this machine has no NVIDIA GPU"; exit 0; }
# The script lies in the tree or, carried along, in the package itself.
if [ -z "$DIR" ] && [ -f "$HERE/manifest" ]; then DIR=$HERE; fi
DIR=${DIR:-$ROOT/out/gpu}
[ -f "$DIR/manifest" ] || bash scripts/gpu_pack.sh "$DIR"
cd "$DIR"
PARTS=${SOFTMAX_GPU_PARTS:-tests memcheck service}
# For the tests of the whole server: on the GPU, and which program to start.
export SOFTMAX_TEST_BACKEND=cuda SOFTMAX_SERVER=$PWD/softmax-server
PASSED=0 FAILED=0 SKIPPED=0
LOGS=${OUT:-$PWD/logs}
mkdir -p "$LOGS"
SERVER_PID=
trap '[ -z "$SERVER_PID" ] || kill -KILL "$SERVER_PID" 2>/dev/null || true' EXIT

# check NAME COMMAND...: one counted entry. "SKIPPED: no GPU" cannot be: there is one.
check() {
  local name=$1 log=$LOGS/$1.log started=$SECONDS code=0
  shift
  timeout "${SOFTMAX_CHECK_SECONDS:-560}" "$@" >"$log" 2>&1 || code=$?
  if [ "$code" = 0 ] && ! grep -q 'SKIPPED: no GPU' "$log"; then
    PASSED=$((PASSED + 1))
    say "passed   $name ($((SECONDS - started)) s)  $(grep -E '\[  PASSED  \]|ERROR SUMMARY' "$log" | tail -n 1)"
  else
    FAILED=$((FAILED + 1))
    say "FAILED   $name ($((SECONDS - started)) s, exit code $code)"
    tail -n 40 "$log"
  fi
}

# each_test PREFIX COMMAND...: every test of the manifest behind COMMAND.
each_test() {
  local prefix=$1 kind binary arguments
  shift
  while IFS=$'\t' read -r kind binary arguments <&3; do
    [ "$kind" = test ] || continue
    # A filter may leave nothing of a binary.
    [ -n "$("./$binary" --gtest_list_tests 2>/dev/null | grep '^  ' || true)" ] || continue
    # shellcheck disable=SC2086 -- the arguments are words
    check "$prefix$binary" "$@" "./$binary" $arguments
  done 3<manifest
}

part_tests() {
  each_test ""
  # What GPUs without clusters run.
  check no_clusters_softmax_cuda_test env SOFTMAX_NO_CLUSTERS=1 ./softmax_cuda_test
  if python3 -c 'import torch' 2>/dev/null; then
    check torch_difference python3 torch_difference.py ./softmax_of_file
  else
    SKIPPED=$((SKIPPED + 1))
    say "skipped  torch_difference: python3 has no torch"
  fi
}

part_memcheck() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || true)
  [ -n "$sanitizer" ] || sanitizer=/usr/local/cuda/bin/compute-sanitizer
  if [ ! -x "$sanitizer" ]; then
    SKIPPED=$((SKIPPED + 1))
    say "skipped  memcheck: compute-sanitizer is not installed"
    return 0
  fi
  export GTEST_FILTER=${SOFTMAX_MEMCHECK_FILTER:-*} SOFTMAX_TEST_CALLS=20000
  each_test memcheck_ "$sanitizer" --tool memcheck --error-exitcode 9 --leak-check no
  unset GTEST_FILTER SOFTMAX_TEST_CALLS
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
