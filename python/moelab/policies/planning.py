"""How large pools of experts are."""

from typing import NamedTuple, Sequence

import numpy as np

from .policy import Policy


class PlanInput(NamedTuple):
    """A layer; times are of one operation, as in LayerInstance."""

    inclusion: "np.ndarray"
    """Probability that the expert of each rank of popularity is used in a step."""
    k: int
    threads: int
    shards: int
    tensors: int
    sm_read_s: float
    e_read_s: float
    decompress_s: float
    memory_bytes: float
    """For the layer's pools."""
    tensor_elements: float
    tensor_bytes: float
    """Of one tensor whole: 2 for each BF16 element, less in a quantised format."""
    ratio: float
    """Compressed size of the exponents over their plain size."""
    step: float
    """Of the grid of memory shares."""
    pools: Sequence[bool]
    """By State: which may be used."""
    fixed_ratios: Sequence[float]
    """By State: what a system's YAML says for the policy `fixed`; 0 for all others."""


class Plan(NamedTuple):
    """Arrays go by State."""

    ratios: Sequence[float]
    """Shares of memory, which sum to 1 over the pools that are used."""
    capacity: Sequence[int]
    """Experts that each pool holds."""
    expected_makespan_s: float = 0


class PlanningPolicy(Policy):
    """How large the pools of full and compressed experts are. Has no parameters of its own."""

    family = "planning"

    def plan(self, input: PlanInput) -> Plan:
        raise NotImplementedError("a planning policy has a method plan(self, input)")
