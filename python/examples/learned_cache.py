# %% [markdown]
# # A cache that learned from a trace
# A small model is trained on recorded routing and decides which experts stay in memory, beside LRU, LFU and Belady, on
# requests that it has not seen. Needs moelab alone; `python3 learned_cache.py` runs all.

# %% 18 of the 27 recorded requests to learn from, 9 to be judged on
import json
import os
import struct
import tempfile

import numpy as np

import moelab
from moelab import Feature

recorded = moelab.Trace("debian-moe-8x32")  # comes with moelab; any trace's file does
folder = tempfile.mkdtemp()


def save_requests(name, requests):
    """These requests of the recording as a trace of their own (a safetensors file: traces/README.md)."""
    offsets = recorded.request_offsets.astype(int)
    rows = np.concatenate([np.arange(offsets[r], offsets[r + 1]) for r in requests])
    lengths = [offsets[r + 1] - offsets[r] for r in requests]
    tensors = {"request_offsets": np.cumsum([0, *lengths]).astype("u8"), "gate_scores": recorded.gate_scores[rows],
               "expert_ids": recorded.expert_ids[rows], "phases": recorded.phases[rows]}
    header = {"__metadata__": {"format": "moelab-routing", "format_version": "2", "model": recorded.model, "kind": "recorded",
                               "experts": str(recorded.experts), "provenance": "requests of " + recorded.provenance}}
    end = 0
    for key, array in tensors.items():
        kind = {"u8": "U64", "f4": "F32", "u2": "U16", "u1": "U8"}[array.dtype.str[1:]]
        header[key] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.join(folder, name + ".safetensors")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))
    return path


requests = range(len(recorded))
to_learn = save_requests("learn", [r for r in requests if r % 3 != 2])
to_judge = save_requests("judge", [r for r in requests if r % 3 == 2])


# %% A run writes down what a policy would be asked with, step by step: LRU that takes notes
class Notes(moelab.PriorityCachePolicy):
    """LRU that writes the features of each step into a file a layer"""

    name = "notes"

    def __init__(self, shape):
        self.file = open(os.path.join(folder, f"{shape.first_layer}.f4"), "ab", buffering=0)

    def priorities(self, features):
        self.file.write(features.tobytes())
        return -features[:, Feature.RECENCY]


moelab.run("recorded-default", system="zipmoe-lru", policies=[Notes],
           settings={"overrides.system.cache.policy": "notes", "workload.trace": to_learn, "workload.requests": 18})


# %% The model: what an expert's features say of how soon it is used again
def inputs(features):
    """A row an expert, [experts, inputs]: times as logarithms, products where one feature bends another."""
    recency, gap = np.log1p(features[:, Feature.RECENCY]), np.log1p(features[:, Feature.GAP])
    rest = features[:, Feature.FREQUENCY:Feature.TOKENS + 1]
    recent = features[:, Feature.RECENT_FREQUENCY]
    return np.column_stack([np.ones(len(features)), recency, gap, recency * gap, recency * recent, recency**2, rest])


def soon(features):
    """[steps, experts] 1 for an expert that the next step uses, less the later it is used: halved every 4 steps."""
    used = features[:, :, Feature.RECENCY] == 0
    answer, later = np.zeros(used.shape, "f4"), np.zeros(used.shape[1], "f4")
    for step in reversed(range(len(used))):
        answer[step] = later
        later = np.where(used[step], 1, later * 0.5**0.25)
    return answer


x, y = [], []
for layer in range(recorded.layers):
    steps = np.fromfile(os.path.join(folder, f"{layer}.f4"), "f4").reshape(-1, recorded.experts, len(Feature))
    x.append(inputs(steps.reshape(-1, len(Feature))))
    y.append(soon(steps).ravel())
x, y = np.concatenate(x), np.concatenate(y)
ridge = 1e-3 * len(x) * np.eye(x.shape[1])
weights_learned = np.linalg.solve(x.T @ x + ridge, x.T @ y).astype("f4")
print(f"learned {len(weights_learned)} weights from {len(x)} rows; correlation with the answer "
      f"{np.corrcoef(x @ weights_learned, y)[0, 1]:.2f}")


# %% The policy, and its rivals on the requests that it has not seen
class Learned(moelab.PriorityCachePolicy):
    """the expert that a linear model expects to be used last leaves first"""

    name = "learned"
    weights = weights_learned

    def priorities(self, features):
        return inputs(features) @ self.weights


comparison = moelab.compare("recorded-default", ["lru", "lfu", "learned"], system="zipmoe-lru", traces=to_judge, seeds=1,
                            settings={"workload.requests": 9}, policies=[Learned])
for policy in comparison["budgets"][0]["policies"]:
    print(f"{policy['name']:8} finds {100 * policy['hit_share']:.1f} % of the experts, {1e6 * policy['tpot_s']:.0f} us a token")
