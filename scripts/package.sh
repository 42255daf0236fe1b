#!/usr/bin/env bash
# package.sh DIR: builds the release and installs it into DIR (bin/, lib/softmax/), stripped; what the image is made of.
# With nvcc >= 12.4 the CUDA kernels for every supported architecture are in it, else one line says that they are not.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || die "usage: package.sh DIR"
choose_cuda
PRESET=release-cpu
if [ -n "$NVCC" ]; then PRESET=release; fi
configure "$PRESET" -DSOFTMAX_COMMIT="${SOFTMAX_COMMIT:-}"
cmake --build "build/$PRESET" -j "$(cores)" --target softmax-server softmax-client softmax-loadgen
# Only what Install.cmake names is installed, so the tests need not be built.
cmake --install "build/$PRESET" --prefix "$1" --strip
say "package: $PRESET in $1"
