"""Times steps of a small training in turns without and with torch.profiler, and says what the profiler costs."""

import contextlib
import json
import statistics
import time

import torch
from torch.profiler import ProfilerActivity, profile

ROUNDS, STEPS = 15, 100

device = "cuda" if torch.cuda.is_available() else "cpu"
activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batch = torch.randn(64, 512, device=device)


def seconds_of_steps(profiler):
    """The time of the steps alone: the profiler is started before and read out behind."""
    with profiler:
        wait()
        begin = time.perf_counter()
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        wait()
        return time.perf_counter() - begin


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


# The first of each loads libraries and kernels. In turns, so that a clock that changes counts for both.
times = {"none": [], "profiler": []}
for number in range(ROUNDS + 1):
    for name, profiler in (("none", contextlib.nullcontext()), ("profiler", profile(activities=activities))):
        seconds = seconds_of_steps(profiler)
        if number:
            times[name].append(seconds / STEPS * 1e6)
none, profiled = (statistics.median(times[name]) for name in times)
ratios = [b / a for a, b in zip(*times.values(), strict=True)]
detail = (
    f"{device}: a step takes {none:.0f} us without and {profiled:.0f} us with torch.profiler, "
    f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} turns of {STEPS} steps)"
)
print(json.dumps({"worked": device == "cuda", "detail": detail}))
