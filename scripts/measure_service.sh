#!/usr/bin/env bash
# measure_service.sh DIR [BACKEND]: the service beside a bare echo of the same bytes, in one run, driven by the same
# load generator: 64 B to 16 MiB, one request at a time and many in flight, over TCP. DIR holds the programs
# (scripts/gpu_pack.sh makes one). BACKEND: cuda (default), cpu. Writes OUT/service.csv (a row a cell) and prints a
# table of ratios.
#   SOFTMAX_ROUNDS=3       echo and service alternate so often; the table shows medians
#   SOFTMAX_LOAD_SECONDS=1 of each cell
set -euo pipefail
DIR=$(realpath -m "${1:?usage: measure_service.sh DIR [cuda|cpu]}")
BACKEND=${2:-cuda}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUT=${OUT:-$DIR/logs}
ROUNDS=${SOFTMAX_ROUNDS:-3}
SECONDS_EACH=${SOFTMAX_LOAD_SECONDS:-1}
mkdir -p "$OUT"
cd "$DIR"
PIDS=()
cleanup() { for pid in "${PIDS[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; }
trap cleanup EXIT

./softmax-echo-server --address 127.0.0.1:50061 >"$OUT/echo.log" 2>&1 &
PIDS+=($!)
./softmax-server --backend "$BACKEND" --address 127.0.0.1:50051 --metrics-address 127.0.0.1:9400 \
  --arena-bytes 1GiB >"$OUT/server.log" 2>&1 &
PIDS+=($!)
SERVER=$! ECHO=${PIDS[0]}
./softmax-client --address 127.0.0.1:50051 --health --wait 60s >/dev/null

PROCESSES=4
[ "$(nproc)" -ge 8 ] || PROCESSES=1
# As the transport's own bench drives it: connections and requests in flight by payload.
cells() {
  for bytes in 64 4096 16384 65536 1048576 16777216; do
    echo "$bytes 1 1 1"
    if [ "$bytes" -le 4096 ]; then echo "$bytes 16 8 $PROCESSES"
    elif [ "$bytes" -le 262144 ]; then echo "$bytes 16 2 $PROCESSES"
    elif [ "$bytes" -le 4194304 ]; then echo "$bytes 8 2 $PROCESSES"
    else echo "$bytes 8 1 $PROCESSES"; fi
  done
}

rm -f "$OUT/service.csv" "$OUT"/cell_*.json
for round in $(seq "$ROUNDS"); do
  while read -r bytes connections in_flight processes; do
    for server in echo "$BACKEND"; do
      address=127.0.0.1:50051 pid=$SERVER verify=(--verify 0.01)
      if [ "$server" = echo ]; then address=127.0.0.1:50061 pid=$ECHO verify=(--raw-echo); fi
      ./softmax-loadgen --address "$address" --payload-bytes "$bytes" --connections "$connections" \
        --in-flight "$in_flight" --processes "$processes" --threads 2 --warmup 0.3 --duration "$SECONDS_EACH" \
        --server-pid "$pid" "${verify[@]}" --json "$OUT/cell_${round}_${server}_${bytes}_${connections}.json" \
        >"$OUT/cell.log" 2>&1 || { cat "$OUT/cell.log"; echo "FAILED: $server $bytes $connections"; }
    done
  done < <(cells)
done
python3 "$HERE/service_table.py" "$OUT" "$BACKEND" | tee "$OUT/service_table.md"
