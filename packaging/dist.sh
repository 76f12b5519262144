#!/usr/bin/env bash
# What a release holds for one processor, offline: a static program in an archive, a wheel and a Debian package, a list of
# what is in it, and their digests, in target/dist. Of one commit and toolchain the same bytes, whatever folder it is built in.
#
#   packaging/dist.sh [TARGET]     the target of Rust; without it that of this machine, by musl
#   BUILD=zigbuild packaging/dist.sh aarch64-unknown-linux-musl
#                                  for another processor, by cargo-zigbuild, whose zig has the C library of each target;
#                                  RUN=qemu-aarch64-static where this machine does not start it (packaging/deb.sh);
#                                  where Rust's own is not to be had for it, CARGO_UNSTABLE_BUILD_STD=std,
#                                  RUSTC_BOOTSTRAP=1 and RUSTFLAGS=-Clink-self-contained=no compile it of rust-src
#   FEATURES= packaging/dist.sh    without the library for gzip, whose build takes nasm, autoconf, automake and libtool
#   PROFILE=dev packaging/dist.sh  compiled in a tenth of the time, for trying this script
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-$(uname -m)-unknown-linux-musl}
profile=${PROFILE:-dist}
machine=${target%%-*}
# gzip by ISA-L where its assembly is of this processor; FEATURES= leaves all to zlib-rs
case $machine in x86_64) features=${FEATURES-isal} ;; *) features=${FEATURES-} ;; esac
cargo_home=${CARGO_HOME:-$HOME/.cargo}
built=${CARGO_TARGET_DIR:-target}
dist=target/dist
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# The folders of this machine, by names that are the same everywhere: for Rust and for the C that ring and zstd are.
rust_flags=()
# mimalloc then commits memory when it is used: 20 MiB less for an audit of PyTorch's image, and not slower.
c_flags=(-DMI_DEFAULT_ARENA_EAGER_COMMIT=0)
for pair in "$PWD=/source" "$cargo_home=/cargo" "$(rustc --print sysroot)=/rust"; do
  rust_flags+=("--remap-path-prefix=$pair")
  c_flags+=("-ffile-prefix-map=$pair")
done
# crt-static is the default for musl, and asked for where the target is glibc's.
export RUSTFLAGS="${rust_flags[*]} -Ctarget-feature=+crt-static ${RUSTFLAGS:-}" CFLAGS="${c_flags[*]}"
mkdir -p "$dist"
rm -f "$dist"/*_"$machine".whl
if command -v maturin >/dev/null; then
  # maturin compiles the program, with flags of its own.
  if [ "${BUILD:-build}" = zigbuild ]; then zig=(--zig); else zig=(); fi
  packaging/wheel.sh "$target" "$profile" "$features" "$dist" "${zig[@]}"
else
  echo 'dist: no wheel: maturin is missing'
  cargo "${BUILD:-build}" --locked --bin cupti-audit --features "$features" --profile "$profile" --target "$target"
fi

version=$(cargo metadata --locked --no-deps --format-version 1 |
  python3 -c 'import json, sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "cupti-audit"))')
name=cupti-audit-$version-$machine-linux
rm -rf "${dist:?}/$name"*
mkdir -p "$dist/$name"
# Cargo's folder for the profile `dev` is called debug.
install -m 755 "$built/$target/${profile/#dev/debug}/cupti-audit" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$dist/$name/"
chmod 644 "$dist/$name"/*[A-Z]*
packaging/sbom.py "$target" "$SOURCE_DATE_EPOCH" "$features" >"$dist/$name.cdx.json"
find "$dist/$name" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner -C "$dist" -c "$name" | gzip --no-name --best >"$dist/$name.tar.gz"
if command -v dpkg-deb >/dev/null; then
  packaging/deb.sh "$dist/$name" "$version" "$machine" "$dist"
else
  echo 'dist: no Debian package: dpkg-deb is missing'
fi
packaging/sums.sh "$dist"
