"""Which experts move between backends."""

from typing import NamedTuple

import numpy as np

from .policy import Policy
from .storage import StorageShape


class ResidencyState(NamedTuple):
    iteration: int
    compute_s: float
    """Of an iteration, all weights there."""
    gpu_bytes: float
    """For stored experts and KV cache together."""
    kv_bytes: float
    """As it will be in this iteration."""


class ResidencyPolicy(Policy):
    """Which experts move between backends before a step."""

    family = "residency"

    def __init__(self, **parameters: float) -> None: ...

    def adjust(self, state: ResidencyState, shape: StorageShape, split: "np.ndarray") -> None:
        """split: [layers, backends] experts, to be changed in place."""
        raise NotImplementedError("a residency policy has a method adjust(self, state, shape, split)")
