#!/usr/bin/env python3
"""How long does an audit of a large image take, against decompressing its layer and nothing else?

Runs the two in turns on one layer, of PyTorch's own libraries as `make environments` brings them, and prints the least
and the median of each, their ratio, and the most memory that was held. The floor is igzip (Debian package isal), the
fastest decoder there is for gzip on one core: what an audit takes beyond it goes into digests, the tar and the ELF files.

A figure is worth as much as the machine is idle; the ratio is what to look at.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import time

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cupti-audit")
SITE = "opt/venv/lib/python3.11/site-packages"
FOLDERS = ("torch/lib", "nvidia/cuda_cupti", "nvidia/cuda_runtime", "nvidia/cublas")


def main():
    arguments = parse()
    if not shutil.which("igzip"):
        return say("there is no igzip; it comes with the Debian package isal")
    if not os.path.isdir(f"{CACHE}/torch/{SITE}"):
        return say(f"there is no {CACHE}/torch; `make environments` brings it")
    layout = image(f"{CACHE}/bench")
    blob = max((os.path.join(layout, "blobs/sha256", name) for name in os.listdir(f"{layout}/blobs/sha256")), key=os.path.getsize)
    commands = {
        "igzip": ["igzip", "-dc", blob],
        "audit": [arguments.program, "--quiet", "--no-config", "--fail-on", "never", f"oci:{layout}"],
    }
    taken = {name: [] for name in commands}
    for _ in range(arguments.runs):
        for name, command in commands.items():
            taken[name].append(run(command))
    print(f"{os.path.getsize(blob) / 1e6:.0f} MB of gzip, {arguments.runs} runs in turns")
    for name, runs in taken.items():
        wall, busy, peak = zip(*runs)
        print(
            f"{name:6} least {min(wall):6.2f} s  median {statistics.median(wall):6.2f} s"
            f"  processor {statistics.median(busy):6.2f} s  peak {max(peak) / 1024:5.0f} MiB"
        )
    for what, of in (("least", min), ("median", statistics.median)):
        audit, floor = (of([wall for wall, _, _ in taken[name]]) for name in ("audit", "igzip"))
        print(f"ratio of the {what}: {audit / floor:.2f}")
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/dist/cupti-audit", help="the program; make bench builds it")
    parser.add_argument("--runs", type=int, default=7, help="how often each is run")
    return parser.parse_args()


def say(what):
    print(f"error: {what}", file=sys.stderr)
    return 2


def run(command):
    """Seconds on the clock, seconds of the processor, and the peak in KiB."""
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall = time.monotonic() - begun
    if status != 0:
        sys.exit(f"error: {command[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss


def image(folder):
    """An OCI layout of one layer; made once."""
    if os.path.isdir(folder):
        return folder
    print(f"making {folder}", file=sys.stderr)
    new = f"{folder}.new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(f"{new}/blobs/sha256")
    diff_id, packed = hashlib.sha256(), f"{new}/layer"
    with open(packed, "wb") as out, subprocess.Popen(["gzip", "-6nc"], stdin=subprocess.PIPE, stdout=out) as gzip:
        with tarfile.open(fileobj=Tee(gzip.stdin, diff_id), mode="w|", bufsize=1 << 20) as tar:
            for name in FOLDERS:
                tar.add(f"{CACHE}/torch/{SITE}/{name}", f"{SITE}/{name}")
        gzip.stdin.close()
    with open(packed, "rb") as layer:
        digest = hashlib.file_digest(layer, "sha256").hexdigest()
    size = os.path.getsize(packed)
    os.rename(packed, f"{new}/blobs/sha256/{digest}")
    kind = "application/vnd.oci.image."
    config = put(new, {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id.hexdigest()}"]}})
    layers = [{"mediaType": f"{kind}layer.v1.tar+gzip", "digest": f"sha256:{digest}", "size": size}]
    manifest = put(new, {"schemaVersion": 2, "config": {"mediaType": f"{kind}config.v1+json", **config}, "layers": layers})
    index = {"schemaVersion": 2, "manifests": [{"mediaType": f"{kind}manifest.v1+json", **manifest}]}
    for name, content in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(f"{new}/{name}", "w", encoding="utf-8") as file:
            json.dump(content, file)
    os.rename(new, folder)
    return folder


def put(folder, content):
    """Writes a document as a blob and describes it."""
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    with open(f"{folder}/blobs/sha256/{digest}", "wb") as file:
        file.write(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


class Tee:
    """Writes to a file and into a digest."""

    def __init__(self, file, digest):
        self.file, self.digest = file, digest

    def write(self, data):
        self.digest.update(data)
        return self.file.write(data)


if __name__ == "__main__":
    sys.exit(main())
