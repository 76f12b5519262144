#!/bin/sh
# Puts cupti-audit into a dev container; VERSION and REPOSITORY are the options of the feature.
set -eu
: "${REPOSITORY:?the option repository is missing: OWNER/REPOSITORY with the releases}"
base=${RELEASES:-https://github.com/$REPOSITORY/releases/download}/v$VERSION
archive=cupti-audit-$VERSION-$(uname -m)-linux.tar.gz

if ! command -v curl >/dev/null; then
  apt-get update
  apt-get install --yes --no-install-recommends ca-certificates curl
  rm -rf /var/lib/apt/lists/*
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
curl --fail --silent --show-error --location --remote-name "$base/$archive" --remote-name "$base/SHA256SUMS"
# Check only the line of this archive; fail if there is none.
grep -F "  $archive" SHA256SUMS | sha256sum -c -
tar -xzf "$archive" --strip-components=1
install -m 755 cupti-audit /usr/local/bin/cupti-audit
