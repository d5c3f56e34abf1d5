"""ZipMoE's cache of pools by ranks: see policies/cache/zipmoe_cache.cpp."""

import itertools
from bisect import bisect_left, bisect_right, insort

import moelab
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
        self.place = [State.M] * shape.objects  # where each expert is, as in self.states
        self.pools = {pool: {} for pool in POOLS}  # of each: {expert: (uses, when it was last used)}
        self.last_use = itertools.count()
        self.slot_uses = [0] * shape.objects
        self.forget()

    def forget(self):
        self.frequency = [0] * self.shape.objects
        self.ascending = [0] * self.shape.objects  # the same, sorted

    def use(self, uses):
        experts = uses["object"].tolist()
        found = [self.place[expert] for expert in experts]  # what was read goes by it; a use may make another leave
        for expert, tokens, state in zip(experts, uses["tokens"].tolist(), found):
            weight = tokens if self.count_tokens else 1
            now, target = self.place[expert], self.destination(state, self.raised_rank(expert, weight))
            if target != now:
                self.leave(expert)
            if target == State.M:
                continue
            if target != now and self.is_full(target):
                pool = self.pools[target]
                self.leave(min(pool, key=pool.__getitem__))
            self.slot_uses[expert] = self.slot_uses[expert] + weight if target == now else 1
            self.enter(expert, target)

    def begin_request(self):
        if not self.reset:
            return
        self.forget()
        for pool in self.pools.values():
            pool.update({expert: (self.worth(expert), last_use) for expert, (_, last_use) in pool.items()})

    def insert(self, expert):
        if self.place[expert] == State.F:
            return True
        if self.is_full(State.F):
            return False
        self.leave(expert)
        self.slot_uses[expert] = 1
        self.enter(expert, State.F)
        return True

    def raised_rank(self, expert, weight):
        """How many experts are used more often, after its use."""
        frequency = self.frequency[expert]
        del self.ascending[bisect_left(self.ascending, frequency)]
        self.frequency[expert] = frequency + weight
        insort(self.ascending, frequency + weight)
        return len(self.ascending) - bisect_right(self.ascending, frequency + weight)

    def destination(self, found, rank):
        """Where an expert found in one state goes at its rank; M: nowhere."""
        target = State.M
        for pool in POOLS:
            if self.places[pool] > 0 and rank < self.limits[pool]:
                target = pool
                break
        if found == State.F and (self.spill or target in (State.C, State.E)):
            return State.F  # it was not read, so that its compressed exponents are not there
        if not self.spill:
            return target
        below, above = POOLS[target:], reversed(POOLS[:target])
        return next((pool for pool in (*below, *above) if not self.is_full(pool)), target)

    def is_full(self, pool):
        return len(self.pools[pool]) == self.places[pool]

    def worth(self, expert):
        return self.slot_uses[expert] if self.slot_counts else self.frequency[expert]

    def enter(self, expert, pool):
        self.pools[pool][expert] = self.worth(expert), next(self.last_use)
        self.states[expert] = self.place[expert] = pool

    def leave(self, expert):
        if self.place[expert] != State.M:
            del self.pools[self.place[expert]][expert]
            self.states[expert] = self.place[expert] = State.M
