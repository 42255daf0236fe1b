#!/usr/bin/env bash
# Builds the service, starts it on free loopback ports, sends one request that a person can check and ten seconds of
# verified mixed load, shows the load table and a few metrics, and stops it. Exits non-zero if any answer was wrong.
#   SOFTMAX_DEMO_SECONDS   length of the load (10)
#   SOFTMAX_SKIP_INSTALL   1: install nothing
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SECONDS_OF_LOAD=${SOFTMAX_DEMO_SECONDS:-10}
LOGS=$ROOT/build/logs
SERVER_PID=

cleanup() { if [ -n "$SERVER_PID" ]; then kill -KILL "$SERVER_PID" 2>/dev/null || true; fi; }
trap cleanup EXIT
trap 'exit 130' INT TERM

build() {
  PRESET=demo
  if [ -n "$NVCC" ] && has_gpu; then PRESET=gpu; fi
  say "building preset $PRESET (the log is build/logs/demo_build.log)"
  if ! { configure "$PRESET" && cmake --build "build/$PRESET" -j "$(cores)" --target \
      softmax-server softmax-client softmax-loadgen; } >"$LOGS/demo_build.log" 2>&1; then
    tail -n 40 "$LOGS/demo_build.log" >&2
    die "the build failed"
  fi
}

# One row whose softmax is known: exp(1), exp(2), exp(3) over their sum.
readable_request() {
  local answer
  say "" "\$ echo '1 2 3' | softmax-client --address $SERVER_ADDRESS"
  answer=$(echo '1 2 3' | "$CLIENT" --address "$SERVER_ADDRESS") || die "softmax-client failed"
  say "$answer"
  printf '%s\n' "$answer" | tr ',' ' ' | awk '
    BEGIN { split("0.09003057317 0.24472847105 0.66524095578", want, " ") }
    { for (i = 1; i <= NF; ++i) got[++n] = $i }
    END {
      if (n != 3) exit 1
      for (i = 1; i <= 3; ++i) { d = got[i] - want[i]; if (d < 0) d = -d; if (d > 1e-6) exit 1 }
    }' || die "that answer is wrong: 0.09003057 0.24472847 0.66524096 is right"
}

mixed_load() {
  say "" "$SECONDS_OF_LOAD seconds of mixed load; every first answer and 5 % of the others are verified:"
  "$LOADGEN" --address "$SERVER_ADDRESS" --duration "$SECONDS_OF_LOAD" --connections 4 --in-flight 8 \
    --shape 1x16 --shape 16x1000 --shape 64x1024 --shape 4x50257 --verify 0.05
}

show_metrics() {
  say "" "from http://$METRICS_ADDRESS/metrics:"
  curl -fsS --max-time 5 "http://$METRICS_ADDRESS/metrics" >"$LOGS/demo_metrics.txt" || die "the metrics do not answer"
  grep -E '^softmax_((requests|batches|rows|host_copied_bytes)_total|slabs|batch_requests_(sum|count))' \
    "$LOGS/demo_metrics.txt"
}

mkdir -p "$LOGS"
bash scripts/setup.sh build
choose_cuda
build
SERVER=$(program "$PRESET" softmax-server)
CLIENT=$(program "$PRESET" softmax-client)
LOADGEN=$(program "$PRESET" softmax-loadgen)

start_server "$SERVER" "$LOGS/demo_server.log"
say "" "server: $SERVER_ADDRESS, metrics: http://$METRICS_ADDRESS/metrics"
grep -i backend "$LOGS/demo_server.log" | head -n 1 || true
"$CLIENT" --address "$SERVER_ADDRESS" --health --wait 30s || die "the server did not become healthy"
readable_request
LOAD_EXIT=0
mixed_load || LOAD_EXIT=$?
show_metrics
stop_server
[ "$LOAD_EXIT" = 0 ] || die "the load generator saw wrong answers or errors (exit code $LOAD_EXIT)"
[ "$SERVER_EXIT" = 0 ] || die "the server left with exit code $SERVER_EXIT; its log is build/logs/demo_server.log"
say "" "demo: every verified answer was right, and the server stopped cleanly"
