#!/usr/bin/env bash
# over_ssh.sh "HOST ..." FLAG...: one load from several machines, each with softmax-loadgen and a login without a
# password. The flags are those of a single generator. Leaves part0.json ..., load.json and load.html here.
set -euo pipefail

read -ra hosts <<<"$1"
shift
for host in "${hosts[@]}"; do
  before=$(date +%s.%N)
  there=$(ssh "$host" date +%s.%N)
  after=$(date +%s.%N)
  awk -v host="$host" -v before="$before" -v there="$there" -v after="$after" 'BEGIN {
    printf "%s: its clock is %+.1f ms from this one, give or take %.1f ms\n", host,
      (there - (before + after) / 2) * 1000, (after - before) / 2 * 1000 }'
done
start=$(($(date +%s) + ${SECONDS_AHEAD:-10}))
results=()
for i in "${!hosts[@]}"; do
  results+=("part$i.json")
  ssh "${hosts[$i]}" softmax-loadgen "$(printf '%q ' "$@")" --part "$i/${#hosts[@]}" --start-at "$start" --json - \
    >"part$i.json" &
done
wait
softmax-loadgen merge "${results[@]}" --json load.json --html load.html
