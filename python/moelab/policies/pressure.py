"""For how many requests the KV cache has room."""

from typing import ClassVar, NamedTuple

import numpy as np

from .policy import Policy


class PressureTerms(NamedTuple):
    """Arrays go by the number of requests, the first of one."""

    kv_bytes: "np.ndarray"
    """KV cache of so many requests at their ends."""
    step_s: "np.ndarray"
    """A step with a row of each, their experts there."""
    used: "np.ndarray"
    """Different experts that such a step uses, of all layers."""
    room_bytes: float
    """For KV cache and cached experts together."""
    expert_bytes: float
    experts: float
    """Of all layers."""
    load_s: float
    """Of one expert."""


class PressurePolicy(Policy):
    """For how many requests the KV cache has room, where experts and requests want the same memory."""

    family = "pressure"
    needs_costs: ClassVar[bool] = False
    """It reads more of the terms than kv_bytes."""

    def __init__(self, **parameters: float) -> None: ...

    def requests(self, terms: PressureTerms) -> int:
        """1 to len(terms.kv_bytes)."""
        raise NotImplementedError("a pressure policy has a method requests(self, terms)")
