#!/usr/bin/env bash
# image_root.sh PREFIX DIR: makes DIR the root of an image that holds the package in PREFIX (scripts/package.sh) and
# nothing but what it needs: the C library it was built with, certificates and the few files that name look-ups read.
# No shell, no package manager, no user database. Runs inside the build image, whose libraries it copies.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 2 ] || die "usage: image_root.sh PREFIX DIR"
PREFIX=$1 TARGET=$2

# The C library's parts that nothing here names but that NVIDIA's driver libraries, mounted at run time, ask for; in
# glibc 2.34 and newer they are empty.
DRIVER_NEEDS="libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2"

# Paths of the shared libraries of one file that lie outside of the package, the loader included.
outside_libraries() {
  ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | grep -v "^$PREFIX/" || true
}

all_outside_libraries() {
  local file folder name
  for file in "$PREFIX"/bin/* "$PREFIX"/lib/softmax/*.so*; do
    ldd "$file" | grep -q 'not found' && die "$file misses a library: $(ldd "$file" | grep 'not found')"
    outside_libraries "$file"
  done
  folder=$(dirname "$(ldd "$PREFIX/bin/softmax-server" | sed -n 's/.*libc\.so\.6 => \(\/[^ ]*\) .*/\1/p')")
  for name in $DRIVER_NEEDS; do printf '%s\n' "$folder/$name"; done
}

# The merged layout of Debian and Ubuntu: the container runtime mounts the driver into /usr/lib/x86_64-linux-gnu, and
# the loader looks into /lib/x86_64-linux-gnu.
make_folders() {
  mkdir -p "$TARGET"/usr/{bin,lib,lib64,sbin} "$TARGET"/{etc,dev,proc,sys,run,tmp}
  ln -sfn usr/bin "$TARGET/bin"
  ln -sfn usr/sbin "$TARGET/sbin"
  ln -sfn usr/lib "$TARGET/lib"
  ln -sfn usr/lib64 "$TARGET/lib64"
  chmod 1777 "$TARGET/tmp"
}

copy_libraries() {
  local library
  all_outside_libraries | sort -u | while read -r library; do
    mkdir -p "$TARGET$(dirname "$library")"
    cp -L "$library" "$TARGET$library"
  done
}

# The licence texts of the packages whose libraries travel along, as their licences ask.
copy_licences() {
  local library package
  {
    all_outside_libraries
    for library in "$PREFIX"/lib/softmax/*.so*; do find /usr/lib -name "$(basename "$library")" | head -n 1; done
  } | sort -u | while read -r library; do
    # The package database knows a merged path by either of its names.
    package=$(dpkg -S "$library" "${library#/usr}" "$(readlink -f "$library")" 2>/dev/null |
      head -n 1 | cut -d: -f1 || true)
    [ -n "$package" ] && [ -f "/usr/share/doc/$package/copyright" ] || die "no licence is known for $library"
    mkdir -p "$TARGET/usr/share/doc/$package"
    cp -L "/usr/share/doc/$package/copyright" "$TARGET/usr/share/doc/$package/copyright"
  done
}

copy_settings() {
  # os-release tells the container runtime and image scanners which distribution's libraries these are.
  cp -L /etc/os-release "$TARGET/etc/os-release"
  [ ! -f /etc/debian_version ] || cp -L /etc/debian_version "$TARGET/etc/debian_version"
  # Where drivers are mounted by some clusters, for the loader cache that the container runtime writes.
  printf '/usr/local/nvidia/lib64\n/usr/lib/x86_64-linux-gnu\n/usr/lib64\n' >"$TARGET/etc/ld.so.conf"
  printf 'hosts: files dns\n' >"$TARGET/etc/nsswitch.conf"
  # Only softmax-client and softmax-loadgen look at it, for servers with a publicly signed certificate.
  mkdir -p "$TARGET/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$TARGET/etc/ssl/certs/ca-certificates.crt"
}

mkdir -p "$TARGET"
make_folders
copy_libraries
copy_licences
copy_settings
mkdir -p "$TARGET$PREFIX"
cp -a "$PREFIX/." "$TARGET$PREFIX/"
# Nobody reads manuals in there.
rm -rf "$TARGET$PREFIX"/share/{man,bash-completion,zsh}
say "image root: $(du -sm "$TARGET" | cut -f 1) MB in $TARGET"
