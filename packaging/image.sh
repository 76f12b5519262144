#!/usr/bin/env bash
# The context of our image for both processors, of the archives in DIST: packaging/image.sh DIST CONTEXT
set -euo pipefail
dist=$1 context=$2
rm -rf "$context"
for pair in x86_64=amd64 aarch64=arm64; do
  mkdir -p "$context/${pair#*=}"
  tar -xzf "$dist"/cupti-audit-*-"${pair%=*}"-linux.tar.gz -C "$context/${pair#*=}" --strip-components=1 --wildcards '*/cupti-audit'
done
cp /etc/ssl/certs/ca-certificates.crt "$(dirname "$0")/Dockerfile" "$context"
