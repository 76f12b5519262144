# Records three steps of a TensorFlow training, after two that trace the graph and warm up.
#
#     for batch in profiled(dataset):
#         train(batch)
import os

import tensorflow as tf


def trace_folder():
    """The bucket of the Vertex AI job, which Vertex AI mounts at /gcs; elsewhere the folder traces."""
    folder = os.environ.get("AIP_TENSORBOARD_LOG_DIR") or "traces"
    return "/gcs/" + folder[len("gs://") :] if folder.startswith("gs://") else folder


def profiled(batches, skipped=2, recorded=3):
    """Yields the batches and writes one trace."""
    is_recording = False
    try:
        for number, batch in enumerate(batches):
            if number == skipped:
                tf.profiler.experimental.start(trace_folder())
                is_recording = True
            if number == skipped + recorded:
                tf.profiler.experimental.stop()
                is_recording = False
            with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
                yield batch
    finally:
        if is_recording:
            tf.profiler.experimental.stop()
