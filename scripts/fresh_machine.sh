#!/usr/bin/env bash
# Proves the promise of README: in an empty Debian without any tool, from a clean clone of the last commit,
# scripts/demo.sh and scripts/test.sh pass with nothing to do by hand. Needs root, debootstrap, git and 6 GB.
#   fresh_machine.sh                    both commands
#   fresh_machine.sh demo|test|setup    one of them; setup only installs
#   SOFTMAX_SUITE=bookworm|trixie       which Debian, 12 or 13; this machine's, unless it is said
#   SOFTMAX_KEEP_ROOT=DIR               use DIR as the root and leave it there (an existing one is reused)
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

WHAT=${*:-demo test}
[ "$(id -u)" = 0 ] || die "run this as root"
TARGET=${SOFTMAX_KEEP_ROOT:-$(mktemp -d "${TMPDIR:-/tmp}/softmax-root.XXXXXX")}

cleanup() {
  local mounted
  for mounted in proc dev/shm dev/pts; do
    if grep -q " $TARGET/$mounted " /proc/mounts; then umount "$TARGET/$mounted" || return 0; fi
  done
  [ -n "${SOFTMAX_KEEP_ROOT:-}" ] || rm -rf --one-file-system "$TARGET"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

[ -x "$TARGET/usr/bin/apt-get" ] || bash scripts/make_root.sh "$TARGET" ${SOFTMAX_SUITE:+"$SOFTMAX_SUITE"}
rm -rf "$TARGET/src"
git clone --quiet --no-hardlinks "file://$ROOT" "$TARGET/src"
mkdir -p "$TARGET/proc" "$TARGET/dev/shm" "$TARGET/dev/pts"
# Every machine has this; a root that debootstrap made does not.
[ -s "$TARGET/etc/hosts" ] || echo '127.0.0.1 localhost' >"$TARGET/etc/hosts"
grep -q " $TARGET/proc " /proc/mounts || mount -t proc proc "$TARGET/proc"
grep -q " $TARGET/dev/shm " /proc/mounts || mount -t tmpfs tmpfs "$TARGET/dev/shm"
grep -q " $TARGET/dev/pts " /proc/mounts || mount -t devpts -o newinstance,ptmxmode=0666 devpts "$TARGET/dev/pts"

# inside COMMAND...: as on a machine where somebody has just logged in as root.
inside() {
  env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SOFTMAX_DEMO_SECONDS="${SOFTMAX_DEMO_SECONDS:-10}" SOFTMAX_FUZZ_SECONDS="${SOFTMAX_FUZZ_SECONDS:-60}" \
    chroot "$TARGET" bash -c 'cd /src && exec "$@"' inside "$@"
}

for part in $WHAT; do
  started=$SECONDS
  case $part in
    setup) inside bash scripts/setup.sh test ;;
    demo) inside bash scripts/demo.sh ;;
    test) inside bash scripts/test.sh ;;
    *) die "there is no part $part; the parts are setup, demo and test" ;;
  esac
  say "fresh machine: $part passed in $((SECONDS - started)) s"
done
