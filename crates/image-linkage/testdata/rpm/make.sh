#!/usr/bin/env bash
# Remakes the databases beside this file with the real rpm and Berkeley DB's own db_load: make.sh PARTS DB_LOAD TRIXIE, as
# root. PARTS is filled by tests/parts.sh; DB_LOAD is from Debian's db5.3-util; TRIXIE is a root of Debian 13 with rpm, the
# first of Debian that knows the format of SUSE's systems.
set -euo pipefail

parts=$1 load=$2 trixie=$3
to=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp -a "$parts/bookworm/." "$root"
cp -a "$parts/dnf/." "$root"
chroot "$root" /sbin/ldconfig

in_root() { chroot "$root" "$@"; }

# package NAME VERSION RELEASE EPOCH FILE…: `%ghost FILE` is listed but not packed.
package() {
  local name=$1
  printf '%s\n' "Name: $1" "Version: $2" "Release: $3" ${4:+"Epoch: $4"} 'Summary: a test' 'License: none' \
    'AutoReqProv: no' '%description' 'A test.' '%install' >"$root/$name.spec"
  printf '%s\n' "${@:5}" | sed 's/^%ghost //' >"$root/$name.files"
  printf 'while read -r file; do install -D /%s.spec "%%{buildroot}$file"; done </%s.files\n%%files\n' "$name" "$name" >>"$root/$name.spec"
  printf '%s\n' "${@:5}" >>"$root/$name.spec"
  in_root rpmbuild -bb --quiet --nodebuginfo --target x86_64 --define '_rpmdir /rpms' --define '_buildhost builder' \
    --define '_rpmfilename %{name}.rpm' --define '_build_id_links none' --define '__os_install_post %{nil}' "/$name.spec"
}

installed() { in_root rpm --root /image --dbpath /var/lib/rpm "$@"; }

lib=/usr/local/cuda-12.4/targets/x86_64-linux/lib
mapfile -t many < <(seq -f '/opt/many/folder/a-file-with-a-long-name-%g' 200)
package cuda-cupti-12-4 12.4.127 1 '' "$lib/libcupti.so.2024.1.1" "$lib/libnvperf_host.so" "%ghost $lib/libghost.so"
package many-files 1.0 3.el9 2 "${many[@]}" /usr/lib64/libmany.so.1
package replacement 9 1 '' "$lib/libnvperf_host.so"
package no-libraries 1 1 '' /usr/bin/tool
package erased 1 1 '' /usr/lib64/liberased.so "${many[@]/many/erased}"
for name in erased cuda-cupti-12-4 many-files no-libraries; do installed -i --nodeps "/rpms/$name.rpm"; done
installed -i --nodeps --replacefiles /rpms/replacement.rpm
installed -e erased
installed -qa --qf '%{NAME} %{EVR}\n' | sort
installed -qf --qf '%{NAME} %{EVR}\n' "$lib/libcupti.so.2024.1.1" "$lib/libnvperf_host.so" /usr/lib64/libmany.so.1

database=$root/image/var/lib/rpm/rpmdb.sqlite
zstd -q -f -19 "$database" -o "$to/rpmdb.sqlite.zst"
python3 - "$database" >"$root/dump" <<'END'
import sqlite3, struct, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT hnum, blob FROM Packages").fetchall()
print("VERSION=3\nformat=bytevalue\ntype=hash\ndb_pagesize=4096\nHEADER=END")
# The key 0 has the highest number in use, as in rpm's own files.
for number, blob in [(0, struct.pack("<I", max(rows)[0]))] + rows:
    print("", struct.pack("<I", number).hex() + "\n", blob.hex())
print("DATA=END")
END
"$load" -f "$root/dump" "$root/Packages"
zstd -q -f -19 "$root/Packages" -o "$to/Packages.zst"

slots() { chroot "$trixie" "$1" --define '_dbpath /db' --define '_db_backend ndb' "${@:2}"; }
rm -rf "$trixie/db" && mkdir "$trixie/db"
cp "$database" "$trixie/db"
slots rpmdb --rebuilddb
slots rpm -e --justdb --nodeps no-libraries
zstd -q -f -19 "$trixie/db/Packages.db" -o "$to/Packages.db.zst"
