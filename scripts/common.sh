# Shared by the other scripts; sourced, never run. Leaves the shell in the repository root.
set -euo pipefail
export LC_ALL=C.UTF-8
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"

# One line per argument.
say() { printf "%s\n" "$@"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

cores() { nproc 2>/dev/null || echo 1; }

# A directory of our own for downloaded tools (promtool, buf); inside build/, so that removing build/ removes all.
TOOLS=$ROOT/build/tools
export PATH="$TOOLS/bin:$PATH"

has_gpu() { [ -e /dev/nvidia0 ] || nvidia-smi -L >/dev/null 2>&1; }

nvcc_version() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p'; }

# Prints the path of an nvcc that is new enough, or nothing. An older one is named on stderr and ignored: the kernels
# use what CUDA 12.4 brought.
find_nvcc() {
  local candidate version
  for candidate in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [ -n "$candidate" ] && [ -x "$candidate" ] || continue
    version=$(nvcc_version "$candidate")
    if [ "$(printf '%s\n12.4\n' "${version:-0}" | sort -V | head -n 1)" = 12.4 ]; then
      printf '%s\n' "$candidate"
      return 0
    fi
    say "CUDA: $candidate is version ${version:-unknown}; 12.4 or newer is needed, so it is ignored" >&2
  done
}

# Sets NVCC (empty: build without CUDA) and says in one line what that means here.
choose_cuda() {
  NVCC=$(find_nvcc)
  if [ -n "$NVCC" ]; then
    export CUDACXX=$NVCC
    say "CUDA: using $NVCC ($(nvcc_version "$NVCC"))"
  elif has_gpu; then
    say "CUDA: a GPU but no nvcc >= 12.4 (NVIDIA's package cuda-nvcc-13-0 or cuda-toolkit-13-0): running on the CPU"
  else
    say "CUDA: no nvcc >= 12.4 here; the CUDA parts are skipped"
  fi
}

# configure PRESET [cmake arguments...]: ccache is used where it is installed, with paths relative to the checkout, so
# that every checkout on a machine profits from what another compiled.
configure() {
  local preset=$1
  shift
  local launcher=()
  if command -v ccache >/dev/null; then
    local ccache="cmake;-E;env;CCACHE_BASEDIR=$ROOT;CCACHE_NOHASHDIR=1"
    ccache+=";CCACHE_SLOPPINESS=pch_defines,time_macros"  # what precompiled headers need
    ccache+=";LC_ALL=$LC_ALL;ccache"  # a shell's own language would be another key
    launcher=("-DCMAKE_CXX_COMPILER_LAUNCHER=$ccache" "-DCMAKE_CUDA_COMPILER_LAUNCHER=$ccache")
  fi
  cmake --preset "$preset" "${launcher[@]}" "$@"
}

# program PRESET NAME: the path of a built program.
program() {
  local found
  found=$(find "$ROOT/build/$1" -type f -name "$2" -perm -u+x -not -path '*/CMakeFiles/*' | head -n 1)
  [ -n "$found" ] || die "$2 was not built in build/$1"
  printf '%s\n' "$found"
}

# wait_for_line FILE PATTERN SECONDS PID: prints the first match of the extended regular expression in FILE. Fails when
# the process has ended or the time is over.
wait_for_line() {
  local file=$1 pattern=$2 tries=$(($3 * 10)) pid=$4 line
  while [ "$tries" -gt 0 ]; do
    line=$(grep -oE -m 1 "$pattern" "$file" 2>/dev/null || true)
    if [ -n "$line" ]; then
      printf '%s\n' "$line"
      return 0
    fi
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.1
    tries=$((tries - 1))
  done
  return 1
}

# start_server BINARY LOG [flags...]: starts softmax-server on free loopback ports and waits until it listens. Sets
# SERVER_PID, SERVER_ADDRESS and METRICS_ADDRESS. The caller stops it (stop_server) and traps.
start_server() {
  local binary=$1 log=$2
  shift 2
  "$binary" --address 127.0.0.1:0 --metrics-address 127.0.0.1:0 "$@" >"$log" 2>&1 &
  SERVER_PID=$!
  SERVER_ADDRESS=$(wait_for_line "$log" 'listening on 127\.0\.0\.1:[0-9]+' 30 "$SERVER_PID") || {
    cat "$log" >&2
    die "the server did not start"
  }
  SERVER_ADDRESS=${SERVER_ADDRESS#listening on }
  METRICS_ADDRESS=$(wait_for_line "$log" 'metrics on 127\.0\.0\.1:[0-9]+' 10 "$SERVER_PID") ||
    die "the server did not say where its metrics are"
  METRICS_ADDRESS=${METRICS_ADDRESS#metrics on }
}

# Sends SIGTERM and sets SERVER_EXIT; ends it by force after 40 s, longer than its own drain limit.
stop_server() {
  local tries=400
  SERVER_EXIT=0
  kill -TERM "$SERVER_PID" 2>/dev/null || true
  while kill -0 "$SERVER_PID" 2>/dev/null && [ "$tries" -gt 0 ]; do
    sleep 0.1
    tries=$((tries - 1))
  done
  kill -KILL "$SERVER_PID" 2>/dev/null || true
  wait "$SERVER_PID" || SERVER_EXIT=$?
  SERVER_PID=
}
