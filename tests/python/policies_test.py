"""Policies written in Python do the same as moelab's own."""

import json
import pathlib
import subprocess

import pytest

np = pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

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
from policy_places import (ARTIFACT, BATCHING, CACHE, EXECUTION, PLACEMENT, PLANNING, POOLS, PREFETCH, PRESSURE,
                           RESIDENCY, ROUTING, SCHEDULE, SHORT, STORAGE, TOGETHER, of_cache, text_of)


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
    ("uniform", UniformPlacement, PLACEMENT, {}),
    ("uniform", UniformPlacement, PLACEMENT, {"overrides.system.placement.copies": 2, "budget": "20 GB"}),
    ("layer-window", LayerWindow, PREFETCH, {}),
    ("layer-window", LayerWindow, PREFETCH,
     {"overrides.system.prefetch.depth": 2, "overrides.system.prefetch.wrap": 1}),
    ("longest-first", LongestFirst, SCHEDULE, TOGETHER),
    ("fiddler", Fiddler, EXECUTION, {"workload.batch": 2}),
    ("experts-yield", ExpertsYield, PRESSURE, {}),
    ("whole-layer", WholeLayer, STORAGE, {}),
    ("whole-layer", WholeLayer, STORAGE, {"overrides.system.paging.storage.offloaded": 0.3}),
    ("fixed", FixedResidency, RESIDENCY, {}),
]


def check_same(shipped, policy, place, settings, **more):
    expected, found = place.run(shipped, settings, **more), place.run(policy, settings, **more)
    assert text_of(found, policy, shipped) == text_of(expected)


@pytest.mark.parametrize("shipped, policy, place, settings", SAME)
def test_a_policy_does_the_same_in_python(shipped, policy, place, settings):
    check_same(shipped, policy, place, settings)


def test_a_policy_does_the_same_in_a_scenario_of_python(tiny):
    expected = moelab.run(tiny, system="lru")
    tiny["systems"][0]["cache"]["policy"] = "my-lru"
    assert moelab.run(tiny, system="lru", policies=Lru)["metrics"] == expected["metrics"]


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


SHIPPED = {Lru: "lru", ByRecency: "lru", Lfu: "lfu", ZipmoeCache: "zipmoe", SmoeRouting: "smoe",
          StaticBatching: "static", UniformPlacement: "uniform", LayerWindow: "layer-window",
          LongestFirst: "longest-first", Fiddler: "fiddler", EqualShares: None, ExpertsYield: "experts-yield",
          WholeLayer: "whole-layer", FixedResidency: "fixed"}


@pytest.mark.parametrize("policy", SHIPPED)
def test_a_policy_keeps_its_rules(policy, moelab_program):
    """It refuses as many of the instances as the shipped one."""
    found = moelab.check_policy(policy, instances=300)
    assert found["instances"] == 300
    if SHIPPED[policy] is not None:
        checked = [moelab_program, "check-policy", SHIPPED[policy], "--family", policy.family, "--instances", "300"]
        shipped = subprocess.run([*checked, "--format", "json"], capture_output=True, check=True)
        assert found["refused"] == json.loads(shipped.stdout)[0]["refused"]


class PartsSeen(StaticBatching):
    """says what its first request is made of"""

    name = "parts-seen"

    def arrive(self, request):
        raise moelab.InputError(f"is made of {request.parts}")


def test_a_batching_policy_is_told_what_prompts_have_in_common():
    alike = {"workload.shared_prefix": 64, "workload.conversations": "{turns: 2}", "workload.requests": 2}
    with pytest.raises(moelab.InputError, match=r"is made of \(TokenPart\(id=0, end=64\), TokenPart\(id=\d+, end=\d+\)\)"):
        BATCHING.run(PartsSeen, alike)
    with pytest.raises(moelab.InputError, match=r"is made of \(\)"):
        BATCHING.run(PartsSeen, {})


def test_the_package_has_the_classes_of_all_families():
    import ast

    files = [file for file in pathlib.Path(moelab.policies.__file__).parent.glob("*.py") if file.stem != "__init__"]
    defined = {file: ast.parse(file.read_text()).body for file in files}
    named = {c.name for body in defined.values() for c in body if isinstance(c, ast.ClassDef) and c.name[0] != "_"}
    assert {name for name in named if name.endswith("Policy")} - {"Policy"} == \
        {name for name in moelab.__all__ if name.endswith("Policy")}
    for name in named:  # moelab.policies has what its files have
        assert getattr(moelab.policies, name).__name__ == name
