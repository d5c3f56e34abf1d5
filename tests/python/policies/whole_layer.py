"""The last layers on the last backend: see policies/storage/whole_layer.cpp."""

import math

import moelab
import numpy as np
from moelab import Parameter


class WholeLayer(moelab.StoragePolicy):
    """the front layers' experts on the first backend, the last layers' on the last"""

    name = "my-whole-layer"
    source = "FluxMoE section 6.1, baselines FluxMoE-H and vLLM-O"
    parameters = {"offloaded": Parameter(0.125, "share of the layers whose experts lie on the last backend", 0.0, 1.0)}

    def __init__(self, offloaded):
        self.offloaded = offloaded

    def split(self, shape):
        last = math.floor(self.offloaded * shape.layers + 0.5)
        split = np.zeros((shape.layers, len(shape.backends)), int)
        split[:shape.layers - last, 0] = shape.experts
        split[shape.layers - last:, -1] = shape.experts
        check_fits(shape, split.sum(axis=0))
        return split


def check_fits(shape, totals):
    for total, backend in zip(totals.tolist(), shape.backends):
        if total > backend.capacity_bytes / shape.expert_bytes:
            raise moelab.InputError(f"backend '{backend.name}' has no capacity for {total} experts")
    on_gpu = sum(total * backend.gpu_bytes_per_byte for total, backend in zip(totals.tolist(), shape.backends))
    if on_gpu * shape.expert_bytes > shape.gpu_budget_bytes:
        raise moelab.InputError("the experts need more GPU memory than their budget")
