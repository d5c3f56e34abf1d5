"""Where missing experts are computed."""

from typing import ClassVar, NamedTuple, Sequence, Tuple

import numpy as np

from .policy import Policy


MISSING = np.dtype({"names": ["expert", "score", "tokens"], "formats": ["u4", "f4", "u4"], "offsets": [0, 4, 8],
                    "itemsize": 12})
"""An expert that is not on the GPU: the sum of its tokens' gate scores (0 where the trace has none), and its tokens."""


class ExecutionCosts(NamedTuple):
    load_s: float
    """One expert over the link."""
    cpu_s: "np.ndarray"
    """One expert on the CPU, by number of tokens, from 0."""
    gpu_s: float
    """One expert on the GPU once it is there; 0 where not known."""
    step_tokens: int
    on_gpu: int
    """Experts that the step uses and that are there."""


class ExecutionPolicy(Policy):
    """Which missing experts of a layer the CPU computes, which are loaded for the GPU; link and CPU work at once."""

    family = "execution"
    needs_scores: ClassVar[bool] = False
    needs_cpu: ClassVar[bool] = False
    """costs.cpu_s is filled: the device has to know these times."""

    def __init__(self, **parameters: float) -> None: ...

    def plan(self, missing: "np.ndarray", costs: ExecutionCosts) -> Tuple[Sequence[int], Sequence[int]]:
        """`missing`, of dtype MISSING, in ascending order. The positions in it that are loaded, and those that the CPU
        computes, each in their order; every position is in one of the two."""
        raise NotImplementedError("an execution policy has a method plan(self, missing, costs)")

    def observe_load(self, seconds: float) -> None:
        """An expert came over the link."""
