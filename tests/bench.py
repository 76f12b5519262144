#!/usr/bin/env python3
"""How long does an audit take, against the least that it can take and against the tools that it stands for?

Six images are made once, of PyPI wheels and Debian packages: Debian with PyTorch; one huge layer of CUDA's libraries, in gzip and
in zstd; forty small layers; 300,000 small files; 100,000 files of which 5,000 are libraries. They are in OCI layouts and in a real
registry. Each case runs these in turns:

  floor   igzip -dc or zstd -dc of the layers, one after the other: the fastest decoder for gzip on one core, and no audit
  ours    cupti-audit, without its cache
  warm    the same with the cache of the turn before
  peers   skopeo copy, umoci raw unpack, lddtree of every library: the same question asked with common tools (once)
  syft    a list of the image's packages, if syft is installed (once)

Then it times images of 1,000 to 300,000 small files and draws the times into docs/speed.svg.

The figures are medians; a ratio is that of two runs of one turn, with the least and the largest. Then it counts the
instructions of the stages (callgrind) on small inputs, which no other work on the machine changes, and compares them with
tests/instruction-counts.json: more than 5 % above is a failure. `--write-counts` writes the file anew.
"""

import argparse
import gzip
import hashlib
import io
import json
import math
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cupti-audit", "bench")
HERE = os.path.dirname(os.path.abspath(__file__))
DEBIAN = f"{HERE}/../target/parts/bookworm"
COUNTS = f"{HERE}/instruction-counts.json"
PROGRAM = f"target/{os.uname().machine}-unknown-linux-musl/dist/cupti-audit"
WHEELS = ("nvidia-cublas-cu12==12.4.5.8", "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cuda-cupti-cu12==12.4.127")
FILES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
TORCH = ("torch==2.8.0", "setuptools")
PACKAGES = """libc6 libstdc++6 libgcc-s1 libssl3 zlib1g libzstd1 liblzma5 libbz2-1.0 libexpat1 libffi8 libsqlite3-0
    libpython3.11-minimal libpython3.11-stdlib python3.11-minimal libperl5.36 perl-base libicu72 libxml2 libcurl4
    libgnutls30 libkrb5-3 libglib2.0-0 libx11-6 libcairo2 libpango-1.0-0 libgtk-3-0 libgl1-mesa-dri libllvm15 libboost-filesystem1.74.0
    libprotobuf32 libgrpc29 libopenblas0-pthread libhdf5-103-1 libopencv-core406 libavcodec59 libgomp1 libnuma1 libibverbs1
    libopenmpi3 bash""".split()
PEERS = """set -e; skopeo copy -q --src-tls-verify=false {image} oci:{work}/copy:x; mkdir {work}/root
umoci raw unpack --image {work}/copy:x {work}/root/x 2>&1; find {work}/root/x -name '*.so*' -type f -print0 |
xargs -0 -r -n 50 lddtree -R {work}/root/x >/dev/null 2>&1 || true"""
SELF_SIGNED = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=registry".split()
NEEDED = {"igzip": "isal", "zstd": "zstd", "docker-registry": "docker-registry", "skopeo": "skopeo", "openssl": "openssl"}


def main():
    arguments = parse()
    if arguments.counts_only or arguments.write_counts:
        return count(arguments)
    for program, package in NEEDED.items():
        if not shutil.which(program):
            sys.exit(f"error: there is no {program}; it comes with the Debian package {package}")
    images = {"torch": torch, "huge": huge, "huge-zstd": huge_zstd, "many": many, "files": files, "tree": tree}
    rows = []
    with tempfile.TemporaryDirectory() as work, Registry(work) as registry:
        for name in arguments.images:
            layout = made(name, images[name])
            registry.push(layout, name)
            for place, options in ((f"oci:{layout}", ()), (f"docker://{registry.address}/{name}", registry.options)):
                rows += case(name, (place, options), layout, arguments, work)
    table(rows)
    if arguments.curves:
        draw(curves(arguments), arguments.curves)
    return count(arguments)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROGRAM, help="the program; make dist builds it")
    parser.add_argument("--runs", type=int, default=5, help="how many turns")
    parser.add_argument("--images", nargs="+", default=["torch", "huge", "huge-zstd", "many", "files", "tree"])
    parser.add_argument("--curves", default=f"{HERE}/../docs/speed.svg", help="where to draw the curves; empty for none")
    parser.add_argument("--counts-only", action="store_true", help="only the instruction counts")
    parser.add_argument("--write-counts", action="store_true", help="write the instruction counts anew")
    return parser.parse_args()


# measuring


def case(image, source, layout, arguments, work):
    """The rows of one image at one place."""
    place, options = source
    audit = [arguments.program, "--quiet", "--no-config", "--fail-on", "never", *options, place]
    floor = " ; ".join(decoder(f"{layout}/blobs/sha256/{name}") for name in layers(layout))
    warm = [*audit, "--cache-dir", f"{work}/cache"]
    run(warm)
    commands = {"floor": ["sh", "-c", floor], "ours": [*audit, "--no-cache"], "warm": warm}
    turns = [tuple(run(command) for command in commands.values()) for _ in range(arguments.runs)]
    where = place.split(":", 1)[0]
    rows = [(image, where, what, [turn[at] for turn in turns], turns, at) for at, what in enumerate(commands)]
    # Debian's umoci ends at a layer of zstd.
    if where == "docker" and "zstd -dc" not in floor and shutil.which("lddtree") and shutil.which("umoci"):
        peers = run(["sh", "-c", PEERS.format(image=place, work=work)])
        shutil.rmtree(f"{work}/root", ignore_errors=True)
        shutil.rmtree(f"{work}/copy", ignore_errors=True)
        rows.append((image, where, "peers", [peers], [(turn[0], peers) for turn in turns], 1))
    if where == "oci" and shutil.which("syft"):
        listed = run(["syft", "scan", "-q", f"oci-dir:{layout}"])
        rows.append((image, where, "syft", [listed], [(turn[0], listed) for turn in turns], 1))
    return rows


def curves(arguments):
    """The median seconds of the decoder, and of an audit cold and warm, for each number of files."""
    found = {"decoder": [], "cold": [], "warm": []}
    for number in FILES:
        layout = made(f"files-{number}", lambda folder, number=number: files(folder, number))
        (blob,) = (f"{layout}/blobs/sha256/{name}" for name in layers(layout))
        audit = [arguments.program, "--quiet", "--no-config", "--fail-on", "never", f"oci:{layout}"]
        with tempfile.TemporaryDirectory() as cache:
            warm = [*audit, "--cache-dir", f"{cache}/cache"]
            run(warm)
            commands = {"decoder": ["igzip", "-dc", blob], "cold": [*audit, "--no-cache"], "warm": warm}
            turns = [{name: run(command)[0] for name, command in commands.items()} for _ in range(arguments.runs)]
        for name, line in found.items():
            line.append((number, statistics.median(turn[name] for turn in turns)))
    return found


def draw(lines, path):
    """Both axes are logarithmic."""
    width, height, left, bottom = 640, 360, 60, 310
    across = lambda number: left + math.log10(number / FILES[0]) / math.log10(FILES[-1] / FILES[0]) * (width - left - 110)
    upward = lambda seconds: bottom - math.log10(seconds / 0.001) / 4 * (bottom - 20)
    text = 'font-family="sans-serif" font-size="12" fill="#555"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Seconds by number of files">']
    out.append(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    for number in FILES:
        out.append(f'<text x="{across(number):.0f}" y="{bottom + 18}" text-anchor="middle" {text}>{number:,}</text>')
    for seconds in (0.001, 0.01, 0.1, 1, 10):
        at = upward(seconds)
        out.append(f'<path d="M{left} {at:.0f}H{width - 110}" stroke="#ddd"/><text x="{left - 6}" y="{at + 4:.0f}" text-anchor="end" {text}>{seconds:g} s</text>')
    for (name, line), colour in zip(lines.items(), ("#888", "#c2410c", "#1d4ed8")):
        points = " ".join(f"{across(number):.1f},{upward(seconds):.1f}" for number, seconds in line)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        number, seconds = line[-1]
        out.append(f'<text x="{across(number) + 6:.0f}" y="{upward(seconds) + 4:.0f}" font-family="sans-serif" font-size="12" fill="{colour}">{name} {seconds:.2f} s</text>')
    out.append(f'<text x="{(left + width - 110) / 2:.0f}" y="{bottom + 40}" text-anchor="middle" {text}>files in the image</text></svg>')
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(out) + "\n")


def run(command):
    """Seconds on the clock, seconds of the processor, peak in MiB, MB read from files."""
    before, begun = read_so_far(), time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall = time.monotonic() - begun
    if status != 0:
        sys.exit(f"error: {command} ended with status {os.waitstatus_to_exitcode(status)}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, (read_so_far() - before) / 1e6


def read_so_far():
    """What this process and the children that it has waited for have read; not what came from sockets."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def table(rows):
    print(f"{'image':10} {'from':7} {'what':6} {'wall s':>8} {'cpu s':>8} {'MiB':>6} {'MB read':>8}   wall ratio          cpu ratio")
    for image, where, what, runs, turns, at in rows:
        wall, cpu, peak, read = zip(*runs)
        ratios = [spread([turn[at][part] / turn[0][part] for turn in turns]) for part in (0, 1)]
        figures = f"{statistics.median(wall):8.2f} {statistics.median(cpu):8.2f} {max(peak):6.0f} {statistics.median(read):8.0f}"
        print(f"{image:10} {where:7} {what:6} {figures}   {ratios[0]:18}  {ratios[1]}")


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def decoder(blob):
    with open(blob, "rb") as file:
        return ("igzip -dc " if file.read(2) == b"\x1f\x8b" else "zstd -dc ") + blob


class Registry:
    """Debian's docker-registry on a port of this machine, by TLS as registries are; nobody knows its certificate."""

    def __init__(self, work):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.options = ("--insecure-registry", self.address)
        key, certificate, config = f"{work}/key.pem", f"{work}/certificate.pem", f"{work}/registry.yml"
        subprocess.run([*SELF_SIGNED, "-keyout", key, "-out", certificate], stderr=subprocess.DEVNULL, check=True)
        http = f"{{addr: {self.address}, tls: {{certificate: {certificate}, key: {key}}}}}"
        with open(config, "w", encoding="ascii") as file:
            file.write(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {work}/registry}}}}\nhttp: {http}\n")
        self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def push(self, layout, name):
        target = f"docker://{self.address}/{name}"
        for _ in range(50):
            if subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{layout}", target], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit(f"error: {target} cannot be pushed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


# instruction counts


def count(arguments):
    """Compares the instructions of each stage with those that are kept."""
    if not shutil.which("valgrind"):
        print("instruction counts: there is no valgrind")
        return 0
    with tempfile.TemporaryDirectory() as work:
        found = {name: instructions(arguments.program, layout(f"{work}/{name}", [blob])) for name, blob in stages().items()}
    # What every run takes, such as reading the rules, is a stage of its own.
    counts = {name: value - (found["start"] if name != "start" else 0) for name, value in found.items()}
    if arguments.write_counts:
        with open(COUNTS, "w", encoding="ascii") as file:
            file.write(json.dumps(counts, indent=2) + "\n")
    kept = counts
    if os.path.exists(COUNTS):
        with open(COUNTS, encoding="ascii") as file:
            kept = json.load(file)
    print(f"{'stage':10} {'Minstr':>9} {'kept':>9}  ratio")
    for name, value in counts.items():
        print(f"{name:10} {value / 1e6:9.1f} {kept[name] / 1e6:9.1f}  {value / kept[name]:.3f}")
    return int(any(value > 1.05 * kept[name] for name, value in counts.items()))


def instructions(program, folder):
    os.environ["CUPTI_AUDIT_NO_CACHE"] = "true"
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "--quiet", "--no-config", "--fail-on", "never", f"oci:{folder}"]
    said = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True).stderr
    return next(int(line.split()[-1]) for line in said.splitlines() if "Collected" in line)


def stages():
    """The layers of the stages, the same bytes on every machine."""
    chance = random.Random(1)
    words = [chance.randbytes(chance.randint(2, 9)).hex() for _ in range(4000)]
    text = " ".join(chance.choice(words) for _ in range(400_000)).encode()
    one_file = plain([("text", text)])
    names = [(f"usr/lib/python3/dist-packages/package{at // 100}/module{at % 100}.py", b"") for at in range(20_000)]
    return {
        "start": plain([]),
        "digest": one_file,
        "inflate": gzip.compress(one_file, 6, mtime=0),
        "zstd": subprocess.run(["zstd", "-3", "-qc"], input=one_file, stdout=subprocess.PIPE, check=True).stdout,
        "walk": plain(names),
        "objects": plain([(f"opt/{at}/libfoo.so", words_object(chance)) for at in range(200)]),
    }


def words_object(chance):
    """The headers of a library and noise: what is held, and what is searched for names."""
    header = bytes.fromhex("7f454c46020101000000000000000000" "03003e0001000000" "0000000000000000" "4000000000000000" "0000000000000000" "00000000400038000100000000000000")
    segment = b"".join(number.to_bytes(size, "little") for number, size in ((1, 4), (4, 4), (0, 8), (0, 8), (0, 8), (32768, 8), (32768, 8), (4096, 8)))
    return (header + segment).ljust(256, b"\0") + chance.randbytes(32768 - 256)


def plain(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members:
            add(tar, name, data)
    return out.getvalue()


def add(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def link(tar, name, target):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    tar.addfile(member)


# images


def made(name, make):
    """The layout of an image; made once."""
    folder = f"{CACHE}/{name}"
    if not os.path.isdir(folder):
        print(f"making {folder}", file=sys.stderr)
        shutil.rmtree(f"{folder}.new", ignore_errors=True)
        os.makedirs(f"{folder}.new")
        make(f"{folder}.new")
        os.rename(f"{folder}.new", folder)
    return folder


def huge(folder):
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, *WHEELS], check=True)
        with packed(f"{folder}/layer", ["gzip", "-6nc"]) as tar:
            for wheel in sorted(os.listdir(work)):
                with zipfile.ZipFile(f"{work}/{wheel}") as archive:
                    for member in archive.infolist():
                        info = tarfile.TarInfo(f"usr/lib/python3/dist-packages/{member.filename}")
                        info.size = member.file_size
                        with archive.open(member) as data:
                            tar.addfile(info, data)
    layout(folder, [f"{folder}/layer"])


def torch(folder):
    """Debian with PyTorch in a virtual environment, as one layer."""
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        wheels = ["--only-binary", ":all:", "--python-version", "3.11"]
        for name in [f"manylinux_2_{glibc}" for glibc in range(36, 4, -1)] + ["manylinux2014"]:
            wheels += ["--platform", f"{name}_x86_64"]
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", "--no-compile"]
        subprocess.run([*pip, *wheels, "--target", work, *TORCH], check=True)
        with packed(f"{folder}/layer", ["gzip", "-6nc"]) as tar:
            for name in sorted(os.listdir(DEBIAN)):
                tar.add(f"{DEBIAN}/{name}", name, filter=lambda member: None if member.isdev() else member)
            tar.add(work, "opt/venv/lib/python3.11/site-packages")
            add(tar, "opt/venv/pyvenv.cfg", b"home = /usr/bin\nversion = 3.11.2\n")
            link(tar, "opt/venv/bin/python3", "/usr/bin/python3")
    layout(folder, [f"{folder}/layer"], {"Env": ["PATH=/opt/venv/bin:/usr/bin:/bin"], "Cmd": ["python3", "train.py"]})


def huge_zstd(folder):
    source = made("huge", huge)
    (blob,) = (f"{source}/blobs/sha256/{name}" for name in layers(source))
    subprocess.run(f"igzip -dc {blob} | zstd -3 -q -o {folder}/layer", shell=True, check=True)
    layout(folder, [f"{folder}/layer"])


def many(folder):
    """Each Debian package is a layer."""
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=work, check=True)
        names = []
        for package in sorted(os.listdir(work)):
            names.append(f"{folder}/{package}")
            subprocess.run(f"dpkg-deb --fsys-tarfile {work}/{package} | gzip -6nc > {folder}/{package}", shell=True, check=True)
    layout(folder, names)


def files(folder, number=300_000):
    chance = random.Random(2)
    text = chance.randbytes(4096).hex().encode()
    with packed(f"{folder}/layer", ["gzip", "-6nc"]) as tar:
        for at in range(number):
            start, size = chance.randrange(4096), chance.randrange(4096)
            add(tar, f"usr/lib/python3/dist-packages/package{at // 300}/module{at % 300}.py", text[start : start + size])
    layout(folder, [f"{folder}/layer"])


def tree(folder):
    """The forty packages, and as many copies of their small libraries and of Python's modules as make 5,000 and 100,000."""
    source, objects, modules, count = made("many", many), [], [], 0
    blobs = [f"{source}/blobs/sha256/{name}" for name in layers(source)]
    for blob in blobs:
        with tarfile.open(blob) as tar:
            for member in tar:
                data = tar.extractfile(member).read() if member.isreg() else b""
                count += member.isreg()
                if data.startswith(b"\x7fELF"):
                    objects.append((os.path.basename(member.name), data))
                elif member.name.endswith(".py"):
                    modules.append((os.path.basename(member.name), data))
    wanted = {"objects": 5_000 - len(objects), "modules": 95_000 - (count - len(objects))}
    small = [(name, data) for name, data in objects if len(data) < 100_000]
    with packed(f"{folder}/layer", ["gzip", "-1nc"]) as tar:
        for kind, files_of_kind in (("objects", small), ("modules", modules)):
            for at in range(wanted[kind]):
                name, data = files_of_kind[at % len(files_of_kind)]
                add(tar, f"opt/venv/lib/python3.11/site-packages/{kind}{at // len(files_of_kind)}/part{at % 50}/{name}", data)
    for blob in blobs:
        shutil.copy(blob, f"{folder}/{os.path.basename(blob)}")
    layout(folder, [*(f"{folder}/{os.path.basename(blob)}" for blob in blobs), f"{folder}/layer"])


class packed:
    """A tar that is compressed as it is written."""

    def __init__(self, path, command):
        self.path, self.command = path, command

    def __enter__(self):
        self.out = open(self.path, "wb")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=self.out)
        self.tar = tarfile.open(fileobj=self.process.stdin, mode="w|", bufsize=1 << 20)
        return self.tar

    def __exit__(self, *_):
        self.tar.close()
        self.process.stdin.close()
        self.process.wait()
        self.out.close()


def layers(folder):
    """The layers of a layout, by the hexadecimal digits of their digests."""

    def blob(descriptor):
        with open(f"{folder}/blobs/sha256/{descriptor['digest'].split(':')[1]}", encoding="utf-8") as file:
            return json.load(file)

    with open(f"{folder}/index.json", encoding="utf-8") as file:
        manifest = blob(json.load(file)["manifests"][0])
    return [layer["digest"].split(":")[1] for layer in manifest["layers"]]


def layout(folder, blobs, settings=None):
    """An OCI layout of these layers: bytes, or files that are moved into it. `settings` is the config's."""
    os.makedirs(f"{folder}/blobs/sha256")
    described, diff_ids = [], []
    for number, blob in enumerate(blobs):
        path = blob
        if isinstance(blob, bytes):
            path = f"{folder}/{number}"
            with open(path, "wb") as file:
                file.write(blob)
        kind, diff_id = compression(path)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        described.append({"mediaType": f"{KIND}layer.v1.tar{kind}", "digest": f"sha256:{digest}", "size": os.path.getsize(path)})
        diff_ids.append(f"sha256:{diff_id}")
        os.rename(path, f"{folder}/blobs/sha256/{digest}")
    config = put(folder, {"os": "linux", "architecture": "amd64", "config": settings or {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    manifest = put(folder, {"schemaVersion": 2, "mediaType": f"{KIND}manifest.v1+json", "config": {"mediaType": f"{KIND}config.v1+json", **config}, "layers": described})
    index = {"schemaVersion": 2, "manifests": [{"mediaType": f"{KIND}manifest.v1+json", **manifest}]}
    for name, content in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            json.dump(content, file)
    return folder


KIND = "application/vnd.oci.image."


def compression(path):
    """The ending of a layer's media type, and its diff id."""
    with open(path, "rb") as file:
        start = file.read(4)
    kind, command = ("", ["cat", path])
    if start.startswith(b"\x1f\x8b"):
        kind, command = "+gzip", ["gzip", "-dc", path]
    elif start == b"\x28\xb5\x2f\xfd":
        kind, command = "+zstd", ["zstd", "-dcq", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        return kind, hashlib.file_digest(process.stdout, "sha256").hexdigest()


def put(folder, content):
    """Writes a document as a blob and describes it."""
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    with open(f"{folder}/blobs/sha256/{digest}", "wb") as file:
        file.write(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


if __name__ == "__main__":
    sys.exit(main())
