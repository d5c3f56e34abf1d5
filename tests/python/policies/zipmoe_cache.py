"""ZipMoE's cache of pools by ranks: see policies/cache/zipmoe_cache.cpp."""

import itertools

import moelab
import numpy as np
from moelab import Parameter, State

POOLS = (State.F, State.C, State.S, State.E)


class ZipmoeCache(moelab.CachePolicy):
    """pools of full, compressed, sign-mantissa and exponent parts by popularity rank"""

    name = "my-zipmoe"
    source = "ZipMoE, section 3.4"
    parameters = {
        "margin": Parameter(0.1, "ranks by which a pool's limit is widened, as a share of the experts", 0, 1),
        "count_tokens": Parameter(0, "1: frequencies count tokens; 0: they count steps", 0, 1),
        "spill": Parameter(0, "1: an expert whose pool is full takes a free place in another", 0, 1),
        "reset": Parameter(0, "1: frequencies start anew with every batch; 0: they are kept", 0, 1),
        "slot_counts": Parameter(0, "1: fewest uses since it came to its pool leaves; 0: the least frequent", 0, 1),
    }
    may_span_model = True
    uses_pools = True

    def __init__(self, shape, margin, count_tokens, spill, reset, slot_counts):
        self.count_tokens, self.spill, self.reset, self.slot_counts = count_tokens, spill, reset, slot_counts
        self.places = [int(shape.pool_experts[pool]) for pool in POOLS]
        needed = sum(places * shape.bytes[pool] for pool, places in zip(POOLS, self.places))
        if needed > shape.capacity_bytes * (1 + 1e-12):
            raise moelab.InputError(f"its pools need {needed} bytes, the cache has {shape.capacity_bytes}")
        self.limits = [places + margin * shape.objects for places in itertools.accumulate(self.places)]
        self.pools = [set() for _ in POOLS]
        self.frequency = np.zeros(shape.objects, int)
        self.slot_uses = np.zeros(shape.objects, int)
        self.last_use = np.zeros(shape.objects, int)
        self.clock = itertools.count(1)

    def use(self, uses):
        found = self.states[uses["object"]].tolist()  # what was read goes by it; a use may make another expert leave
        for expert, tokens, state in zip(uses["object"].tolist(), uses["tokens"].tolist(), found):
            weight = tokens if self.count_tokens else 1
            self.frequency[expert] += weight
            target = self.destination(State(state), np.count_nonzero(self.frequency > self.frequency[expert]))
            if target == self.states[expert] != State.M:
                self.slot_uses[expert] += weight
                self.last_use[expert] = next(self.clock)
                continue
            self.leave(expert)
            if target == State.M:
                continue
            if self.is_full(target):
                self.leave(min(self.pools[target], key=self.worth))
            self.slot_uses[expert] = 1
            self.enter(expert, target)

    def begin_request(self):
        if self.reset:
            self.frequency[:] = 0

    def insert(self, expert):
        if self.states[expert] == State.F:
            return True
        if self.is_full(State.F):
            return False
        self.leave(expert)
        self.slot_uses[expert] = 1
        self.enter(expert, State.F)
        return True

    def is_full(self, pool):
        return len(self.pools[pool]) == self.places[pool]

    def worth(self, expert):
        uses = self.slot_uses if self.slot_counts else self.frequency
        return uses[expert], self.last_use[expert]

    def destination(self, found, rank):
        """Where an expert found in one state goes at its rank; M: nowhere."""
        target = next((pool for pool in POOLS if self.places[pool] > 0 and rank < self.limits[pool]), State.M)
        if found == State.F and (self.spill or target in (State.C, State.E)):
            return State.F  # it was not read, so that its compressed exponents are not there
        if not self.spill:
            return target
        below, above = POOLS[target:], reversed(POOLS[:target])
        return next((pool for pool in (*below, *above) if not self.is_full(pool)), target)

    def enter(self, expert, pool):
        self.pools[pool].add(expert)
        self.states[expert] = pool
        self.last_use[expert] = next(self.clock)

    def leave(self, expert):
        if self.states[expert] != State.M:
            self.pools[self.states[expert]].remove(expert)
            self.states[expert] = State.M
