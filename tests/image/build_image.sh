#!/usr/bin/env bash
# Builds the image of the Dockerfile with buildah and tries it: a server on the CPU answers health and one request and
# leaves with exit code 0 on SIGTERM. The base images are made here with debootstrap, so no registry is needed; the
# build's base gets this machine's package sources. Needs root, debootstrap and buildah.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot

[ "$(id -u)" = 0 ] || die "run this as root"
for tool in debootstrap buildah; do command -v "$tool" >/dev/null || die "$tool is not installed"; done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/softmax-image.XXXXXX")
CONTAINER="" SERVER_PID="" PROC=""
cleanup() {
  [ -z "$SERVER_PID" ] || kill -KILL "$SERVER_PID" 2>/dev/null || true
  [ -z "$PROC" ] || umount "$PROC" || return 0
  [ -z "$CONTAINER" ] || buildah rm "$CONTAINER" >/dev/null || true
  rm -rf "$WORK"
}
trap cleanup EXIT

# base_image NAME ROOT: an image of the files in ROOT.
base_image() {
  local container
  container=$(buildah from scratch)
  buildah add -q "$container" "$2" / >/dev/null
  buildah commit -q --rm "$container" "$1" >/dev/null
}

make_bases() {
  bash scripts/make_root.sh "$WORK/build-root"
  rm -rf "$WORK/build-root/dev"  # a container gets its own
  base_image localhost/softmax-base-build "$WORK/build-root"
  # The runtime base is the same system without package lists and package manager's settings.
  rm -rf "$WORK/build-root/var/lib/apt/lists" "$WORK/build-root/etc/apt" "$WORK/build-root/var/cache/apt"
  base_image localhost/softmax-base-runtime "$WORK/build-root"
  rm -rf "$WORK/build-root"
}

build_image() {
  buildah build --quiet --format docker \
    --build-arg BASE_BUILD=localhost/softmax-base-build --build-arg BASE_RUNTIME=localhost/softmax-base-runtime \
    --build-arg COMMIT="$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" \
    --tag localhost/softmax-server . >"$WORK/image-id"
  say "image: $(buildah images --format '{{.Size}}' localhost/softmax-server | head -n 1) with its base of" \
      "       $(buildah images --format '{{.Size}}' localhost/softmax-base-runtime | head -n 1)"
}

# The fields that a GPU node and Kubernetes rely on.
check_settings() {
  local settings field
  settings=$(buildah inspect --type image --format '{{.OCIv1.Config}}' localhost/softmax-server)
  for field in NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility CUDA_CACHE_PATH= 65532:65532 \
      50051/tcp 9400/tcp /opt/softmax/bin/softmax-server; do
    case $settings in *"$field"*) ;; *) die "the image lacks $field: $settings" ;; esac
  done
}

try_server() {
  local mount answer
  CONTAINER=$(buildah from localhost/softmax-server)
  mount=$(buildah mount "$CONTAINER")
  # Every container has /proc; the loader finds the bundled libraries through it.
  mount -t proc proc "$mount/proc"
  PROC=$mount/proc
  # Numbers instead of names, no shell and an empty environment: what a container runtime does with the ENTRYPOINT.
  local in_container=(env -i "$(command -v chroot)" --userspec=65532:65532 "$mount")
  "${in_container[@]}" /opt/softmax/bin/softmax-server --address 127.0.0.1:0 --metrics-address 127.0.0.1:0 \
    --backend cpu >"$WORK/server.log" 2>&1 &
  SERVER_PID=$!
  SERVER_ADDRESS=$(wait_for_line "$WORK/server.log" 'listening on 127\.0\.0\.1:[0-9]+' 30 "$SERVER_PID") || {
    cat "$WORK/server.log" >&2
    die "the server did not start in its image"
  }
  SERVER_ADDRESS=${SERVER_ADDRESS#listening on }
  "${in_container[@]}" /opt/softmax/bin/softmax-client --address "$SERVER_ADDRESS" --health --wait 30s ||
    die "the server in the image is not healthy"
  answer=$(echo '0 0' | "${in_container[@]}" /opt/softmax/bin/softmax-client --address "$SERVER_ADDRESS")
  [ "$(printf '%s' "$answer" | tr -s ', \n' ' ' | sed 's/ *$//')" = "0.5 0.5" ] || die "softmax(0 0) answered: $answer"
  stop_server
  [ "$SERVER_EXIT" = 0 ] || die "the server in the image left with exit code $SERVER_EXIT"
}

make_bases
build_image
check_settings
try_server
say "image: built, started as user 65532, healthy, answered, stopped with exit code 0"
