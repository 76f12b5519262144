#!/usr/bin/env bash
# A Debian package of a program that needs no library, in FOLDER: packaging/deb.sh PROGRAMS VERSION MACHINE FOLDER
# The program writes its manual and completions; RUN=qemu-aarch64-static runs that of another processor.
set -euo pipefail
programs=$1 version=$2 folder=$4
case $3 in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "deb: no name of Debian's is known for $3" >&2 && exit 1 ;;
esac
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -D -m 755 "$programs/cupti-audit" "$root/usr/bin/cupti-audit"
install -D -m 644 -t "$root/usr/share/doc/cupti-audit" "$programs"/{README.md,CHANGELOG.md}
cat "$programs"/LICENSE-{MIT,APACHE} >"$root/usr/share/doc/cupti-audit/copyright"
chmod 644 "$root/usr/share/doc/cupti-audit/copyright"
share=$root/usr/share
install -d "$share"/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
run() { ${RUN:-} "$programs/cupti-audit" "$@"; }
run man | gzip --no-name --best >"$share/man/man1/cupti-audit.1.gz"
run completions bash >"$share/bash-completion/completions/cupti-audit"
run completions zsh >"$share/zsh/vendor-completions/_cupti-audit"
run completions fish >"$share/fish/vendor_completions.d/cupti-audit.fish"
install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: cupti-audit
Version: $version
Architecture: $architecture
Maintainer: The developers of cupti-audit <cupti-audit@example.invalid>
Installed-Size: $(du -k -s "$root/usr" | cut -f 1)
Section: devel
Priority: optional
Description: says whether CUPTI will load in a container image
 For whom NVIDIA's profiling interface will load in an image, and if not, why:
 answered from the image's bytes, without an engine, root or a GPU.
CONTROL
chmod -R u=rwX,go=rX "$root"
# dpkg-deb takes the times of files that are newer from SOURCE_DATE_EPOCH.
dpkg-deb --root-owner-group -Zxz --build "$root" "$folder/cupti-audit_${version}_$architecture.deb"
