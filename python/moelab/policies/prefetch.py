"""What is fetched ahead."""

from typing import ClassVar, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .policy import Policy


class PrefetchShape(NamedTuple):
    layers: int
    experts: int
    top_k: int
    seed: int
    """For what a policy draws."""
    load_s: float
    """Of one expert over the link; 0 where memory is shared."""
    gpu_s: float
    """Of one expert on the GPU, for one token."""
    cpu_s: "np.ndarray"
    """Of one expert on the CPU, by number of tokens from 0; empty where it does not compute."""


class GatesAhead(NamedTuple):
    """What the gate of a layer that did not run yet will say, token by token, as recorded."""

    chosen: "np.ndarray"
    """[tokens, top_k] as the model will choose."""
    scores: "np.ndarray"
    """[tokens, experts]"""
    predicted: Optional["np.ndarray"]
    """[tokens, top_k] what the recording predicted itself, one layer ahead; None where it did not."""


class PrefetchPolicy(Policy):
    """Which experts of later layers to fetch while a layer computes."""

    family = "prefetch"
    needs_all_scores: ClassVar[bool] = False
    """gate_ahead() gets scores: only traces with those of all experts will do."""
    runs_attention_ahead: ClassVar[bool] = False
    """It predicts with the next layer's attention: what it wishes can be fetched once that has run."""
    gates_ahead: int = 0
    """How many layers ahead it wants to know of; read once, after __init__."""

    def __init__(self, shape: PrefetchShape, **parameters: float) -> None: ...

    def begin_request(self) -> None: ...

    def begin_step(self) -> None:
        """A forward pass begins."""

    def gate_ahead(self, layer: int, gates: GatesAhead, resident: "np.ndarray") -> None:
        """Of each of `gates_ahead` layers, the nearest first, before after_gate(). resident: [experts] whether each is
        on the GPU."""

    def after_gate(self, layer: int, uses: "np.ndarray") -> Sequence[Tuple[int, int]]:
        """`layer` has routed to `uses` (dtype USE). The (layer, expert) to fetch now, the most urgent first."""
        raise NotImplementedError("a prefetch policy has a method after_gate(self, layer, uses)")
