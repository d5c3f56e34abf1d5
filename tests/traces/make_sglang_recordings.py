#!/usr/bin/env python3
"""Writes data/sglang_*.pt: small recordings in the form of SGLang's expert distribution recorder.

Python's own pickle and zipfile write them, with stand-ins under the names that torch.save puts into a file
(torch._utils._rebuild_tensor_v2, torch.IntStorage, ...), so that the test needs no PyTorch. What is in them is
written again, by itself, in import_engines_test.cpp.
usage: make_sglang_recordings.py FOLDER
"""
import collections, io, pickle, struct, sys, types, zipfile

torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
for name in ("IntStorage", "LongStorage"):
    storage = type(name, (), {"__module__": "torch"})
    setattr(torch, name, storage)


def _rebuild_tensor_v2(*args):
    raise NotImplementedError


_rebuild_tensor_v2.__module__ = "torch._utils"
utils._rebuild_tensor_v2 = _rebuild_tensor_v2


class Storage:
    def __init__(self, kind, values):
        self.kind, self.values = kind, values


class Tensor:
    def __init__(self, kind, shape, values):
        self.storage, self.shape = Storage(kind, values), shape

    def __reduce__(self):
        stride, strides = 1, []
        for size in reversed(self.shape):
            strides.insert(0, stride)
            stride *= size
        return utils._rebuild_tensor_v2, (self.storage, 0, tuple(self.shape), tuple(strides), False, collections.OrderedDict())


def save(path, value, compression):
    data, storages = io.BytesIO(), []

    class Pickler(pickle.Pickler):
        def persistent_id(self, what):
            if not isinstance(what, Storage):
                return None
            storages.append(what)
            return ("storage", getattr(torch, what.kind), str(len(storages) - 1), "cpu", len(what.values))

    Pickler(data, 2).dump(value)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", data.getvalue())
        archive.writestr("archive/byteorder", "little")
        for i, storage in enumerate(storages):
            code = {"IntStorage": "i", "LongStorage": "q"}[storage.kind]
            archive.writestr(f"archive/data/{i}", struct.pack(f"<{len(storage.values)}{code}", *storage.values))


def record(number, mode, positions, lengths, rows):
    """rows: [layer][token][k]; the recorder pads k to 8 with -1, and layer 0 is dense: -1 throughout."""
    padded = [[[-1] * 8 for _ in positions]] + [[token + [-1] * (8 - len(token)) for token in layer] for layer in rows]
    flat = [i for layer in padded for token in layer for i in token]
    return dict(forward_pass_id=number, rank=0, gatherer_key="primary", input_ids=[70000 + p for p in positions],
                positions=positions, extend_seq_lens=lengths, forward_mode=mode,
                topk_ids_of_layer=Tensor("IntStorage", [3, len(positions), 8], flat), misc_objects=[])


folder = sys.argv[1]
# Physical to logical experts, [layers][4 physical experts]; layer 2 has two of them swapped.
mapping = Tensor("LongStorage", [3, 4], [0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 2, 3])
tokens = [
    record(0, 1, [0, 1], [2], [[[1, 2], [0, 3]], [[0, 1], [2, 0]]]),  # a prompt in two passes
    record(1, 1, [2], [1], [[[3, 1]], [[3, 2]]]),
    record(2, 2, [3], None, [[[2, 0]], [[1, 3]]]),                     # decodes
    record(3, 1, [0], [1], [[[1, 0]], [[0, 2]]]),                      # the next request
]
save(f"{folder}/sglang_per_token.pt", dict(records=tokens, last_physical_to_logical_map=mapping), zipfile.ZIP_STORED)
batch = [record(0, 2, [5, 9], None, [[[1, 2], [0, 3]], [[0, 1], [2, 0]]])]
save(f"{folder}/sglang_batch.pt", dict(records=batch, last_physical_to_logical_map=mapping), zipfile.ZIP_STORED)
counts = lambda a: Tensor("IntStorage", [3, 4], a)
passes = [dict(forward_pass_id=0, rank=0, gatherer_key="primary", global_physical_count=counts([0] * 4 + [5, 6, 7, 8] + [1, 2, 3, 4])),
          dict(forward_pass_id=1, rank=0, gatherer_key="primary", global_physical_count=counts([0] * 4 + [1, 0, 0, 0] + [0, 9, 0, 0]))]
save(f"{folder}/sglang_per_pass.pt", dict(records=passes, last_physical_to_logical_map=mapping), zipfile.ZIP_DEFLATED)
stat = dict(rank=0, logical_count=Tensor("LongStorage", [3, 1, 2], [3, 4, 0, 0, 5, 6]), average_utilization_rate_over_window=None, score=0.5)
save(f"{folder}/sglang_stat.pt", stat, zipfile.ZIP_STORED)
