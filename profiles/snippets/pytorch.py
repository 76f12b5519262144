# Records three steps of a PyTorch training: the first step is skipped, and the second warms the profiler up.
#
#     for batch in profiled(loader):
#         train(batch)
import os

from torch.profiler import profile, schedule, tensorboard_trace_handler


def trace_folder():
    """The bucket of the Vertex AI job, which Vertex AI mounts at /gcs; elsewhere the folder traces."""
    folder = os.environ.get("AIP_TENSORBOARD_LOG_DIR") or "traces"
    return "/gcs/" + folder[len("gs://") :] if folder.startswith("gs://") else folder


def profiled(batches):
    """Yields the batches and writes one trace. Stacks, shapes and memory are off, because they cost more."""
    with profile(
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(trace_folder()),
    ) as profiler:
        for batch in batches:
            yield batch
            profiler.step()
