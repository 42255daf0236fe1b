#!/usr/bin/env bash
# Installs what building (`setup.sh build`), testing (`setup.sh test`) or testing everything (`setup.sh all`) needs and
# is not installed yet. Debian 12, Debian 13 and Ubuntu 24.04, as root or with sudo; on another system it says what is
# needed and installs nothing. SOFTMAX_SKIP_INSTALL=1 installs nothing on any system. Nothing of NVIDIA's is ever
# installed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

BUILD_PACKAGES="g++ cmake ninja-build pkg-config git ca-certificates curl python3 ccache
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libssl-dev libc-ares-dev libre2-dev zlib1g-dev
  libspdlog-dev libfmt-dev prometheus-cpp-dev libhwy-dev libcli11-dev libgtest-dev libgmock-dev
  nlohmann-json3-dev"
# The second line is for the Python package.
TEST_PACKAGES="clang-format python3-yaml
  python3-numpy python3-pytest python3-setuptools python3-wheel"
ALL_PACKAGES="mypy clang clang-tidy python3-grpcio python3-protobuf libdnnl-dev llvm libfaketime"

OS_RELEASE=${OS_RELEASE:-/etc/os-release}  # another one in tests
# Sets DISTRIBUTION and adds the packages whose names differ; Ubuntu has Chromium as a snap only, so there the test in a
# browser is skipped. Fails where the packages' names are not known.
detect_distribution() {
  local ID="" VERSION_ID="" PRETTY_NAME="a system without /etc/os-release"
  [ -r "$OS_RELEASE" ] && . "$OS_RELEASE"
  DISTRIBUTION="$ID $VERSION_ID"
  case $DISTRIBUTION in
    "debian 12") ALL_PACKAGES+=" libclang-rt-14-dev chromium chromium-driver" ;;
    "debian 13") ALL_PACKAGES+=" libclang-rt-19-dev chromium chromium-driver" ;;
    "ubuntu 24.04") ALL_PACKAGES+=" libclang-rt-18-dev" ;;
    *) DISTRIBUTION=$PRETTY_NAME; return 1 ;;
  esac
}

# missing PACKAGE...: those that are not installed.
missing() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s ' "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -n true 2>/dev/null || say "setup: sudo may ask for your password"
    sudo "$@"
  else
    die "root or sudo is needed to install packages: $*"
  fi
}

refresh_package_lists() {
  [ -n "${LISTS_REFRESHED:-}" ] && return 0
  as_root apt-get -qq update || die "apt-get update failed; is there a network?"
  LISTS_REFRESHED=1
}

install_packages() {
  local wanted
  wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  say "setup: installing $wanted"
  refresh_package_lists
  # shellcheck disable=SC2086 -- the list is words
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends \
    $wanted >"$LOG" 2>&1 || {
    tail -n 20 "$LOG" >&2
    die "apt-get install failed; the whole output is in $LOG"
  }
}

# prometheus and promtool alone are taken out of the distribution's package: installing that would start a service.
# Debian 13 has a package promtool beside it.
fetch_prometheus() {
  if command -v promtool >/dev/null && command -v prometheus >/dev/null; then return 0; fi
  local work=$TOOLS/prometheus.tmp package
  rm -rf "$work" && mkdir -p "$work" "$TOOLS/bin"
  refresh_package_lists
  for package in prometheus promtool; do
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download $package && dpkg-deb -x ${package}_*.deb .) \
      >>"$LOG" 2>&1 || true
  done
  if [ -x "$work/usr/bin/promtool" ] && [ -x "$work/usr/bin/prometheus" ]; then
    mv "$work/usr/bin/promtool" "$work/usr/bin/prometheus" "$TOOLS/bin/"
  else
    say "setup: prometheus and promtool could not be fetched; the checks that use them are skipped"
  fi
  rm -rf "$work"
}

BUF_VERSION=1.50.0
# buf comes as an npm package only. npm itself is not installed: in Debian it is more than 300 packages, for one lint.
fetch_buf() {
  [ -x "$TOOLS/bin/buf" ] && return 0
  if ! command -v npm >/dev/null; then
    say "setup: there is no npm, so buf lint is skipped"
    return 0
  fi
  mkdir -p "$TOOLS/bin" "$TOOLS/npm"
  if npm install --silent --no-audit --no-fund --cache "$TOOLS/npm-cache" --prefix "$TOOLS/npm" \
      "@bufbuild/buf@$BUF_VERSION" >>"$LOG" 2>&1 && [ -x "$TOOLS/npm/node_modules/.bin/buf" ]; then
    ln -sf "$TOOLS/npm/node_modules/.bin/buf" "$TOOLS/bin/buf"
  else
    say "setup: npm could not install @bufbuild/buf $BUF_VERSION; buf lint is skipped"
  fi
}

KUBERNETES_MODELS_VERSION=4.5.1 PROMETHEUS_OPERATOR_MODELS_VERSION=6.0.0
# The published schemas of Kubernetes and of the Prometheus operator, as npm packages carry them.
fetch_kubernetes_schemas() {
  [ -d "$TOOLS/schemas/node_modules/kubernetes-models" ] && return 0
  if ! command -v npm >/dev/null; then
    say "setup: there is no npm, so the manifests are not checked against the published schemas"
    return 0
  fi
  mkdir -p "$TOOLS/schemas"
  npm install --silent --no-audit --no-fund --cache "$TOOLS/npm-cache" --prefix "$TOOLS/schemas" \
    "kubernetes-models@$KUBERNETES_MODELS_VERSION" \
    "@kubernetes-models/prometheus-operator@$PROMETHEUS_OPERATOR_MODELS_VERSION" >>"$LOG" 2>&1 || {
    rm -rf "$TOOLS/schemas"
    say "setup: npm could not install the schemas of Kubernetes; the manifests are not checked against them"
  }
}

GRPC_JS_VERSION=1.14.7
# Its classes of OTLP are those of OpenTelemetry's published protos.
OTLP_JS_VERSION=0.203.0
# For the test of public clients (tests/compatibility), and that of traces (tests/client/python).
fetch_grpc_js() {
  local fetched=$TOOLS/grpc-js/node_modules/@opentelemetry/otlp-transformer
  if [ -d "$fetched" ] || ! command -v npm >/dev/null; then return 0; fi
  mkdir -p "$TOOLS/grpc-js"
  npm install --silent --no-audit --no-fund --ignore-scripts --cache "$TOOLS/npm-cache" --prefix "$TOOLS/grpc-js" \
    "@grpc/grpc-js@$GRPC_JS_VERSION" "@opentelemetry/otlp-transformer@$OTLP_JS_VERSION" \
    >>"$LOG" 2>&1 || {
    rm -rf "$TOOLS/grpc-js"
    say "setup: npm could not install @grpc/grpc-js and OpenTelemetry's; they are not tried against the server"
  }
}

main() {
  local what=${1:-build}
  case $what in build | test | all) ;; *) die "usage: setup.sh [build|test|all]" ;; esac
  if [ "${SOFTMAX_SKIP_INSTALL:-0}" = 1 ]; then
    say "setup: SOFTMAX_SKIP_INSTALL=1, nothing is installed"
    return 0
  fi
  detect_distribution || {
    local packages=$BUILD_PACKAGES
    [ "$what" = build ] || packages+=" $TEST_PACKAGES"
    [ "$what" != all ] || packages+=" $ALL_PACKAGES"
    say "setup: $DISTRIBUTION is not Debian 12 or 13 or Ubuntu 24.04: nothing is installed. To $what, it takes what" \
      "setup: these have as: $(echo $packages)"
    return 0
  }
  mkdir -p "$ROOT/build/logs"
  LOG=$ROOT/build/logs/setup.log
  : >"$LOG"
  # shellcheck disable=SC2086 -- the lists are words
  install_packages $BUILD_PACKAGES
  if [ "$what" != build ]; then
    # shellcheck disable=SC2086
    install_packages $TEST_PACKAGES
    fetch_prometheus
  fi
  if [ "$what" = all ]; then
    # shellcheck disable=SC2086
    install_packages $ALL_PACKAGES
    fetch_buf
    fetch_kubernetes_schemas
    fetch_grpc_js
  fi
  say "setup: $DISTRIBUTION has what is needed to $what"
}

main "$@"
