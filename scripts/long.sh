#!/usr/bin/env bash
# The `long` tier: what takes too long for every push. Each part runs alone, by name; without a name, all of them.
#   fresh    an empty Debian 12 and a clean clone: both commands of README (needs root, debootstrap; about an hour)
#   image    the image, built with buildah and tried (needs root, debootstrap, buildah; about a quarter of an hour)
#   soak     the tests labelled `long` of the dev build
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PARTS="fresh image soak"

run_part() {
  case $1 in
    fresh) bash scripts/fresh_machine.sh ;;
    image) bash tests/image/build_image.sh ;;
    soak)
      configure dev && cmake --build build/dev -j "$(cores)" &&
        ctest --test-dir build/dev --label-regex '^long$' --output-on-failure
      ;;
    *) die "there is no part $1; the parts are: $PARTS" ;;
  esac
}

FAILED=""
for part in ${*:-$PARTS}; do
  started=$SECONDS
  if (run_part "$part"); then
    say "long: $part passed in $((SECONDS - started)) s"
  else
    FAILED+=" $part"
    say "long: $part FAILED after $((SECONDS - started)) s"
  fi
done
[ -z "$FAILED" ] || die "failed:$FAILED"
