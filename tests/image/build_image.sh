#!/usr/bin/env bash
# Builds the image of the Dockerfile with buildah and tries it: it is small, and a server on the CPU with a read-only
# root is ready in time, answers health and one request and leaves with exit code 0 on SIGTERM. The build's base image
# is made here with debootstrap and gets this machine's package sources, so no registry is needed. Needs root,
# debootstrap and buildah.
#   MAX_MB, MAX_READY_MS   the limits: 120 MB of files, 2000 ms from start to healthy
#   CUDA_TOOLKIT           a CUDA toolkit's directory, /usr/local/cuda for one: mounted into the build, so that the
#                          image has the kernels for every architecture (half an hour on two cores)
#   IMAGE_ARCHIVE          where to write the image as an OCI archive, when it is good
#   BASE_IMAGE             an image of Debian 12 that exists already, instead of one made here
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot

[ "$(id -u)" = 0 ] || die "run this as root"
for tool in debootstrap buildah; do command -v "$tool" >/dev/null || die "$tool is not installed"; done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/softmax-image.XXXXXX")
CONTAINER="" SERVER_PID="" MOUNTED=()
MAX_MB=${MAX_MB:-120} MAX_READY_MS=${MAX_READY_MS:-2000}
cleanup() {
  [ -z "$SERVER_PID" ] || kill -KILL "$SERVER_PID" 2>/dev/null || true
  # The last first; what is still mounted must not be removed.
  for ((i = ${#MOUNTED[@]} - 1; i >= 0; --i)); do umount "${MOUNTED[i]}" || return 0; done
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

make_base() {
  bash scripts/make_root.sh "$WORK/build-root" bookworm
  rm -rf "$WORK/build-root/dev"  # a container gets its own
  base_image localhost/softmax-base-build "$WORK/build-root"
  rm -rf "$WORK/build-root"
}

build_image() {
  local toolkit=()
  [ -z "${CUDA_TOOLKIT:-}" ] || toolkit=(--volume "$(realpath "$CUDA_TOOLKIT"):/usr/local/cuda:ro")
  buildah build --quiet --format docker "${toolkit[@]}" \
    --build-arg BASE_BUILD="${BASE_IMAGE:-localhost/softmax-base-build}" \
    --build-arg COMMIT="$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" \
    --tag localhost/softmax-server . >"$WORK/image-id"
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

# The files of the image.
check_files() {
  local mount=$1 megabytes
  megabytes=$(du -sm --apparent-size "$mount" | cut -f 1)
  say "image: $megabytes MB of files"
  [ "$megabytes" -lt "$MAX_MB" ] || die "the image has $megabytes MB; $MAX_MB is the limit"
  for file in opt/softmax/share/doc/softmax/LICENSE usr/share/doc/libc6/copyright etc/ssl/certs/ca-certificates.crt; do
    [ -s "$mount/$file" ] || die "the image lacks /$file"
  done
  for file in bin/sh bin/bash usr/bin/apt etc/passwd; do
    [ ! -e "$mount/$file" ] || die "the image has /$file, which nothing in it needs"
  done
}

# Mounts the image as a container runtime does with readOnlyRootFilesystem: /proc, and nothing that can be written.
mount_read_only() {
  CONTAINER=$(buildah from localhost/softmax-server)
  ROOT_FS=$(buildah mount "$CONTAINER")
  check_files "$ROOT_FS"
  mount --bind "$ROOT_FS" "$ROOT_FS"
  MOUNTED+=("$ROOT_FS")
  # Every container has /proc; the loader finds the bundled libraries through it.
  mount -t proc proc "$ROOT_FS/proc"
  MOUNTED+=("$ROOT_FS/proc")
  mount -o remount,bind,ro "$ROOT_FS"
  if touch "$ROOT_FS/tmp/probe" 2>/dev/null; then die "the root should be read-only here"; fi
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

try_server() {
  local answer started took
  mount_read_only
  # Numbers instead of names, no shell and an empty environment: what a container runtime does with the ENTRYPOINT.
  local in_container=(env -i "$(command -v chroot)" --userspec=65532:65532 "$ROOT_FS")
  started=$(milliseconds)
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
  took=$(($(milliseconds) - started))
  say "image: healthy $took ms after its start"
  [ "$took" -lt "$MAX_READY_MS" ] || die "it took $took ms to be ready; $MAX_READY_MS is the limit"
  answer=$(echo '0 0' | "${in_container[@]}" /opt/softmax/bin/softmax-client --address "$SERVER_ADDRESS")
  [ "$(printf '%s' "$answer" | tr -s ', \n' ' ' | sed 's/ *$//')" = "0.5 0.5" ] || die "softmax(0 0) answered: $answer"
  stop_server
  [ "$SERVER_EXIT" = 0 ] || die "the server in the image left with exit code $SERVER_EXIT"
}

[ -n "${BASE_IMAGE:-}" ] || make_base
build_image
check_settings
try_server
if [ -n "${IMAGE_ARCHIVE:-}" ]; then
  buildah push --quiet localhost/softmax-server "oci-archive:$IMAGE_ARCHIVE:softmax-server:latest"
fi
say "image: built, started as user 65532 on a read-only root, healthy, answered, stopped with exit code 0"
