#!/usr/bin/env bash
# make_root.sh DIR: an empty Debian 12 in DIR (debootstrap --variant=minbase) that installs packages from where this
# machine does: its Debian sources and proxy settings are copied, so a mirror works. Needs root and debootstrap.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || die "usage: make_root.sh DIR"
[ "$(id -u)" = 0 ] || die "run this as root"
command -v debootstrap >/dev/null || die "debootstrap is not installed"
TARGET=$1

# The address of the first source of this suite, whichever of apt's two formats it is written in.
MIRROR=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' |
  awk '$2 == "bookworm" && $3 == "main" && !found {print $1; found = 1}')
[ -n "$MIRROR" ] || die "apt here has no source for bookworm main"

mkdir -p "$TARGET"
debootstrap --variant=minbase bookworm "$TARGET" "$MIRROR" >"$TARGET.log" 2>&1 || {
  tail -n 20 "$TARGET.log" >&2
  die "debootstrap failed"
}
rm -f "$TARGET.log"

# Only Debian's own sources: a third party's would bring tools that an empty machine does not have.
rm -f "$TARGET/etc/apt/sources.list"
if [ -f /etc/apt/sources.list ]; then
  grep '^deb .*debian' /etc/apt/sources.list >"$TARGET/etc/apt/sources.list" || true
fi
for source in /etc/apt/sources.list.d/debian*; do
  [ -f "$source" ] && cp "$source" "$TARGET/etc/apt/sources.list.d/"
done
for settings in /etc/apt/apt.conf.d/*proxy*; do
  [ -f "$settings" ] && cp "$settings" "$TARGET/etc/apt/apt.conf.d/"
done
cp /etc/resolv.conf "$TARGET/etc/resolv.conf" 2>/dev/null || true
say "root: Debian 12 in $TARGET ($(du -sm "$TARGET" | cut -f 1) MB)"
