"""Which experts serve a token."""

import enum

import numpy as np

from .policy import Policy


class Role(enum.IntEnum):
    """What an expert is to a token."""

    TOP = 0  # of the model's own choice, with a top score
    LOW = 1  # of the model's own choice, with a low score, kept
    SUBSTITUTE = 2  # in the place of one with a low score


class RoutingPolicy(Policy):
    """Which experts serve each token. Asked where the trace has the scores of all experts."""

    family = "routing"

    def __init__(self, **parameters: float) -> None: ...

    def route(self, chosen: "np.ndarray", scores: "np.ndarray", resident: "np.ndarray", experts: "np.ndarray",
              roles: "np.ndarray") -> None:
        """The tokens of a layer's step: chosen [tokens, top_k] by the model, scores [tokens, experts], and resident
        [experts], whether each is on the GPU. Fills experts and roles, [tokens, top_k] each, which hold `chosen` and
        Role.TOP. A token's experts are distinct; a position holds the model's choice or its substitute."""
        raise NotImplementedError("a routing policy has a method route(self, chosen, scores, resident, experts, roles)")
