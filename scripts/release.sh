#!/usr/bin/env bash
# release.sh DIR: everything that a release has, built from a clean clone of the last commit, into DIR (made anew):
#   *.deb                         server, client and C++ library, for this distribution (cmake/DebianPackages.cmake)
#   softmax_client-*.whl          the Python package, for every Python 3 and every glibc from this one on
#   softmax-server-*.oci.tar      the image, where buildah is and this is root
#   softmax-server-*.spdx.json    what they are made of
#   SHA256SUMS
#   SOFTMAX_WITHOUT_IMAGE=1       no image
# The version is the one of project() in CMakeLists.txt, and docs/CHANGELOG.md has to have a part for it. With nvcc >=
# 12.4 the server and the image have the CUDA kernels.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || die "usage: release.sh DIR"
[ ! -e "$1" ] || die "$1 exists"
git diff --quiet HEAD || die "there are changes that are not committed"
COMMIT=$(git rev-parse --short=12 HEAD)
VERSION=$(sed -n 's/^project(softmax-server VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
grep -q "^## $VERSION" docs/CHANGELOG.md || die "docs/CHANGELOG.md has no part for $VERSION"
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/softmax-release.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
git clone --quiet "file://$ROOT" "$WORK/src"
cd "$WORK/src"
ROOT=$PWD  # ccache's paths start there

debs() {
  local preset=release-cpu
  choose_cuda
  [ -z "$NVCC" ] || preset=release
  # The distribution's shared libraries: their security fixes are to reach an installed server.
  configure "$preset" -DSOFTMAX_STATIC=OFF -DSOFTMAX_COMMIT="$COMMIT"
  cmake --build "build/$preset" -j "$(cores)" --target softmax-server softmax-client softmax-loadgen softmax_client \
    softmax_client_c
  (cd "build/$preset" && cpack -B "$WORK/packages") && cp "$WORK"/packages/*.deb "$OUT"
}

wheel() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import setuptools, wheel' 2>/dev/null; then
      (cd client/python && "$python" setup.py --quiet bdist_wheel --dist-dir "$OUT")
      return
    fi
  done
  die "no Python with setuptools and wheel"
}

image() {
  if [ "${SOFTMAX_WITHOUT_IMAGE:-0}" = 1 ] || ! command -v buildah >/dev/null || [ "$(id -u)" != 0 ]; then
    say "release: not asked for, no buildah, or not root: the image is left out"
    return
  fi
  CUDA_TOOLKIT=${NVCC:+$(dirname "$(dirname "$NVCC")")} IMAGE_ARCHIVE=$OUT/softmax-server-$VERSION.oci.tar \
    bash tests/image/build_image.sh
}

debs
wheel
image
python3 -B scripts/sbom.py "$VERSION" "$COMMIT" "$OUT" >"$WORK/sbom"
mv "$WORK/sbom" "$OUT/softmax-server-$VERSION.spdx.json"
(cd "$OUT" && sha256sum -- * >"$WORK/sums" && mv "$WORK/sums" SHA256SUMS)
say "release: $VERSION ($COMMIT) in $OUT"
