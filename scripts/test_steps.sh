#!/usr/bin/env bash
# The steps of test.sh, one a call: `test_steps.sh NAME`. Exit code 0: passed, 77: skipped (the last line says why).
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

STEP=$1
LOGS=$ROOT/build/logs
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$ROOT/tests/support/lsan_suppressions.txt:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
export GTEST_BRIEF=1
# Of test.sh, not of the servers under test: these warn of variables with their prefix that they do not know.
FUZZ_SECONDS=${SOFTMAX_FUZZ_SECONDS:-20}
unset SOFTMAX_SKIP_INSTALL SOFTMAX_FUZZ_SECONDS

skip() { say "$*"; exit 77; }

sources() {
  find client common kernels lab server tests -type f -not -path '*/build/*' -regex '.*\.\(h\|cc\|cu\|cuh\)'
}

# run_tests PRESET LABELS [command prefix...]: the tests of these labels that match CTEST_INCLUDE, without those that
# match CTEST_EXCLUDE. Each may take TRIES: where servers and callers meet on a machine that others use too, a deadline
# may be missed once. What a sanitizer says is never forgiven.
run_tests() {
  local preset=$1 labels=$2 log=$LOGS/ctest_$STEP.log
  shift 2
  "$@" ctest --test-dir "build/$preset" --label-regex "$labels" --repeat "until-pass:${TRIES:-1}" \
    --tests-regex "${CTEST_INCLUDE:-.}" --exclude-regex "${CTEST_EXCLUDE:-^$}" --output-on-failure -j "$(cores)" \
    --no-tests=error --output-junit "$LOGS/junit_$STEP.xml" | tee "$log"
  ! grep -E 'ERROR: (Address|Leak)Sanitizer|runtime error: |WARNING: ThreadSanitizer' "$log" ||
    die "a sanitizer found a fault"
}

# build_and_test PRESET LABELS [command prefix...]: builds everything, then runs these tests.
build_and_test() {
  configure "$1"
  cmake --build "build/$1" -j "$(cores)"
  run_tests "$@"
}

# need_14 TOOL: skips the step without clang's TOOL of Debian 12. Versions differ in what they print and find.
need_14() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
  [ -n "$version" ] || skip "no $1"
  [ "$version" = 14 ] || skip "the tree is held to $1 14; found $version"
}

step_format() {
  need_14 clang-format
  sources | xargs clang-format --dry-run --Werror
}

step_shell() {
  local file
  for file in scripts/*.sh .ci/run tests/image/*.sh tests/install/*.sh deploy/debian/p*; do bash -n "$file"; done
}

step_style() {
  python3 tests/style/layers_test.py --self-test
  python3 tests/style/layers_test.py --root .
}

step_buf() {
  command -v buf >/dev/null || skip "buf is not installed (npm @bufbuild/buf)"
  (cd proto && buf lint --path softmax)
}

step_dev() { TRIES=2 build_and_test dev '^(ci|pure)$'; }

# What measures, drives browsers, or runs beside other people's programs.
step_depth() {
  configure dev
  cmake --build build/dev -j "$(cores)" --target all depth
  TRIES=2 run_tests dev '^depth$'
}

# Every instruction set of the CPU kernels; the other presets have two, one or none.
step_simd() {
  configure simd
  cmake --build build/simd -j "$(cores)" --target kernels_test
  export CTEST_INCLUDE='^kernels_test(_[0-9]+)?$'
  run_tests simd '^pure$'
}

step_python() {
  local python found=""
  [ -d build/dev ] || skip "the step dev did not run before"
  # The distribution's grpcio belongs to the distribution's Python; another may stand before it in PATH.
  for python in python3 /usr/bin/python3; do
    if [ -z "$found" ] && "$python" -c 'import grpc, google.protobuf' 2>/dev/null; then found=$python; fi
  done
  [ -n "$found" ] || skip "no python3-grpcio"
  "$found" -B tests/compatibility/grpcio_client_test.py "$(program dev softmax-server)"
  command -v mypy >/dev/null || skip "no mypy, so the types of the Python package were not checked"
  mypy --strict client/python/softmax_client
}

# What runs other compilers and languages has nothing for a sanitizer to see, and no clock of a sanitizer's is right.
step_asan() {
  export CTEST_EXCLUDE='^(install_test|example_.*|deploy_.*|.*_timed_test)$'
  TRIES=2 build_and_test asan '^(ci|pure)$'
}

step_tsan() {
  # Some kernels randomise more address bits than this TSan understands; without randomisation it always starts.
  local prefix=()
  if setarch "$(uname -m)" -R true 2>/dev/null; then prefix=(setarch "$(uname -m)" -R); fi
  build_and_test tsan '^pure$' "${prefix[@]}"
}

step_clang() {
  command -v clang++ >/dev/null || skip "no clang++"
  build_and_test clang '^pure$'
}

# All host code as clang sees it, gRPC's users included: clang-tidy and the check of locks. What did not change since it
# passed is not read again. Nothing is built but the generated headers.
step_tidy() {
  local headers
  need_14 clang-tidy
  configure lint
  headers=$(ninja -C build/lint -t targets all | sed -n 's/^\(proto\/.*\.pb\.h\): .*/\1/p')
  # shellcheck disable=SC2086 -- the list is words
  ninja -C build/lint $headers
  python3 scripts/lint.py
}

# Objects only: every CUDA source, and every source of the CUDA lane and of the tests that need a GPU; for Hopper as a
# machine runs it, and for the oldest GPU that we serve as PTX, which the language and the architecture are checked for
# in half the time. Nothing of it ever runs, so a compiler that can (12.9) is told to be quick: half the time again.
step_cuda() {
  local objects flags=""
  CUDACXX=$(find_nvcc)
  [ -n "$CUDACXX" ] || skip "no nvcc >= 12.4, so no CUDA source was compiled"
  export CUDACXX
  if "$CUDACXX" --help | grep -- --Ofast-compile >/dev/null; then flags=--Ofast-compile=max; fi
  configure gpu -B build/cuda -DCMAKE_CUDA_FLAGS="$flags" "-DSOFTMAX_CUDA_ARCHITECTURES=75-virtual;90-real"
  objects=$(ninja -C build/cuda -t targets all |
    sed -n 's/^\([^:]*\(\.cu\|execution\/cuda\/[^:]*\.cc\|softmax_cuda_test\.dir\/[^:]*\.c[cx]x*\)\.o\): .*/\1/p')
  [ -n "$objects" ] || die "the build has no CUDA source"
  # shellcheck disable=SC2086 -- the list is words
  ninja -C build/cuda -j "$(cores)" $objects
}

# fuzz_one TARGET SECONDS: what it says is printed whole when it ends, for others say things beside it. A target that
# finds something leaves its name in fuzz_failed.
fuzz_one() {
  local target=$1 log=$LOGS/$1.log
  mkdir -p "build/fuzz/found/$target"
  say "fuzzing $target for $2 s" >"$log"
  "$(program fuzz "$target")" -max_total_time="$2" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$LOGS/" "build/fuzz/found/$target" "tests/fuzz/corpus/${target#fuzz_}" \
    "build/fuzz/tests/fuzz/made/${target#fuzz_}" >>"$log" 2>&1 || echo "$target" >>"$LOGS/fuzz_failed"
  cat "$log"
}

step_fuzz() {
  local target targets
  command -v clang++ >/dev/null || skip "no clang++"
  configure fuzz
  # fuzz_NAME has its seeds in tests/fuzz/corpus/NAME and the made ones in build/; what it finds stays in build/.
  targets=$(cd tests/fuzz/corpus && for name in *; do echo "fuzz_$name"; done)
  # shellcheck disable=SC2086 -- the list is words
  cmake --build build/fuzz -j "$(cores)" --target $targets
  # As many side by side as there are cores: each works in one thread.
  export -f fuzz_one say program die
  export ROOT LOGS
  rm -f "$LOGS/fuzz_failed"
  # shellcheck disable=SC2086 -- the list is words
  printf '%s\n' $targets | xargs -P "$(cores)" -I{} bash -euo pipefail -c 'fuzz_one "$1" "$2"' fuzz_one {} \
    "$FUZZ_SECONDS"
  [ -e "$LOGS/fuzz_failed" ] || return 0
  for target in $(cat "$LOGS/fuzz_failed"); do
    say "$target:"
    grep -aE "^broken: |ERROR: |SUMMARY: |^Base64: " "$LOGS/$target.log" || tail -n 5 "$LOGS/$target.log"
  done
  die "a fuzz target found something"
}

"step_$1"
