#!/usr/bin/env bash
# The `long` tier: what takes too long for every push. Each part runs alone, by name; without a name, all of them.
#   fresh    an empty Debian 12 and a clean clone: both commands of README (needs root, debootstrap; about an hour)
#   fresh13  the same in an empty Debian 13
#   image    the image, built with buildah and tried (needs root, debootstrap, buildah; about a quarter of an hour)
#   installed  a release's packages and wheel in an empty Debian like this (needs root, debootstrap; builds the release)
#   tests    the tests labelled `long` of the dev build
#   fuzz     the fuzz targets until they have made SOFTMAX_FUZZ_GOAL executions in all (100 million; those of earlier
#            runs, in docs/measurements/fuzz.csv, count)
#   numerics  the search for rows that break the promised bounds: ten seconds a kind of rows and instruction set
#   chaos    30 minutes of verified load across faults: docs/measurements/chaos.md
#   simulation  an hour of simulated worlds that nobody has seen
#   soak     an hour at 0.8 of the capacity: docs/measurements/soak.md
# The last three write a line a minute, go on where they were stopped (remove build/soak or build/chaos to begin anew),
# and run one at a time, for they spoil each other's figures.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PARTS="fresh fresh13 image installed tests fuzz numerics simulation chaos soak"

fuzz() {
  local preset targets
  targets=$(cd tests/fuzz/corpus && for name in *; do echo "fuzz_$name"; done)
  for preset in fuzz fuzz-fast fuzz-coverage; do
    # shellcheck disable=SC2086 -- the list is words
    configure "$preset" && cmake --build "build/$preset" -j "$(cores)" --target $targets || return 1
  done
  nice -n 19 python3 -B lab/fuzz/fuzz_runs.py run --goal "${SOFTMAX_FUZZ_GOAL:-100000000}" &&
    python3 -B lab/fuzz/fuzz_runs.py total && python3 -B lab/fuzz/fuzz_runs.py coverage
}

run_part() {
  case $1 in
    fresh) SOFTMAX_SUITE=bookworm bash scripts/fresh_machine.sh ;;
    fresh13) SOFTMAX_SUITE=trixie bash scripts/fresh_machine.sh ;;
    image) bash tests/image/build_image.sh ;;
    installed) bash tests/install/installed_test.sh ;;
    tests)
      configure dev && cmake --build build/dev -j "$(cores)" --target all depth &&
        ctest --test-dir build/dev --label-regex '^long$' --output-on-failure
      ;;
    fuzz) fuzz ;;
    numerics)
      configure dev && cmake --build build/dev -j "$(cores)" --target kernels_test &&
        SOFTMAX_SEARCH_SECONDS=${SOFTMAX_SEARCH_SECONDS:-10} "$(program dev kernels_test)" --gtest_filter='*RowSearch*'
      ;;
    simulation)
      configure dev && cmake --build build/dev -j "$(cores)" --target softmax-simulation &&
        "$(program dev softmax-simulation)" --fresh --seconds "${SOFTMAX_SIMULATION_SECONDS:-3600}"
      ;;
    chaos)
      configure dev && cmake --build build/dev -j "$(cores)" --target softmax-server softmax-open-loop &&
        python3 -B lab/chaos/chaos.py run --server "$(program dev softmax-server)" \
          --open-loop "$(program dev softmax-open-loop)" && python3 -B lab/chaos/chaos.py report
      ;;
    soak)
      configure dev && cmake --build build/dev -j "$(cores)" --target softmax-server softmax-loadgen &&
        python3 -B lab/soak/soak.py run --server "$(program dev softmax-server)" \
          --loadgen "$(program dev softmax-loadgen)" && python3 -B lab/soak/soak.py report
      ;;
    *) die "there is no part $1; the parts are: $PARTS" ;;
  esac
}

FAILED=""
for part in ${*:-$PARTS}; do
  started=$SECONDS
  if (run_part "$part"); then
    say "long: $part passed in $((SECONDS - started)) s"
  else
    FAILED+=" $part"
    say "long: $part FAILED after $((SECONDS - started)) s"
  fi
done
[ -z "$FAILED" ] || die "failed:$FAILED"
