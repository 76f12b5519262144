#!/usr/bin/python3
# Stands in for conda, which no package index of the tests has: installs the packages of /mnt/conda into an environment, each
# with its record in conda-meta. As conda does, it leaves alone what a record names, unless --force-reinstall asks for it.
import argparse, fnmatch, json, os, shutil, sys

arguments = argparse.ArgumentParser()
commands = arguments.add_subparsers(dest="command", required=True)
install = commands.add_parser("install")
install.add_argument("-y", action="store_true")
install.add_argument("-p", default=os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
install.add_argument("-c")
install.add_argument("--override-channels", action="store_true")
install.add_argument("--force-reinstall", action="store_true")
install.add_argument("packages", nargs="+")
clean = commands.add_parser("clean")
clean.add_argument("-afy", action="store_true")
said = arguments.parse_args()
if said.command == "clean":
    sys.exit()
there = sorted(os.listdir("/mnt/conda"))
for wanted in said.packages:
    name, _, version = wanted.partition("=")
    found = [each for each in there if fnmatch.fnmatch(each, f"{name}-{version.strip('=') or '*'}-0")]
    if not found:
        sys.exit(f"PackagesNotFoundError: {wanted}")
    package = found[-1]
    version = package[len(name) + 1 : -2]
    record = f"{said.p}/conda-meta/{package}.json"
    if os.path.exists(record) and not said.force_reinstall:
        print(f"# All requested packages already installed: {wanted}")
        continue
    if os.path.exists(record):
        with open(record) as of:
            for file in json.load(of)["files"]:
                if os.path.lexists(f"{said.p}/{file}"):
                    os.remove(f"{said.p}/{file}")
    shutil.copytree(f"/mnt/conda/{package}", said.p, symlinks=True, dirs_exist_ok=True)
    files = [
        os.path.relpath(os.path.join(folder, file), f"/mnt/conda/{package}")
        for folder, _, names in os.walk(f"/mnt/conda/{package}")
        for file in names
    ]
    with open(record, "w") as to:
        json.dump({"name": name, "version": version, "build": "0", "files": files}, to)
