"""Profiles one kernel by Triton's proton and says whether it is in the profile."""

import json
import os
import tempfile

import torch
import triton.profiler as proton

with tempfile.TemporaryDirectory() as folder:
    session = proton.start(os.path.join(folder, "profile"), context="shadow")
    matrix = torch.randn(1024, 1024, device="cuda")
    (matrix @ matrix).sum().item()
    proton.finalize(session)
    with open(os.path.join(folder, "profile.hatchet"), encoding="utf-8") as file:
        profile = file.read()
with open("/proc/self/maps", encoding="utf-8") as maps:
    mapped = sorted({line.split()[-1] for line in maps if "libcupti.so" in line})
timed = '"time (ns)"' in profile
print(json.dumps({"worked": timed, "detail": f"{len(profile)} bytes; mapped: {', '.join(mapped)}"}))
