#!/usr/bin/env bash
# gpu_pack.sh [DIR]: builds the preset gpu and collects in DIR (out/gpu) what scripts/gpu_check.sh runs on a machine
# that has a GPU but neither CMake nor gRPC: the tests labelled `gpu`, the programs, the benches, and their shared
# libraries. Needs nvcc >= 12.4, no GPU.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

DIR=${1:-out/gpu}
choose_cuda
[ -n "$NVCC" ] || die "nvcc >= 12.4 is needed"
# Old-style tags, so that the path also counts for what the bundled libraries need themselves.
configure gpu -DCMAKE_BUILD_RPATH='$ORIGIN/lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags
cmake --build build/gpu -j "$(cores)" --target all depth

rm -rf "$DIR"
mkdir -p "$DIR/lib"
# manifest: kind, name, program, arguments. A test's name and arguments are ctest's; benches and programs have none.
ctest --test-dir build/gpu --label-regex '^gpu$' --show-only=json-v1 | python3 -c '
import json, os, sys
for test in json.load(sys.stdin)["tests"]:
    command = test["command"]
    print("test", test["name"], command[0], *command[1:], sep="\t")
' >"$DIR/found"
for name in softmax-server softmax-client softmax-loadgen; do
  printf 'program\t%s\t%s\n' "$name" "$(program gpu "$name")" >>"$DIR/found"
done
find build/gpu -type f -perm -u+x \( -name 'softmax-*-bench' -o -name 'softmax-echo-server' -o \
  -name 'softmax-sync-baseline' -o -name softmax-kernel-table -o -name softmax_of_file \) \
  -not -path '*/CMakeFiles/*' |
  sed 's/.*/bench\t-\t&/' >>"$DIR/found"

while IFS=$'\t' read -r kind name path arguments; do
  # One binary may hold several tests.
  [ -f "$DIR/${path##*/}" ] || strip -o "$DIR/${path##*/}" "$path"
  printf '%s\t%s\t%s\t%s\n' "$kind" "$name" "${path##*/}" "$arguments" >>"$DIR/manifest"
  # glibc and the compiler's libraries are taken from the machine: tools there need its own.
  ldd "$path" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    grep -vE '/lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so' | xargs -r cp -Lnt "$DIR/lib" || true
done <"$DIR/found"
rm "$DIR/found"
cp scripts/gpu_check.sh scripts/common.sh tests/kernels/cuda/torch_difference.py "$DIR/"
# The service's benchmark: python3 service_bench --programs . (lab/README.md).
cp -r lab/bench/service_bench lab/bench/torch_baseline.py build/gpu/lab/bench/python "$DIR/"
cp tests/support/waiting.py "$DIR/service_bench/"
rm -rf "$DIR/service_bench/__pycache__"
git rev-parse HEAD >"$DIR/commit" 2>/dev/null || echo unknown >"$DIR/commit"
say "packed $(wc -l <"$DIR/manifest") entries, $(du -sm "$DIR" | cut -f 1) MB, in $DIR; run there: bash gpu_check.sh ."
