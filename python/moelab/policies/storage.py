"""On which backends experts lie."""

from typing import NamedTuple, Sequence

import numpy as np

from .policy import Policy


class StorageBackend(NamedTuple):
    name: str
    bytes_per_second: float
    """Plain bytes made ready; infinity: nothing to do."""
    gpu_bytes_per_byte: float
    """GPU memory that a plain byte takes."""
    capacity_bytes: float


class StorageShape(NamedTuple):
    layers: int
    experts: int
    expert_bytes: float
    backends: Sequence[StorageBackend]
    """The GPU's first, the host's or an SSD last."""
    gpu_budget_bytes: float
    compute_s: float
    """Of one layer with its weights there; 0: not known."""


class StoragePolicy(Policy):
    """On which backends the experts of each layer lie."""

    family = "storage"

    def __init__(self, **parameters: float) -> None: ...

    def split(self, shape: StorageShape) -> "np.ndarray":
        """[layers, backends] experts; each layer has shape.experts in all."""
        raise NotImplementedError("a storage policy has a method split(self, shape)")
