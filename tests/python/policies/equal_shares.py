"""Pools of equal shares of memory: see policies/planning/fixed_plan.cpp. It expects no makespan."""

import moelab
from moelab import State


class EqualShares(moelab.PlanningPolicy):
    """the same share of memory for each pool that may be used"""

    name = "my-equal-shares"

    def plan(self, input):
        ratios = [pool / sum(input.pools) for pool in input.pools]
        capacity, left = [0] * len(State), len(input.inclusion)
        for state in (State.F, State.C, State.S, State.E):
            if input.pools[state]:
                capacity[state] = that_fit(ratios[state] * input.memory_bytes, bytes_in(state, input), left)
                left -= capacity[state]
        return moelab.Plan(ratios, capacity)


def bytes_in(state, input):
    """Of an expert: whole, or a byte a weight and plane, exponents compressed to `ratio` of theirs."""
    if state == State.F:
        return input.tensor_bytes * input.tensors
    plane = input.tensor_elements * input.tensors
    exponents = {State.C: input.ratio, State.S: 0, State.E: input.ratio}[state]
    return (plane if state != State.E else 0) + exponents * plane


def that_fit(memory, each, most):
    """The most experts whose bytes are not above the memory."""
    count = min(int(memory // each), most)
    while count < most and (count + 1) * each <= memory:
        count += 1
    while count * each > memory:
        count -= 1
    return count
