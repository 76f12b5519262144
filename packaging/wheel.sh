#!/usr/bin/env bash
# The program as a wheel for pip, pipx and uv, by maturin: for glibc and musl alike, because the program is static.
#
#   packaging/wheel.sh TARGET PROFILE FEATURES FOLDER [OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."

target=$1 profile=$2 features=$3 to=$4
shift 4
# Without a commit, the first time that a zip can hold.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
maturin build --quiet --profile "$profile" \
  --features "$features" --target "$target" --compatibility manylinux2014 --compatibility musllinux_1_1 --out "$to" "$@"
