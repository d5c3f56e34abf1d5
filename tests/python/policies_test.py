"""Policies written in Python: the same results as moelab's own, and what becomes of those that break a rule."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

from moelab import Parameter, Role, State
from policies.by_recency import ByRecency
from policies.equal_shares import EqualShares
from policies.experts_yield import ExpertsYield
from policies.fiddler import Fiddler
from policies.fixed_residency import FixedResidency
from policies.layer_window import LayerWindow
from policies.lfu import Lfu
from policies.longest_first import LongestFirst
from policies.lru import Lru
from policies.smoe_routing import SmoeRouting
from policies.static_batching import StaticBatching
from policies.uniform_placement import UniformPlacement
from policies.whole_layer import WholeLayer
from policies.zipmoe_cache import ZipmoeCache

SHORT = {"workload.requests": 2, "workload.output_tokens": 12}
TOGETHER = {"workload.requests": 6, "workload.batch": 3, "workload.output_tokens": 6}
ARRIVING = {**TOGETHER, "workload.arrivals_per_s": 0.1}
ARTIFACT = {"domain": "model", "margin": 1, "spill": 1, "count_tokens": 1, "reset": 1, "slot_counts": 1}


def of_cache(**settings):
    return {"overrides.system.cache." + key: value for key, value in settings.items()}


class Place:
    """Where a policy of a family is asked: a scenario, its system, and the path of the section that names the policy."""

    def __init__(self, scenario, system, section, settings=SHORT):
        self.scenario, self.system, self.settings = scenario, system, settings
        self.policy = f"overrides.system.{section}.policy"

    def run(self, policy, settings={}, **more):
        """With a name, or with a class."""
        given, classes = (policy, []) if isinstance(policy, str) else (policy.name, [policy])
        return moelab.run(self.scenario, system=self.system, policies=classes,
                          settings={**self.settings, self.policy: given, **settings}, **more)


CACHE = Place("zipmoe-orin", "zipmoe-lru", "cache")
POOLS = Place("zipmoe-orin", "zipmoe-unplanned", "cache")
ROUTING = Place("smoe-deepseek-3080ti", "smoe", "routing")
BATCHING = Place("zipmoe-orin", "zipmoe-lru", "batching", ARRIVING)
USERS = [{"tasks": {task: 1}, "requests": 5, "arrivals_per_s": 0.1}
         for task in ("abstract-narrative", "arithmetic", "ascii-word")]
PLACEMENT = Place("prism-deepseek-bigbench", "uniform", "placement", {"workload.servers": USERS})
PREFETCH = Place("zipmoe-orin", "deepspeed-zero3", "prefetch")
SCHEDULE = Place("zipmoe-orin", "zipmoe-fifo-order", "schedule")
EXECUTION = Place("smoe-deepseek-3080ti", "fiddler", "execution")
PLANNING = Place("zipmoe-orin", "zipmoe", "planning")
PRESSURE = Place("zipmoe-orin", "zipmoe-lru", "kv", ARRIVING)
PAGED = {"workload.requests": 16, "workload.batch": 8, "workload.output_tokens": 12}
STORAGE = Place("fluxmoe-qwen3-next", "fluxmoe-h", "paging.storage", PAGED)
RESIDENCY = Place("fluxmoe-qwen3-next", "fluxmoe-h", "paging.residency", PAGED)

SAME = [
    ("lru", Lru, CACHE, {}),
    ("lru", Lru, CACHE, of_cache(domain="model")),
    ("lru", Lru, CACHE, TOGETHER),
    ("lru", ByRecency, CACHE, {}),
    ("lfu", Lfu, CACHE, of_cache(forget=0)),
    ("lfu", Lfu, CACHE, of_cache(forget=1)),
    ("lfu", Lfu, CACHE, {**TOGETHER, **of_cache(domain="model", forget=1)}),
    ("zipmoe", ZipmoeCache, POOLS, {}),
    ("zipmoe", ZipmoeCache, POOLS, {**TOGETHER, **of_cache(margin=0, spill=1)}),
    ("zipmoe", ZipmoeCache, POOLS, {**TOGETHER, **of_cache(**ARTIFACT)}),
    ("smoe", SmoeRouting, ROUTING, {}),
    ("smoe", SmoeRouting, ROUTING, {"overrides.system.routing.alpha": 0.8, "workload.batch": 2}),
    ("smoe", SmoeRouting, ROUTING, {"overrides.system.routing.substitute": 0}),
    ("static", StaticBatching, BATCHING, {}),
    ("static", StaticBatching, BATCHING, {"workload.prompt_tokens": 1000}),  # above a micro-batch of 512
    ("uniform", UniformPlacement, PLACEMENT, {}),
    ("uniform", UniformPlacement, PLACEMENT, {"overrides.system.placement.copies": 2, "budget": "20 GB"}),
    ("layer-window", LayerWindow, PREFETCH, {}),
    ("layer-window", LayerWindow, PREFETCH, {"overrides.system.prefetch.depth": 2, "overrides.system.prefetch.wrap": 1}),
    ("longest-first", LongestFirst, SCHEDULE, TOGETHER),
    ("fiddler", Fiddler, EXECUTION, {"workload.batch": 2}),
    ("experts-yield", ExpertsYield, PRESSURE, {}),
    ("whole-layer", WholeLayer, STORAGE, {}),
    ("whole-layer", WholeLayer, STORAGE, {"overrides.system.paging.storage.offloaded": 0.3}),
    ("fixed", FixedResidency, RESIDENCY, {}),
]


def text_of(result, policy=None, shipped=""):
    """The result as JSON, where `policy` is a class as if the shipped policy had been named."""
    text = json.dumps(result)
    if policy is None:
        return text
    result = json.loads(text.replace(f'"{policy.name}"', f'"{shipped}"').replace(f'= {policy.name}"', f'= {shipped}"'))
    origin = f"Python class {policy.__module__}.{policy.__qualname__}"
    data = result["inputs"]["data"]
    assert [d["file"] for d in data].count(origin) == 1
    result["inputs"]["data"] = [d for d in data if d["file"] != origin]
    return json.dumps(result)


def check_same(shipped, policy, place, settings, **more):
    expected, found = place.run(shipped, settings, **more), place.run(policy, settings, **more)
    assert text_of(found, policy, shipped) == text_of(expected)


@pytest.mark.parametrize("shipped, policy, place, settings", SAME)
def test_a_policy_does_the_same_in_python(shipped, policy, place, settings):
    check_same(shipped, policy, place, settings)


def test_pools_are_planned_the_same_in_python():
    """What a plan says beside its pools, the makespan that it expects, decides nothing."""
    quarters = {"policy": "fixed", "ratios": {state: 0.25 for state in "FCSE"}}
    expected = moelab.run("zipmoe-orin", system="zipmoe", settings={**SHORT, "overrides.system.planning": quarters})
    found = PLANNING.run(EqualShares)
    for result in (expected, found):
        del result["plan"]["expected_makespan_s"], result["provenance"], result["inputs"]
    assert json.dumps(found) == json.dumps(expected)


@pytest.mark.parametrize("shipped, policy, place", [("lfu", Lfu, CACHE), ("smoe", SmoeRouting, ROUTING),
                                                    ("uniform", UniformPlacement, PLACEMENT)])
def test_a_policy_does_the_same_under_simgrid(shipped, policy, place):
    check_same(shipped, policy, place, {}, executor="simgrid")


FAMILY = {Lru: "lru", ByRecency: "lru", Lfu: "lfu", ZipmoeCache: "zipmoe", SmoeRouting: "smoe",
          StaticBatching: "static", UniformPlacement: "uniform", LayerWindow: "layer-window",
          LongestFirst: "longest-first", Fiddler: "fiddler", EqualShares: None, ExpertsYield: "experts-yield",
          WholeLayer: "whole-layer", FixedResidency: "fixed"}


@pytest.mark.parametrize("policy", FAMILY)
def test_a_policy_keeps_its_rules(policy, moelab_program):
    """It refuses as many of the instances as the shipped one."""
    found = moelab.check_policy(policy, instances=300)
    assert found["instances"] == 300
    if FAMILY[policy] is not None:
        shipped = subprocess.run([moelab_program, "check-policy", FAMILY[policy], "--family", policy.family, "--instances",
                                  "300", "--format", "json"], capture_output=True, check=True)
        assert found["refused"] == json.loads(shipped.stdout)[0]["refused"]
