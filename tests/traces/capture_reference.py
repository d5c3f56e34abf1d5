"""How each family chooses experts, from its paper or model card, in NumPy and one token at a time: written without a
look at how the recorder reads the models. All take a token's logits [experts] and give ids and weights [k] by falling
weight; `bias` is the router's correction bias where there is one."""

import numpy as np


def softmax(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


def _by_weight(ids, weights):
    order = sorted(range(len(ids)), key=lambda i: (-weights[i], ids[i]))
    return [int(ids[i]) for i in order], [float(weights[i]) for i in order]


def softmax_top(logits, bias=None, *, k, normalize, scale=1.0):
    """Mixtral (arXiv 2401.04088, 2.1), Qwen, OLMoE (2409.02060), DeepSeek-V2 without groups (2405.04434, eq. 21)."""
    p = softmax(logits)
    ids = sorted(range(len(p)), key=lambda e: (-p[e], e))[:k]
    weights = p[ids] / p[ids].sum() if normalize else p[ids]
    return _by_weight(ids, weights * scale)


def softmax_groups(logits, bias=None, *, k, groups, kept, scale):
    """DeepSeek-V2's device-limited routing (2405.04434, 2.2.2): only the groups with the best single expert."""
    p = softmax(logits)
    size = len(p) // groups
    best = sorted(range(groups), key=lambda g: -max(p[g * size : (g + 1) * size]))[:kept]
    allowed = [e for e in range(len(p)) if e // size in best]
    ids = sorted(allowed, key=lambda e: (-p[e], e))[:k]
    return _by_weight(ids, p[ids] * scale)


def sigmoid_groups(logits, bias, *, k, groups, kept, scale):
    """DeepSeek-V3 (2412.19437, eq. 12 to 16): chosen by affinity + bias among the groups whose best two sum highest;
    weighed by the affinity alone."""
    affinity = 1 / (1 + np.exp(-logits))
    choice = affinity + bias
    size = len(choice) // groups
    best = sorted(range(groups), key=lambda g: -sum(sorted(choice[g * size : (g + 1) * size])[-2:]))[:kept]
    allowed = [e for e in range(len(choice)) if e // size in best]
    ids = sorted(allowed, key=lambda e: (-choice[e], e))[:k]
    return _by_weight(ids, affinity[ids] / affinity[ids].sum() * scale)


def top_softmax(logits, bias=None, *, k):
    """gpt-oss (2508.10925, 2.2): softmax over the chosen only."""
    ids = sorted(range(len(logits)), key=lambda e: (-logits[e], e))[:k]
    return _by_weight(ids, softmax(logits[ids]))


def sparse_mixer(logits, bias=None, *, jitter):
    """Phi-3.5-MoE's SparseMixer (2409.12136, 2.2) without its sampling: the best expert weighs its softmax among those
    within the threshold of it, the second likewise without the first."""
    ids, weights = [], []
    left = np.array(logits, np.float64)
    for _ in range(2):
        top = int(left.argmax())
        near = [
            e
            for e in range(len(left))
            if np.isfinite(left[e]) and (left[top] - logits[e]) / max(abs(logits[e]), left[top]) <= 2 * jitter
        ]
        e = np.exp(left[near] - left[top])
        ids.append(top)
        weights.append(1.0 / e.sum())
        left[top] = -np.inf
    return _by_weight(ids, weights)
