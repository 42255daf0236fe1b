#!/usr/bin/env bash
# A release as those install it who have nothing: in an empty Debian 12 the packages and the wheel are installed, the
# server is started by its unit's command as its unit's user, and the clients get answers. Needs root and debootstrap.
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

bash scripts/make_root.sh "$TARGET"
mkdir -p "$TARGET/release" "$TARGET/proc"
mount -t proc proc "$TARGET/proc"
(cd "$RELEASE" && sha256sum --quiet -c SHA256SUMS)
cp "$RELEASE"/*.deb "$RELEASE"/*.whl "$TARGET/release"
[ -s "$TARGET/etc/hosts" ] || echo '127.0.0.1 localhost' >"$TARGET/etc/hosts"
inside() { env -i HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$TARGET" "$@"; }
quietly() { "$@" >"$WORK/log" 2>&1 || { tail -n 30 "$WORK/log" >&2; die "failed: $*"; }; }

started=$SECONDS
quietly inside apt-get -qq update
quietly inside sh -c 'apt-get -qq -y install --no-install-recommends /release/softmax-server_*.deb python3-venv \
  python3-numpy'
quietly inside sh -c 'python3 -m venv --system-site-packages /env && /env/bin/pip install --no-index /release/*.whl'

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
answer=$(inside /env/bin/python -c "import numpy as np, softmax_client
with softmax_client.Client('$SERVER_ADDRESS') as client:
    print(client.softmax(np.zeros(4, np.float32)))")
[ "$answer" = "[0.25 0.25 0.25 0.25]" ] || die "Python got: $answer"
say "installed: first answer from Python $((SECONDS - started)) s after the empty machine"

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
