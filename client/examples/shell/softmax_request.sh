#!/bin/sh
# Softmax from the shell: rows of numbers on standard input, their softmax on standard output.
#
#     echo '1 2 3' | softmax_request.sh localhost:50051
#
# Further arguments are softmax-client's: `softmax_request.sh localhost:50051 --top 5` prints the five most probable of
# each row: row, index, probability. It reads and writes .npy and .csv files too; see softmax-client --help.
set -eu
TARGET=${1:-localhost:50051}
[ $# -eq 0 ] || shift
CLIENT=${SOFTMAX_CLIENT:-softmax-client}

"$CLIENT" --address "$TARGET" --health --wait 10s >/dev/null
exec "$CLIENT" --address "$TARGET" --dtype float32 --timeout 10s "$@" -
