"""The most work left first: see policies/schedule/longest_first.cpp."""

import moelab
from moelab import SM_CHUNK, State


class LongestFirst(moelab.SchedulePolicy):
    """tasks with the most time left to spend on them first"""

    name = "my-longest"
    source = "Graham 1969 (LPT)"

    def order(self, layer):
        experts, first = [], 0
        for place, expert in enumerate(layer.experts.tolist()):
            _, tensors, state, execute_s = expert
            needed = needs(layer, State(state))
            experts.append((-(work(layer, needed) + execute_s), place, range(first, first + tensors), needed))
            first += tensors
        experts.sort(key=lambda e: e[:2])
        reads = [(task, chunk) for _, _, tasks, (_, chunks, sm_read) in experts for task in tasks
                 for chunk in [*range(chunks), *([SM_CHUNK] if sm_read else [])]]
        return moelab.LayerOrder(reads, [task for _, _, tasks, _ in experts for task in tasks],
                                 [place for _, place, _, _ in experts])


def needs(layer, state):
    """Of a tensor: chunks to decompress, chunks of exponents to read, whether to read its signs and mantissas."""
    return (0 if state == State.F else layer.shards,
            0 if state in (State.F, State.C, State.E) else layer.shards,
            state in (State.E, State.M))


def work(layer, needed):
    decompressions, chunks, sm_read = needed
    read_s = (layer.sm_read_s if sm_read else 0) + chunks * layer.e_read_s
    return read_s + decompressions * layer.decompress_s + (layer.recover_s if decompressions > 0 else 0)
