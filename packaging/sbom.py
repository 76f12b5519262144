#!/usr/bin/env python3
"""What is in a program, as CycloneDX 1.5: packaging/sbom.py TARGET TIME [FEATURES], the time in seconds since 1970."""

import json
import subprocess
import sys
from datetime import datetime, timezone

target, time = sys.argv[1], int(sys.argv[2])
features = sys.argv[3] if len(sys.argv) > 3 else ""
command = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", features, "--filter-platform", target]
metadata = json.loads(subprocess.check_output(command))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}


def linked(package_id):
    """The packages that the program is compiled of: what tests and build scripts need is not in it."""
    for dependency in nodes[package_id]["deps"]:
        if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
            yield dependency["pkg"]


root = next(package["id"] for package in metadata["packages"] if package["name"] == "cupti-audit")
inside, waiting = set(), [root]
while waiting:
    package_id = waiting.pop()
    if package_id not in inside:
        inside.add(package_id)
        waiting.extend(linked(package_id))


def purl(package_id):
    return "pkg:cargo/{name}@{version}".format(**packages[package_id])


def component(package_id):
    package = packages[package_id]
    said = {
        "type": "application" if package_id == root else "library",
        "bom-ref": purl(package_id),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package_id),
    }
    if package["license"]:
        said["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return said


ordered = sorted(inside, key=purl)
print(json.dumps({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {
        "timestamp": datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "component": component(root),
    },
    "components": [component(package_id) for package_id in ordered if package_id != root],
    "dependencies": [
        {"ref": purl(package_id), "dependsOn": sorted(map(purl, linked(package_id)))} for package_id in ordered
    ],
}, indent=1))
