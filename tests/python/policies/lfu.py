"""LFU: see policies/cache/lfu.cpp."""

import itertools

import moelab
import numpy as np


class Lfu(moelab.CachePolicy):
    """the expert used least often leaves first; among equals the least recent"""

    name = "my-lfu"
    source = "classic"
    parameters = {"forget": moelab.Parameter(0, "1: an expert that leaves loses its count; 0: all keep theirs", 0, 1)}
    may_span_model = True

    def __init__(self, shape, forget):
        self.forget = forget
        self.count = np.zeros(shape.objects, int)
        self.touched = {}  # of those in memory: when, by the clock
        self.clock = itertools.count()

    def use(self, uses):
        for expert in uses["object"].tolist():
            self.count[expert] += 1
            self.admit(expert)

    def insert(self, expert):
        if expert not in self.touched:
            self.admit(expert)
        return expert in self.touched

    def admit(self, expert):
        if self.shape.places == 0:
            return
        if expert not in self.touched and len(self.touched) == self.shape.places:
            self.evict(min(self.touched, key=lambda held: (self.count[held], self.touched[held])))
        self.touched[expert] = next(self.clock)
        self.states[expert] = self.shape.kept_as

    def evict(self, victim):
        del self.touched[victim]
        self.states[victim] = moelab.State.M
        if self.forget:
            self.count[victim] = 0
