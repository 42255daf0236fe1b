#!/usr/bin/env bash
# A release as those install it who have nothing: in an empty Debian like this machine's the commands of README are run,
# word by word but for the port. The server is started by its unit's command as its unit's user, for a chroot has no
# systemd; and clients get answers. Needs root and debootstrap.
#   installed_test.sh [DIR]   DIR: what scripts/release.sh made; without it a release is made, but for the image
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

[ "$(id -u)" = 0 ] || die "run this as root"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/softmax-installed.XXXXXX")
TARGET=$WORK/root SERVER_PID=""
cleanup() {
  [ -z "$SERVER_PID" ] || kill -KILL "$SERVER_PID" 2>/dev/null || true
  if grep -q " $TARGET/proc " /proc/mounts; then umount "$TARGET/proc" || return 0; fi
  rm -rf --one-file-system "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

RELEASE=${1:-$WORK/release}
[ -d "$RELEASE" ] || SOFTMAX_WITHOUT_IMAGE=1 bash scripts/release.sh "$RELEASE"
RELEASE=$(cd "$RELEASE" && pwd)

# How exposed the unit is, by systemd's own count: 0 is not at all, 10 completely.
if command -v systemd-analyze >/dev/null; then
  systemd-analyze security --offline=yes --threshold=25 --no-pager deploy/debian/softmax-server.service \
    >"$WORK/exposure" || die "the unit is too exposed: $(tail -n 1 "$WORK/exposure")"
  say "installed: $(tail -n 1 "$WORK/exposure" | grep -o 'Overall.*[0-9]')"
fi

# One for every Python, of a size that package indexes take.
wheels=("$RELEASE"/softmax_client-*-py3-none-manylinux_2_*_x86_64.whl)
[ -s "${wheels[0]}" ] || die "there is no wheel for every Python"
[ "$(stat -c %s "${wheels[0]}")" -le 12000000 ] || die "the wheel is larger than 12 MB"

bash scripts/make_root.sh "$TARGET"
mkdir -p "$TARGET/release" "$TARGET/proc"
mount -t proc proc "$TARGET/proc"
(cd "$RELEASE" && sha256sum --quiet -c SHA256SUMS)
cp "$RELEASE"/*.deb "$RELEASE"/*.whl "$TARGET/release"
[ -s "$TARGET/etc/hosts" ] || echo '127.0.0.1 localhost' >"$TARGET/etc/hosts"
inside() { env -i HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$TARGET" "$@"; }
quietly() { "$@" >"$WORK/log" 2>&1 || { tail -n 30 "$WORK/log" >&2; die "failed: $*"; }; }

mapfile -t commands < <(sed -n '/^## Quick start: Debian, from a release/,/^## Quick start: G/s/^    //p' README.md)
[ "${#commands[@]}" = 3 ] || die "README has ${#commands[@]} commands for a release; this knows what to do with 3"
TOOK=""
# timed N: README's command N in the folder of the release; its output is left in $WORK/log.
timed() {
  local begun=$SECONDS
  quietly inside sh -c "cd /release && ${commands[$1]//localhost:50051/${SERVER_ADDRESS:-}}"
  TOOK+=" $((SECONDS - begun))"
}

started=$SECONDS
quietly inside apt-get -qq update
TOOK+=" $((SECONDS - started))"
timed 0
timed 1

unit=$TARGET/lib/systemd/system/softmax-server.service
user=$(sed -n 's/^User=//p' "$unit")
command=$(sed -n 's/^ExecStart=//p' "$unit")
inside getent passwd "$user" >/dev/null || die "the package made no user $user"
[ -L "$TARGET/etc/systemd/system/multi-user.target.wants/softmax-server.service" ] || die "the service is not enabled"
# On ports that are free here, which the root shares with this machine.
sed -i 's/0.0.0.0:[0-9]*/127.0.0.1:0/' "$TARGET/etc/softmax-server/softmax-server.toml"
# shellcheck disable=SC2086 -- the command is words
env -i "$(command -v chroot)" --userspec="$user:$user" "$TARGET" $command >"$WORK/server.log" 2>&1 &
SERVER_PID=$!
SERVER_ADDRESS=$(wait_for_line "$WORK/server.log" 'listening on 127\.0\.0\.1:[0-9]+' 60 "$SERVER_PID") || {
  cat "$WORK/server.log" >&2
  die "the installed server did not start"
}
SERVER_ADDRESS=${SERVER_ADDRESS#listening on }
timed 2
case $(cat "$WORK/log") in
  "[0.0900305"?" 0.2447284"?" 0.665240"??"]") ;;
  *) die "Python got: $(cat "$WORK/log")" ;;
esac
say "installed: first answer from Python $((SECONDS - started)) s after the empty machine" \
  "installed: apt-get update and the commands of README took$TOOK s"

quietly inside sh -c 'apt-get -qq -y install --no-install-recommends /release/softmax-client_*.deb'
answer=$(echo '0 0' | inside softmax-client --address "$SERVER_ADDRESS")
[ "$answer" = "0.5 0.5" ] || die "softmax-client got: $answer"
for file in /usr/share/man/man1/softmax-server.1 /usr/share/man/man1/softmax-loadgen.1 \
    /usr/share/bash-completion/completions/softmax-client; do
  [ -s "$TARGET$file" ] || die "$file is missing"
done
stop_server
[ "$SERVER_EXIT" = 0 ] || die "the server left with exit code $SERVER_EXIT"
quietly inside apt-get -qq -y purge softmax-server
[ ! -e "$TARGET/etc/softmax-server/softmax-server.toml" ] || die "purge left the config file"
say "installed: server, client and wheel work; purged"
