"""LFU: see policies/cache/lfu.cpp."""

import itertools

import moelab


class Lfu(moelab.CachePolicy):
    """the expert used least often leaves first; among equals the least recent"""

    name = "my-lfu"
    source = "classic"
    parameters = {"forget": moelab.Parameter(0, "1: an expert that leaves loses its count; 0: all keep theirs", 0, 1)}
    may_span_model = True

    def __init__(self, shape, forget):
        self.forget = forget
        self.count = [0] * shape.objects
        self.worth = {}  # of those in memory: (count, when they were touched)
        self.clock = itertools.count()

    def use(self, uses):
        for expert in uses["object"].tolist():
            self.count[expert] += 1
            self.admit(expert)

    def insert(self, expert):
        if expert not in self.worth:
            self.admit(expert)
        return expert in self.worth

    def admit(self, expert):
        if self.shape.places == 0:
            return
        if expert not in self.worth and len(self.worth) == self.shape.places:
            self.evict(min(self.worth, key=self.worth.__getitem__))
        self.worth[expert] = self.count[expert], next(self.clock)
        self.states[expert] = self.shape.kept_as

    def evict(self, victim):
        del self.worth[victim]
        self.states[victim] = moelab.State.M
        if self.forget:
            self.count[victim] = 0
