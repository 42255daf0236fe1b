#!/usr/bin/env bash
# package.sh DIR: builds the release and installs it into DIR (bin/, lib/softmax/), stripped; what the image is made of.
# With nvcc >= 12.4 the CUDA kernels for every supported architecture are in it, else one line says that they are not.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || die "usage: package.sh DIR"
choose_cuda
PRESET=release-cpu
[ -z "$NVCC" ] || PRESET=release
configure "$PRESET" -DSOFTMAX_COMMIT="${SOFTMAX_COMMIT:-}"
cmake --build "build/$PRESET" -j "$(cores)" --target softmax-server softmax-client softmax-loadgen
# Only what Install.cmake names is installed, so the tests need not be built.
cmake --install "build/$PRESET" --prefix "$1" --strip
if [ "$PRESET" = release ]; then
  # An architecture that is missing would be compiled from PTX at each start on such a GPU.
  architectures=$(sed -n 's/^SOFTMAX_CUDA_ARCHITECTURES:[A-Z]*=//p' "build/$PRESET/CMakeCache.txt")
  # shellcheck disable=SC2086 -- the list is words
  python3 scripts/gpu_architectures.py "$1/bin/softmax-server" --require ${architectures//;/ }
fi
say "package: $PRESET in $1"
