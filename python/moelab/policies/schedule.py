"""The order of a layer's operations."""

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from .policy import Policy


LAYER_EXPERT = np.dtype({"names": ["id", "tensors", "state", "execute_s"], "formats": ["u4", "u4", "u1", "f8"],
                         "offsets": [0, 4, 8, 16], "itemsize": 24})
"""An expert of a layer's step: its number, its tensors, its State, and the time to run its tokens."""


SM_CHUNK = 2**32 - 1


class LayerInstance(NamedTuple):
    """A layer's step. Times are of one operation."""

    threads: int
    """That decompress."""
    shards: int
    """Chunks of a tensor's exponents; 0: tensors are stored whole."""
    sm_read_s: float
    """Of a plane of signs and mantissas; of a whole tensor where shards is 0."""
    e_read_s: float
    decompress_s: float
    """Of one chunk of exponents."""
    recover_s: float
    """Of one tensor."""
    experts: "np.ndarray"
    """Of dtype LAYER_EXPERT."""


class LayerOrder(NamedTuple):
    """The most urgent first. Tasks are tensors, numbered expert by expert in the instance's order."""

    reads: Sequence[Tuple[int, int]]
    """(task, chunk), the chunk SM_CHUNK or 0 to shards - 1: every read that the states still need, once."""
    tasks: Sequence[int]
    """Every tensor once, for decompression and recovery."""
    experts: Sequence[int]
    """Every expert once, by its place in the instance, for execution."""


class SchedulePolicy(Policy):
    """In which order a layer's reads, decompressions, recoveries and executions run (see policies/schedule/README.md)."""

    family = "schedule"

    def __init__(self, **parameters: float) -> None: ...

    def order(self, layer: LayerInstance) -> LayerOrder:
        raise NotImplementedError("a schedule policy has a method order(self, layer)")
