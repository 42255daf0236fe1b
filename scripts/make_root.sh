#!/usr/bin/env bash
# make_root.sh DIR [SUITE]: an empty Debian in DIR (debootstrap --variant=minbase), of this suite: bookworm (Debian 12)
# or trixie (Debian 13); this machine's, unless it is said. It installs packages from where this machine does: its
# Debian sources, with the suite's name in place of their own, and proxy settings are copied, so a mirror works. Needs
# root and debootstrap.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || [ $# = 2 ] || die "usage: make_root.sh DIR [SUITE]"
[ "$(id -u)" = 0 ] || die "run this as root"
command -v debootstrap >/dev/null || die "debootstrap is not installed"
TARGET=$1

# This machine's suite and the address of its first source, whichever of apt's two formats it is written in.
HERE=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
MIRROR=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' |
  awk -v suite="$HERE" '$2 == suite && $3 == "main" && !found {print $1; found = 1}')
SUITE=${2:-$HERE}
[ -n "$MIRROR" ] || die "apt here has no source for $HERE main"

mkdir -p "$TARGET"
debootstrap --variant=minbase "$SUITE" "$TARGET" "$MIRROR" >"$TARGET.log" 2>&1 || {
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
sed -i "s/\b$HERE\b/$SUITE/g" "$TARGET"/etc/apt/sources.list "$TARGET"/etc/apt/sources.list.d/* 2>/dev/null || true
for settings in /etc/apt/apt.conf.d/*proxy*; do
  [ -f "$settings" ] && cp "$settings" "$TARGET/etc/apt/apt.conf.d/"
done
cp /etc/resolv.conf "$TARGET/etc/resolv.conf" 2>/dev/null || true
say "root: Debian $(cat "$TARGET/etc/debian_version") in $TARGET ($(du -sm "$TARGET" | cut -f 1) MB)"
