# Records three steps of a JAX training, after two that compile and warm up.
#
#     for batch in profiled(batches):
#         state = train(state, batch)
import os

import jax


def trace_folder():
    """The bucket of the Vertex AI job, which Vertex AI mounts at /gcs; elsewhere the folder traces."""
    folder = os.environ.get("AIP_TENSORBOARD_LOG_DIR") or "traces"
    return "/gcs/" + folder[len("gs://") :] if folder.startswith("gs://") else folder


def stop_trace():
    # JAX returns before the device is done.
    jax.block_until_ready(jax.live_arrays())
    jax.profiler.stop_trace()


def profiled(batches, skipped=2, recorded=3):
    """Yields the batches and writes one trace."""
    is_recording = False
    try:
        for number, batch in enumerate(batches):
            if number == skipped:
                # The steps before this one may still run on the device.
                jax.block_until_ready(jax.live_arrays())
                jax.profiler.start_trace(trace_folder())
                is_recording = True
            if number == skipped + recorded:
                stop_trace()
                is_recording = False
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                yield batch
    finally:
        if is_recording:
            stop_trace()
