#!/usr/bin/env bash
# Runs a command with its temporary files in memory, if there is room: in_memory.sh COMMAND ARGUMENTS.
#
# The tests make and remove millions of files; ext4 takes 50 times as long for one as memory does.
set -euo pipefail

cd "$(dirname "$0")/.."
debian=${CUPTI_AUDIT_PARTS:-target/parts}/bookworm
room=$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1) || room=0
if [ -n "${TMPDIR-}" ] || [ "$room" -lt 8 ]; then exec "$@"; fi
# A short path, because a socket's may have 107 bytes.
folder=$(mktemp -d /dev/shm/XXXXXX)
trap 'rm -rf "$folder"' EXIT
# As /tmp: some tests run programs as other users.
chmod 1777 "$folder"
if [ -d "$debian" ]; then
  cp -a "$debian" "$folder/bookworm"
  export CUPTI_AUDIT_ROOTS=$folder
fi
TMPDIR=$folder "$@"
