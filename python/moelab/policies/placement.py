"""Which GPUs of a cluster hold which experts."""

from typing import NamedTuple, Sequence

import numpy as np

from .policy import Policy


class PlacementServer(NamedTuple):
    gpu_bytes: Sequence[float]
    """Memory for experts on each GPU."""
    load_bytes_per_second: float
    up: bool
    """False: it has left the cluster, and holds nothing."""


class PlacementShape(NamedTuple):
    layers: int
    experts: int
    expert_bytes: float
    servers: Sequence[PlacementServer]
    copies: int
    """Servers that hold each expert, at least."""
    seed: int
    """For what a policy draws."""


class PlacementPolicy(Policy):
    """Which GPUs of a cluster hold which experts."""

    family = "placement"

    def __init__(self, **parameters: float) -> None: ...

    def place(self, shape: PlacementShape, counts: "np.ndarray") -> "np.ndarray":
        """counts: [servers, layers, experts] activations by each server's users. [GPUs of all servers, layers, experts]
        whether each GPU holds each expert."""
        raise NotImplementedError("a placement policy has a method place(self, shape, counts)")
