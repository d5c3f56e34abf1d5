"""LRU: see policies/cache/lru.cpp."""

from collections import OrderedDict

import moelab


class Lru(moelab.CachePolicy):
    """the expert used least recently leaves first"""

    name = "my-lru"
    source = "classic"
    may_span_model = True

    def __init__(self, shape):
        self.held = OrderedDict()  # experts in memory, the least recent first

    def use(self, uses):
        for expert in uses["object"].tolist():
            if expert in self.held:
                self.held.move_to_end(expert)
            else:
                self.admit(expert)

    def insert(self, expert):
        if expert not in self.held:
            self.admit(expert)
        return expert in self.held

    def admit(self, expert):
        if self.shape.places == 0:
            return
        if len(self.held) == self.shape.places:
            oldest, _ = self.held.popitem(last=False)
            self.states[oldest] = moelab.State.M
        self.held[expert] = True
        self.states[expert] = self.shape.kept_as
