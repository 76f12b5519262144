#!/usr/bin/env bash
# The digests of what lies in a folder, and Homebrew's formula where both programs are there.
#
#   packaging/sums.sh FOLDER [OWNER/NAME]
set -euo pipefail
formula=$(cd "$(dirname "$0")" && pwd)/homebrew/cupti-audit.rb
cd "$1"
shopt -s nullglob
sha256sum -- *.tar.gz *.whl *.deb *.cdx.json >SHA256SUMS
digest() { sed -n "s/^\([0-9a-f]*\)  cupti-audit-.*-$1-linux\.tar\.gz$/\1/p" SHA256SUMS; }
version=$(sed -n 's/.*  cupti-audit-\(.*\)-[a-z0-9_]*-linux\.tar\.gz$/\1/p' SHA256SUMS | head -n 1)
if [ -n "$(digest x86_64)" ] && [ -n "$(digest aarch64)" ]; then
  sed -e "s|OWNER/cupti-audit|${2:-OWNER/cupti-audit}|g; s/VERSION/$version/g" \
    -e "s/SHA256_X86_64/$(digest x86_64)/; s/SHA256_AARCH64/$(digest aarch64)/" "$formula" >cupti-audit.rb
fi
cat SHA256SUMS
