# Runs the code of `advise --snippet FRAMEWORK` around a small training that ends after the step LAST, in FOLDER. Prints
# the steps in the one trace that it writes, and where traces go on Vertex AI.
import glob
import gzip
import json
import os
import sys

framework, code, last, folder = sys.argv[1:]
os.chdir(folder)
exec(compile(code, framework + ".py", "exec"))


def train_pytorch():
    import torch

    weights = torch.ones(8, 8, requires_grad=True)
    return lambda: (weights @ weights).sum().backward()


def train_tensorflow():
    weights = tf.Variable(tf.ones((8, 8)))
    return tf.function(lambda: weights.assign(tf.sin(weights) @ weights))


def train_jax():
    import jax.numpy as jnp

    step, weights = jax.jit(lambda weights: jnp.sin(weights) @ weights), jnp.ones((8, 8))
    return lambda: step(weights)


train = globals()["train_" + framework]()
for number in profiled(range(8)):
    train()
    if number == int(last):
        break


def steps_in_events(text):
    steps = set()
    for event in json.loads(text)["traceEvents"]:
        name = event.get("name", "")
        if name.startswith("ProfilerStep#"):
            steps.add(int(name.split("#")[1]))
        if name == "train":
            steps.add(int(event["args"]["step_num"]))
    return steps


def steps_in_planes(path):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space, steps = xplane_pb2.XSpace.FromString(open(path, "rb").read()), set()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                if plane.event_metadata[event.metadata_id].name != "train":
                    continue
                stats = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
                steps.add(stats["step_num"].int64_value)
    return steps


if framework == "tensorflow":
    (trace,) = glob.glob("traces/**/*.xplane.pb", recursive=True)
    steps = steps_in_planes(trace)
else:
    (trace,) = glob.glob("traces/**/*trace.json*", recursive=True)
    steps = steps_in_events((gzip.open if trace.endswith(".gz") else open)(trace, "rb").read())
os.environ["AIP_TENSORBOARD_LOG_DIR"] = "gs://bucket/job/logs/"
print("steps", *sorted(steps), "in", trace_folder())
