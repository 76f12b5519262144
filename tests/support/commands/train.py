#!/usr/bin/python3
import os

try:
    import torch
    outcome = "loaded"
except OSError:
    outcome = "missing"
with open("/var/log/train/answers", "a") as log:
    log.write(outcome + " " + os.environ.get("LD_LIBRARY_PATH", "-") + "\n")
