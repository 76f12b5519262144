#!/usr/bin/env bash
# The crates as crates.io would get them, in the order in which they are published; then the program is compiled from
# them alone, in a folder of its own.
#
#   packaging/crates.sh [cargo's options]     such as --release, or --publish to publish them, which needs a token
set -euo pipefail
cd "$(dirname "$0")/.."

order=(isal-inflate memory-functions gpu-code image-linkage python-path container-start image-source image-store cupti-audit)
if [ "${1:-}" = --publish ]; then
  for crate in "${order[@]}"; do
    case $crate in
      isal-inflate) cargo publish --manifest-path crates/isal-inflate/Cargo.toml ;;
      *) cargo publish --locked --package "$crate" ;;
    esac
  done
  exit
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# isal-inflate is not a member of the workspace: see its Cargo.toml.
patch=(--config "patch.crates-io.isal-inflate.path='$PWD/crates/isal-inflate'")
members=("${order[@]:1}")
cargo package --quiet --no-verify --manifest-path crates/isal-inflate/Cargo.toml --target-dir "$folder"
cargo package --quiet --no-verify "${members[@]/#/--package=}" --target-dir "$folder" "${patch[@]}"
for file in "$folder"/package/*.crate; do tar -xzf "$file" -C "$folder"; done
version=$(cargo pkgid --package cupti-audit | sed 's/.*[#@]//')
patch=()
for crate in "${order[@]%cupti-audit}"; do
  if [ -n "$crate" ]; then patch+=(--config "patch.crates-io.$crate.path='$folder/$crate-$version'"); fi
done
cargo build --manifest-path "$folder/cupti-audit-$version/Cargo.toml" --target-dir "$folder/target" "${patch[@]}" "$@"
"$folder"/target/*/cupti-audit --version
