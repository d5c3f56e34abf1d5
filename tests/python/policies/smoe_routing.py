"""SMoE's router: see policies/routing/smoe_routing.cpp."""

import moelab
import numpy as np
from moelab import Parameter, Role


class SmoeRouting(moelab.RoutingPolicy):
    """low-score experts that are not on the GPU give way to ones of like score that are"""

    name = "my-smoe"
    source = "SMoE (Zhu et al. 2025, arXiv 2508.18983), section IV-B, Algorithm 1"
    parameters = {
        "alpha": Parameter(0.3, "how far from the (k+1)-th score experts stand in for each other", 0, 0.999999),
        "substitute": Parameter(1, "0: experts are sorted into top-score and low-score, none is replaced", 0, 1),
    }

    def __init__(self, alpha, substitute):
        self.alpha, self.substitute = alpha, substitute

    def route(self, chosen, scores, resident, experts, roles):
        tokens, k = chosen.shape
        if k == scores.shape[1]:
            return  # there is no (k+1)-th score
        scores = scores.astype(float)
        limit = np.partition(scores, -k - 1)[:, -k - 1, None]  # [tokens, 1], the (k+1)-th highest score
        own = scores[np.arange(tokens)[:, None], chosen]
        low = (limit <= own) & (own < (1 + self.alpha) * limit)
        roles[low] = Role.LOW
        at_hand = resident.copy()
        at_hand[chosen[~low]] = True
        missing = low & ~at_hand[chosen]
        if not self.substitute or not missing.any():
            return
        stands_in = at_hand & ((1 - self.alpha) * limit <= scores) & (scores <= limit)
        for token in range(tokens):
            stands_in[token, chosen[token]] = False
            leave, come = missing[token].nonzero()[0], stands_in[token].nonzero()[0]
            leave = leave[np.argsort(-own[token, leave], kind="stable")]  # the best first
            come = come[np.argsort(-scores[token, come], kind="stable")]
            count = min(len(leave), len(come))
            leave = leave[len(leave) - count:]
            experts[token, leave] = come[:count]
            roles[token, leave] = Role.SUBSTITUTE
