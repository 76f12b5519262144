#!/usr/bin/env python3
"""Runs each CUPTI API with no more of CUPTI's files than the table names, and writes down what worked.

For every API a folder is made that holds libcupti and the files that profiles/cupti/apis.yaml names for it, and
nothing else of CUPTI. The program of this folder (apis) then asks the API for its work:

  search-path   the folder is on LD_LIBRARY_PATH
  beside        libcupti is opened by its path, and the folder is on no search path
  without       libcupti is on LD_LIBRARY_PATH, and the other files are not there

torch.profiler and proton run with their own libraries; the files that the table does not name are hidden from them
by a mount that only their process sees, so nothing on the machine changes.

    evidence.py --cupti DIR [--include DIR]... [--python PYTHON] [--chip CHIP] [--out FILE]

It takes g++, for torch and proton root as well (unshare and mount), and an NVIDIA GPU with its driver. Without a
GPU only what needs none is asked, for the chip that --chip names.
"""

import argparse
import datetime
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# The files besides libcupti; a test compares this with profiles/cupti/apis.yaml.
APIS = {
    "activity": [],
    "callback": [],
    "host-profiling": ["libnvperf_host.so"],
    "range-profiling": ["libnvperf_host.so"],
    "pm-sampling": ["libnvperf_host.so"],
    "pc-sampling": [],
    "pc-sampling-files": ["libpcsamplingutil.so"],
    "sass-metrics": ["libnvperf_host.so"],
    "checkpoint": ["libcheckpoint.so"],
}
# What can be asked without a GPU.
HOST_ONLY = {"host-profiling"}
# The programs with libraries of their own, the files they may see, and the script that runs them.
PROGRAMS = {
    "torch-profiler": ([], "torch_timeline.py"),
    "torch-profiler-overhead": ([], "torch_overhead.py"),
    "triton-proton": ([], "proton_kernel.py"),
}
CUPTI_FILES = ("libcupti.so*", "libnvperf_*.so*", "libpcsamplingutil.so*", "libcheckpoint.so*")
SECONDS = 180


def main():
    arguments = parse()
    if arguments.table:
        print(json.dumps(APIS))
        return 0
    cupti = libcupti(arguments.cupti)
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="cupti-evidence-") as scratch:
        program = build(scratch, arguments)
        rows = [row for api in APIS for row in ask(api, program, cupti, scratch, machine, arguments.chip)]
        if machine["gpu"]:
            rows += [run_program(name, arguments.python, scratch) for name in PROGRAMS]
    text = document(machine, version(cupti), rows)
    if arguments.out:
        with open(arguments.out + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(arguments.out + ".new", arguments.out)
    else:
        sys.stdout.write(text)
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cupti", default="/usr/local/cuda/lib64", help="the folder with libcupti and its companions")
    parser.add_argument("--include", action="append", default=[], help="a folder with cupti.h or cuda.h (repeatable)")
    parser.add_argument("--python", default=sys.executable, help="the Python that has torch and triton")
    parser.add_argument("--chip", help="the chip to configure for, such as GH100, where there is no GPU")
    parser.add_argument("--out", help="the file to write; standard output when left out")
    parser.add_argument("--table", action="store_true", help="print which files each API is given, as JSON")
    return parser.parse_args()


def libcupti(folder):
    """The libcupti of a folder: the name that is its soname, else any."""
    found = sorted(glob.glob(os.path.join(folder, "libcupti.so*")), key=len)
    if not found:
        sys.exit(f"error: there is no libcupti.so in {folder}; name its folder with --cupti")
    return next((path for path in found if path.count(".") == 2), found[0])


def describe_machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        line = subprocess.run(query, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.splitlines()[0]
        gpu, driver = (part.strip() for part in line.split(","))
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        gpu = driver = None
    return {"gpu": gpu, "driver": driver}


def build(scratch, arguments):
    program = os.path.join(scratch, "apis")
    includes = [*arguments.include, os.path.join(arguments.cupti, "../include"), os.path.join(HERE, "stand-in")]
    sources = sorted(glob.glob(os.path.join(HERE, "*.cpp")))
    command = ["g++", "-std=c++17", "-O1", *(f"-I{folder}" for folder in includes), *sources, "-o", program, "-ldl"]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("error: the program does not build; name the folders of cupti.h (12.6 or later) and cuda.h with --include")
    return program


def ask(api, program, cupti, scratch, machine, chip):
    """The rows of one API: every way in which its files can lie."""
    if not machine["gpu"] and not (api in HOST_ONLY and chip):
        return
    companions = APIS[api]
    placements = ["search-path"] + (["beside", "without"] if companions else [])
    for placed in placements:
        files = [] if placed == "without" else companions
        folder = os.path.join(scratch, f"{api}-{placed}")
        os.mkdir(folder)
        for name in [os.path.basename(cupti), *files]:
            shutil.copy(os.path.join(os.path.dirname(cupti), name), folder)
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        library = os.path.basename(cupti)
        if placed == "beside":
            library = os.path.join(folder, library)
        else:
            environment["LD_LIBRARY_PATH"] = folder
        command = [program, api, "--cupti", library]
        if not machine["gpu"]:
            command += ["--chip", chip]
        yield {"what": api, "files": files, "placed": placed, **result(command, environment)}


def run_program(name, python, scratch):
    """One program with the libraries of its Python, all other files of CUPTI hidden from it."""
    files, script = PROGRAMS[name]
    commands, visible = ["set -e"], set()
    for number, folder in enumerate(cupti_folders(python)):
        shown = os.path.join(scratch, f"{name}-{number}")
        subprocess.run(["cp", "-al", folder, shown], check=False) if same_device(folder, scratch) else shutil.copytree(
            folder, shown, symlinks=True
        )
        for path in (path for pattern in CUPTI_FILES for path in glob.glob(os.path.join(shown, pattern))):
            if os.path.basename(path).startswith("libcupti.so") or os.path.basename(path) in files:
                visible.add(os.path.basename(path))
            else:
                os.unlink(path)
        commands.append(f"mount --bind '{shown}' '{folder}'")
    commands.append(f"exec '{python}' '{os.path.join(HERE, script)}'")
    command = ["unshare", "--mount", "sh", "-c", "\n".join(commands)]
    return {"what": name, "files": sorted(visible), "placed": "own", **result(command, dict(os.environ))}


def cupti_folders(python):
    """The folders of site-packages that hold a libcupti."""
    code = "import site, sysconfig; print('\\n'.join({sysconfig.get_path('purelib'), sysconfig.get_path('platlib')}))"
    roots = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    found = {os.path.dirname(path) for root in roots if root for path in glob.glob(f"{root}/**/libcupti.so*", recursive=True)}
    return sorted(found)


def same_device(one, other):
    return os.stat(one).st_dev == os.stat(other).st_dev


def result(command, environment):
    """What came of a command that prints one line of JSON at its end."""
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"worked": False, "detail": f"no answer in {SECONDS} seconds"}
    try:
        said = json.loads(run.stdout.strip().splitlines()[-1])
        return {"worked": bool(said["worked"]), "detail": str(said["detail"])}
    except (IndexError, KeyError, ValueError):
        last = (run.stderr.strip() or run.stdout.strip() or "no output").splitlines()[-1]
        return {"worked": False, "detail": f"exit {run.returncode}: {last}"}


def version(cupti):
    """CUPTI's own number, which it tells without a driver."""
    code = (
        "import ctypes, sys; number = ctypes.c_uint32(); "
        "ctypes.CDLL(sys.argv[1]).cuptiGetVersion(ctypes.byref(number)); print(number.value)"
    )
    said = subprocess.run([sys.executable, "-c", code, cupti], capture_output=True, text=True, check=False).stdout.strip()
    return int(said) if said.isdigit() else None


def document(machine, number, rows):
    """The table as YAML; every text is written as JSON writes it, which YAML reads."""
    lines = [
        f"# As of {datetime.date.today().isoformat()}.",
        "# Written by tests/gpu/evidence.py: which CUPTI APIs worked with which files, and where those lay.",
        "# A row that contradicts profiles/cupti/apis.yaml is right, and the table is wrong.",
        f"date: {datetime.date.today().isoformat()}",
        f"gpu: {json.dumps(machine['gpu'])}",
        f"driver: {json.dumps(machine['driver'])}",
        f"cupti: {json.dumps(number)}  # as cuptiGetVersion counts",
        "rows:",
    ]
    for row in rows:
        fields = ", ".join(f"{key}: {json.dumps(value)}" for key, value in row.items())
        lines.append(f"  - {{{fields}}}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
