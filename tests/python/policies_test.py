"""Policies written in Python: the same results as moelab's own, and what becomes of those that break a rule."""

import faulthandler
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
    """Where a policy of a family is asked: a scenario, its system, and the path of the section that names it."""

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
PRESSURE = Place("zipmoe-orin", "zipmoe-lru", "kv", {**ARRIVING, "overrides.system.batching.policy": "continuous"})
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


# ---- policies that are wrong

def broken(base, **members):
    """A subclass that differs in some methods."""
    return type("Broken", (base,), {"name": "broken", "__doc__": "breaks a rule", "__module__": __name__, **members})


def unfinished(base, like):
    """Of the family, with the parameters of another, and without the method that decides."""
    return broken(base, parameters=like.parameters, __init__=lambda self, *shape, **parameters: None)


def answers(base, method, answer):
    """With an answer of its own to one method; a function is asked for it with what the method is given."""
    return broken(base, **{method: answer if callable(answer) else lambda self, *given: answer})


def changes(base, method, change):
    """With what `change` makes of the base class's answer."""
    return broken(base, **{method: lambda self, *given: change(getattr(base, method)(self, *given))})


def raises(error):
    def method(self, *given, **parameters):
        raise error
    return method


def keep_all(self, uses):
    self.states[uses["object"]] = self.shape.kept_as


def keep_another(self, uses):
    unused = np.setdiff1d(np.arange(self.shape.objects), uses["object"])
    self.states[unused[:1]] = self.shape.kept_as


def recurse(self, *given):
    return recurse(self, *given)


def rebind(self, uses):
    self.states = np.zeros(len(self.states), np.uint8)


def set_state(state):
    def use(self, uses):
        self.states[:] = State.M
        self.states[uses["object"][:1]] = state
    return use


def write_uses(self, uses):
    uses["object"] = 0


def route_to(expert, role=None):
    def route(self, chosen, scores, resident, experts, roles):
        experts[:, 0] = expert if isinstance(expert, int) else expert(chosen)
        if role is not None:
            roles[:, 0] = role
    return route


def same_twice(self, chosen, scores, resident, experts, roles):
    experts[:, 1] = chosen[:, 0]


def move_to_gpu(self, state, shape, split):
    split[:] = 0
    split[:, 0] = shape.experts


def move_nothing_well(self, state, shape, split):
    split[0, 0] += 1


def everywhere(self, shape, counts):
    gpus = sum(len(server.gpu_bytes) for server in shape.servers)
    return np.ones((gpus, shape.layers, shape.experts), bool)


def placed(value):
    return lambda self, shape, counts: np.full_like(everywhere(self, shape, counts), value, dtype=type(value))


def shares_with(**changed):
    return lambda step: step_with(shares=[share._replace(**changed) for share in step.shares])(step)


def step_with(**changed):
    return lambda step: moelab.BatchStep(**{**vars(step), **changed})


def plan_with(**changed):
    return lambda plan: plan._replace(**changed)


class Opaque:
    def __repr__(self):
        raise ValueError("no text")


class Wordless(Exception):
    def __str__(self):
        raise ValueError("no text")


BROKEN = [
    # the cache
    (CACHE, broken(Lru, use=keep_all), r"step 1 of layer 0: holds .* GB, its memory is"),
    (CACHE, broken(Lru, use=keep_another),
     r"step \d+ of layer \d+: holds expert \d+ in F, which was neither used nor prefetched"),
    (CACHE, broken(Lru, use=set_state(200)),
     r"step 1 of layer 0: says of expert \d+ that it is in state number 200, there are 5"),
    (CACHE, broken(Lru, use=set_state(State.E)),
     r"step 1 of layer 0: keeps expert \d+ in E, it is to keep experts in F"),
    (CACHE, broken(Lru, use=raises(ZeroDivisionError("by nothing"))),
     r"step 1 of layer 0: throws: ZeroDivisionError: by nothing \(policies_test.py:\d+, in method\)"),
    (CACHE, broken(Lru, use=raises(moelab.InputError("no"))), "step 1 of layer 0: throws: no"),
    (CACHE, broken(Lru, use=raises(KeyboardInterrupt())), "step 1 of layer 0: throws: KeyboardInterrupt"),
    (CACHE, broken(Lru, use=raises(SystemExit(0))), "step 1 of layer 0: throws: SystemExit"),
    (CACHE, broken(Lru, use=raises(Wordless())), "step 1 of layer 0: throws: Wordless: an object of Wordless"),
    (CACHE, broken(Lru, use=raises(ValueError("half \ud800"))), r"step 1 of layer 0: throws: ValueError: half \? \("),
    (CACHE, broken(Lru, use=recurse), r"step 1 of layer 0: throws: RecursionError: .*policies_test.py:\d+, in recurse"),
    (CACHE, broken(Lru, use=rebind), "step 1 of layer 0: throws: AttributeError: .*policies_test.py"),
    (CACHE, broken(Lru, use=write_uses), "step 1 of layer 0: throws: ValueError: .*read-only"),
    (CACHE, broken(Lru, use=lambda self: None), "step 1 of layer 0: throws: TypeError"),
    (CACHE, broken(Lru, use=None), "throws: TypeError: 'NoneType' object is not callable"),
    (CACHE, unfinished(moelab.CachePolicy, Lru), "NotImplementedError: a cache policy has a method use"),
    (CACHE, broken(Lru, begin_step=raises(OSError("gone"))), "step 1 of layer 0: throws: OSError: gone"),
    (CACHE, broken(Lru, begin_request=raises(OSError("gone"))), "throws: OSError: gone"),
    (CACHE, broken(Lru, __init__=raises(ValueError("bad start"))), "throws: ValueError: bad start"),
    (CACHE, broken(Lru, __init__=lambda self: None), "throws: TypeError"),
    (CACHE, broken(Lru, states=np.zeros(3, np.uint8)),
     "has put something else in the place of its states, an array of 64 uint8"),
    (CACHE, broken(Lru, states="MMM"), "has put something else in the place of its states"),
    (CACHE, broken(ByRecency, priorities=lambda self, features: features[:, 0] * np.nan),
     "step 1 of layer 0: .*is not a number"),
    (CACHE, broken(ByRecency, priorities=lambda self, features: features),
     r"step 1 of layer 0: answers to priorities\(\) with an array of shape \(64, 13\), expected \(64\)"),
    (CACHE, broken(ByRecency, priorities=lambda self, features: ["high"] * len(features)),
     r"answers to priorities\(\) with an array of <U4, expected numbers"),
    (CACHE, answers(ByRecency, "priorities", None), r"answers to priorities\(\) with an array of shape \(\)"),
    (CACHE, unfinished(moelab.PriorityCachePolicy, Lru), "a priority cache policy has a method priorities"),
    # the prefetch
    (PREFETCH, answers(LayerWindow, "after_gate", [(1, 9999)]), "step 1 of layer 0: wishes expert 9999 of layer 1"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(99, 1)]), "wishes expert 1 of layer 99, there are 26 layers"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(-1, 1)]), "with -1, expected numbers from 0 to 4294967295"),
    (PREFETCH, answers(LayerWindow, "after_gate", [1, 2, 3]), r"an array of shape \(3\,\), expected \(any, 2\)"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(1, 2), (3,)]), "what is no array, expected whole numbers"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(1.5, 2)]), "an array of float64, expected whole numbers"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(1, float("nan"))]), "an array of float64, expected whole"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(2**40, 1)]), "with 1099511627776, expected numbers from 0"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(2**63, 1)]), "expected"),
    (PREFETCH, answers(LayerWindow, "after_gate", [(2**80, 1)]), "expected whole numbers"),
    (PREFETCH, answers(LayerWindow, "after_gate", None), r"answers to after_gate\(\) with"),
    (PREFETCH, answers(LayerWindow, "after_gate", "everything"), r"answers to after_gate\(\) with"),
    (PREFETCH, unfinished(moelab.PrefetchPolicy, LayerWindow), "a prefetch policy has a method after_gate"),
    (PREFETCH, broken(LayerWindow, gates_ahead="two"), r"answers to gates_ahead\(\) with 'two', expected a whole"),
    (PREFETCH, broken(LayerWindow, gates_ahead=-1), "expected a whole number from 0 on"),
    # the routing
    (ROUTING, broken(SmoeRouting, route=route_to(60000)), "step 1: token 0: gets expert 60000, there are 64"),
    (ROUTING, broken(SmoeRouting, route=same_twice), r"token 0: gets expert \d+ twice"),
    (ROUTING, broken(SmoeRouting, route=route_to(lambda chosen: (chosen.max(axis=1) + 1) % 64)),
     "and is not called a substitute"),
    (ROUTING, broken(SmoeRouting, route=route_to(lambda chosen: chosen[:, 0], Role.SUBSTITUTE)),
     "is called a substitute, and is the model's own choice"),
    (ROUTING, broken(SmoeRouting, route=route_to(lambda chosen: chosen[:, 0], 7)), "has role number 7"),
    (ROUTING, unfinished(moelab.RoutingPolicy, SmoeRouting), "a routing policy has a method route"),
    # the execution
    (EXECUTION, changes(Fiddler, "plan", lambda plan: (plan[0][1:], plan[1][1:])),
     "neither loads the missing expert at"),
    (EXECUTION, changes(Fiddler, "plan", lambda plan: ([99], plan[1])), "loads the missing expert at position 99"),
    (EXECUTION, changes(Fiddler, "plan", lambda plan: (plan[0], [*plan[1], *plan[1]])), "listed before"),
    (EXECUTION, broken(Fiddler, needs_cpu=False, plan=lambda self, missing, costs: ([], range(len(missing)))),
     "gives experts to the CPU, and its entry does not say needs_cpu"),
    (EXECUTION, answers(Fiddler, "plan", None), r"answers to plan\(\) with None, expected \(loads, cpu\)"),
    (EXECUTION, answers(Fiddler, "plan", ([], None)), r"answers to plan\(\) with an array of shape \(\)"),
    (EXECUTION, answers(Fiddler, "plan", ([float("nan")], [])), "an array of float64, expected whole numbers"),
    (EXECUTION, answers(Fiddler, "plan", Opaque()), "an object of Opaque, expected"),
    (EXECUTION, unfinished(moelab.ExecutionPolicy, Fiddler), "an execution policy has a method plan"),
    (EXECUTION, broken(Fiddler, observe_load=raises(OSError("gone"))), "throws: OSError: gone"),
    # the schedule
    (SCHEDULE, changes(LongestFirst, "order", lambda order: order._replace(reads=order.reads[1:])),
     r"step 1.*: lists \d+ reads? of the \d+ that the layer needs"),
    (SCHEDULE, changes(LongestFirst, "order", lambda order: order._replace(tasks=[0, *order.tasks])),
     "lists task 0 twice"),
    (SCHEDULE, changes(LongestFirst, "order", lambda order: order._replace(experts=[99])), "lists expert 99"),
    (SCHEDULE, changes(LongestFirst, "order", lambda order: order._replace(reads=[(0, 77)])), "which there is not"),
    (SCHEDULE, changes(LongestFirst, "order", lambda order: order[:2]), "which has no 'reads'"),
    (SCHEDULE, answers(LongestFirst, "order", None), r"answers to order\(\) with None, which has no 'reads'"),
    (SCHEDULE, unfinished(moelab.SchedulePolicy, LongestFirst), "a schedule policy has a method order"),
    # the batching
    (BATCHING, answers(StaticBatching, "form", None), "says that nothing can run, though each request"),
    (BATCHING, changes(StaticBatching, "form", shares_with(request=77)), "step 2: runs request 77, which is not there"),
    (BATCHING, changes(StaticBatching, "form", shares_with(tokens=5)),
     "step 2: has request 0 produce a token before all others are"),
    (BATCHING, changes(StaticBatching, "form", shares_with(tokens=-1)), "step 2: answers to form.. with -1"),
    (BATCHING, changes(StaticBatching, "form", shares_with(tokens=2**40)),
     "step 2: answers to form.. with a number of"),
    (BATCHING, changes(StaticBatching, "form", shares_with(context=3)), "after 3 tokens in its cache, it has 0"),
    (BATCHING, changes(StaticBatching, "form", step_with(admitted=[])), "runs request 0, which waits"),
    (BATCHING, changes(StaticBatching, "form", step_with(swapped_out=[0])), "step 1: "),
    (BATCHING, changes(StaticBatching, "form", step_with(finished=[0])), "gets its last token, and it does not"),
    (BATCHING, changes(StaticBatching, "form", step_with(recomputed=7)), "computes 7 tokens again, it does 0"),
    (BATCHING, changes(StaticBatching, "form", step_with(shares=None)), "step 1: throws: TypeError"),
    (BATCHING, changes(StaticBatching, "form", step_with(shares=[(0, 1)])), r"\(0, 1\), which has no 'request'"),
    (BATCHING, answers(StaticBatching, "form", 7), "answers to form.. with 7, which has no 'shares'"),
    (BATCHING, answers(StaticBatching, "misfit", 3), "answers to misfit.. with what is no text"),
    (BATCHING, answers(StaticBatching, "complete", None),
     "step 3: runs request 0 after 0 tokens in its cache, it has 128"),
    (BATCHING, changes(StaticBatching, "kv_use", lambda use: use._replace(running=9)), "says that 9 requests run"),
    (BATCHING, changes(StaticBatching, "kv_use", lambda use: use._replace(gpu_blocks=10**9)), "blocks of the GPU"),
    (BATCHING, changes(StaticBatching, "kv_use", lambda use: use._replace(waiting=None)),
     "answers to kv_use.. with None"),
    (BATCHING, answers(StaticBatching, "kv_use", None), "answers to kv_use.. with None, which has no 'gpu_blocks'"),
    (BATCHING, unfinished(moelab.BatchingPolicy, StaticBatching), "a batching policy has a method"),
    # the pressure
    (PRESSURE, answers(ExpertsYield, "requests", 0), "room for 0 requests, expected 1 to 3"),
    (PRESSURE, answers(ExpertsYield, "requests", 4), "room for 4 requests, expected 1 to 3"),
    (PRESSURE, answers(ExpertsYield, "requests", -1), "answers to requests.. with -1, expected a whole number from 0"),
    (PRESSURE, answers(ExpertsYield, "requests", 1.5), "answers to requests.. with 1.5, expected a whole number"),
    (PRESSURE, answers(ExpertsYield, "requests", float("nan")), "answers to requests.. with nan"),
    (PRESSURE, answers(ExpertsYield, "requests", "many"), "answers to requests.. with 'many'"),
    (PRESSURE, unfinished(moelab.PressurePolicy, ExpertsYield), "a pressure policy has a method requests"),
    # the planning
    (PLANNING, changes(EqualShares, "plan", plan_with(ratios=[1, 1, 0, 0, 0])), "add up to 2.0+, expected 1"),
    (PLANNING, changes(EqualShares, "plan", plan_with(ratios=[float("nan")] * 5)), "a share of -?nan of the memory"),
    (PLANNING, changes(EqualShares, "plan", plan_with(ratios=[1])), r"an array of shape \(1,\), expected \(5\)"),
    (PLANNING, changes(EqualShares, "plan", plan_with(capacity=[64, 0, 0, 0, 0])),
     "plans pools of .* GB, the memory is"),
    (PLANNING, changes(EqualShares, "plan", plan_with(capacity=[65, 0, 0, 0, 0])), "plans places for 65 experts"),
    (PLANNING, changes(EqualShares, "plan", plan_with(capacity=[-1, 0, 0, 0, 0])), "with -1, expected numbers from 0"),
    (PLANNING, changes(EqualShares, "plan", plan_with(expected_makespan_s=float("inf"))), "a makespan of inf s"),
    (PLANNING, answers(EqualShares, "plan", None), "answers to plan.. with None, which has no 'ratios'"),
    (PLANNING, unfinished(moelab.PlanningPolicy, EqualShares), "a planning policy has a method plan"),
    # the storage
    (STORAGE, changes(WholeLayer, "split", lambda split: split[1:]),
     r"an array of shape \(47, 2\), expected \(48, 2\)"),
    (STORAGE, changes(WholeLayer, "split", lambda split: split * 0), "does not put the 512 experts of layer 0"),
    (STORAGE, changes(WholeLayer, "split", lambda split: -split), "backend '.*' gets -512 where 512 are left"),
    (STORAGE, changes(WholeLayer, "split", lambda split: split.astype(float)), "an array of float64, expected whole"),
    (STORAGE, answers(WholeLayer, "split", None), r"answers to split\(\) with an array of shape \(\)"),
    (STORAGE, unfinished(moelab.StoragePolicy, WholeLayer), "a storage policy has a method split"),
    # the residency
    (RESIDENCY, broken(FixedResidency, adjust=move_nothing_well), "step 1: does not put the 512 experts of layer 0"),
    (RESIDENCY, answers(FixedResidency, "adjust", raises(OSError("gone"))), "step 1: throws: OSError: gone"),
    (RESIDENCY, unfinished(moelab.ResidencyPolicy, FixedResidency), "a residency policy has a method adjust"),
    # the placement
    (PLACEMENT, broken(UniformPlacement, place=placed(False)),
     "puts expert 0 of layer 0 on 0 servers, it is to be on 1"),
    (PLACEMENT, broken(UniformPlacement, place=everywhere), r"puts 1664 experts \(.* GB\) on GPU 0, which has"),
    (PLACEMENT, broken(UniformPlacement, place=placed(2)), "answers to place.. with 2, expected True or False"),
    (PLACEMENT, broken(UniformPlacement, place=placed(float("nan"))), "an array of float64, expected whole"),
    (PLACEMENT, changes(UniformPlacement, "place", lambda held: held[0]), "an array of shape"),
    (PLACEMENT, answers(UniformPlacement, "place", None), "answers to place.. with an array of shape"),
    (PLACEMENT, unfinished(moelab.PlacementPolicy, UniformPlacement), "a placement policy has a method place"),
]


@pytest.mark.parametrize("place, policy, rule", BROKEN)
def test_a_broken_policy_ends_the_run_with_its_rule(place, policy, rule):
    with pytest.raises(moelab.InputError, match=rule) as caught:
        place.run(policy)
    assert "policy 'broken' (Python class policies_test.Broken)" in str(caught.value)
    assert len(caught.value.problems) == 1


class Guess(moelab.CachePolicy):
    """answers by chance"""

    name = "guess"

    def use(self, uses):
        used = uses["object"]
        self.states[:] = State.M
        if self.shape.places > 0 and len(used) > 0 and random.random() < 0.5:
            self.states[used[0]] = self.shape.kept_as


UNFIT = [
    (Guess, r"instance \d+: answers otherwise when it is asked the same again"),
    (broken(Lru, insert=lambda self, expert: True),
     r"instance \d+: .*says that it took expert \d+, and does not hold it"),
    (broken(Lru, use=keep_all), r"instance \d+: .*its memory is"),
    (broken(Lru, use=raises(ZeroDivisionError("by nothing"))),
     r"instance \d+: .*step 1.*ZeroDivisionError: by nothing"),
    (broken(Lru, __init__=raises(moelab.InputError("not today"))),
     "it refuses every instance, the last one so: not today"),
    (broken(FixedResidency, adjust=move_to_gpu),
     "moves experts to the GPU until they take .*, the KV cache leaves them"),
    (broken(Lru, preloads=True), "which was neither used nor prefetched"),
]


@pytest.mark.parametrize("policy, rule", UNFIT)
def test_a_check_finds_what_is_broken(policy, rule):
    with pytest.raises(moelab.InputError, match=rule):
        moelab.check_policy(policy, instances=300)


@pytest.mark.parametrize("call, fragment", [
    (lambda: moelab.check_policy("lru"), "expected a class, got str"),
    (lambda: moelab.check_policy(int), "expected subclasses of moelab.CachePolicy and the like, got <class 'int'>"),
    (lambda: moelab.check_policy(Lru, instances=0), "expected 1 to"),
    (lambda: moelab.check_policy(Lru, seed=-1), "expected 1 to"),
    (lambda: moelab.check_policy(Lru, instances=2.5), "float"),
])
def test_a_check_says_what_it_takes(call, fragment):
    with pytest.raises(moelab.InputError, match=fragment):
        call()


def test_a_refusal_is_told_as_it_is():
    def refuse(self, shape):
        raise moelab.InputError(f"wants more than {shape.objects} experts")

    with pytest.raises(moelab.InputError, match="wants more than 64 experts") as caught:
        CACHE.run(broken(Lru, __init__=refuse))
    assert "throws" not in str(caught.value) and len(caught.value.problems) == 1


def undocumented():
    class Undocumented(Lru):
        name = "undocumented"
    return Undocumented


def with_parameters(**parameters):
    return broken(Lru, parameters=parameters, __init__=lambda self, shape, **values: Lru.__init__(self, shape))


@pytest.mark.parametrize("policies, fragment", [
    (7, "expected classes, got int: 7"),
    ([7], "expected subclasses of moelab.CachePolicy and the like, got 7"),
    ([Opaque()], "an object of Opaque"),
    ([undocumented()], "Undocumented: has no docstring: its first line says what the policy does"),
    ([type("Nameless", (moelab.CachePolicy,), {"__doc__": "has no name"})],
     "Nameless: has no name: expected a class attr"),
    ([broken(Lru, name=7)], "has no name: expected a class attribute"),
    ([moelab.policies.Policy], "is of no family: subclass moelab.CachePolicy or the like"),
    ([broken(Lru, family="catch")], "has a family of its own, 'catch': subclass"),
    ([broken(Lru, name="My LRU")], "'My LRU' of family cache has no name of small letters"),
    ([broken(Lru, name="")], "has no name of small letters"),
    ([broken(Lru, name="lru")],
     "policy 'lru' of family cache is there already, as one of moelab's own: give it another"),
    ([Lru, broken(Lfu, name="my-lru")], "policy 'my-lru' of family cache is there already, from Python class"),
    ([Lru, Lru], "policy 'my-lru' of family cache is there already"),
    ([with_parameters(policy=Parameter(1, "taken"))],
     "a parameter 'policy' that has the name of another key of systems"),
    ([with_parameters(depth=Parameter(5, "too high", 0, 1))], "'depth' that has a default outside its range"),
    ([with_parameters(depth=Parameter(1, ""))], "'depth' that has no help"),
    ([with_parameters(Depth=Parameter(1, "a number"))], "that has no name of small letters"),
    ([with_parameters(depth=Parameter("1 layer", "a number"))], "parameter 'depth': expected numbers, got Parameter"),
    ([with_parameters(depth=1)], "expected parameters = .*, got 'depth': 1"),
    ([broken(Lru, parameters=["depth"])], "expected parameters = "),
    ([broken(EqualShares, parameters={"a": Parameter(1, "a number")})], "policies of family planning have none"),
])
def test_a_class_that_is_no_policy_is_refused(policies, fragment):
    with pytest.raises(moelab.InputError, match=fragment):
        moelab.run("zipmoe-orin", system="zipmoe-lru", policies=policies, settings=SHORT)


@pytest.mark.parametrize("settings, fragment", [
    (of_cache(forget=2), "forget"),
    (of_cache(forget=0.5), "forget.*whole"),
    (of_cache(forgets=1), "forgets"),
    (of_cache(policy="my-lfo"), "did you mean 'my-lfu'"),
])
def test_parameters_that_do_not_fit_are_refused(settings, fragment):
    with pytest.raises(moelab.InputError, match=fragment):
        CACHE.run(Lfu, settings)


class Tells(Lru):
    """refuses, with its parameters"""

    name = "tells"
    parameters = {"depth-first": Parameter(3, "whole", 0, 9), "part": Parameter(0.5, "not whole", 0, 1)}

    def __init__(self, shape, depth_first, part):
        raise moelab.InputError(f"{depth_first!r} and {part!r}")


def test_parameters_come_as_they_were_set():
    with pytest.raises(moelab.InputError, match="3 and 0.5"):
        CACHE.run(Tells)
    with pytest.raises(moelab.InputError, match="7 and 0.25"):
        CACHE.run(Tells, of_cache(**{"depth-first": 7, "part": 0.25}))


@pytest.mark.parametrize("number", [-3, 0, 2**40])
def test_a_whole_parameter_is_any_whole_number(number):
    def refuse(self, shape, number):
        raise moelab.InputError(f"was given {number!r} of {type(number).__name__}")

    policy = broken(Lru, parameters={"number": Parameter(number, "any")}, __init__=refuse)
    with pytest.raises(moelab.InputError, match=f"was given {number} of int"):
        CACHE.run(policy)
    with pytest.raises(moelab.InputError, match="was given -7 of int"):
        CACHE.run(policy, of_cache(number=-7))


def test_policies_do_not_go_to_a_cluster(tmp_path):
    with pytest.raises(moelab.InputError, match="which the workers of a cluster do not have"):
        moelab.sweep("orin-budgets", tmp_path / "r.db", cluster="tcp://127.0.0.1:1", policies=[Lru])


def test_nothing_of_a_call_is_left_for_the_next():
    expected = CACHE.run("lru")
    CACHE.run(Lru)
    with pytest.raises(moelab.InputError, match="my-lru"):
        CACHE.run("my-lru")
    with pytest.raises(moelab.InputError):
        CACHE.run(broken(Lru, use=keep_all))
    assert CACHE.run("lru") == expected
    assert text_of(CACHE.run(Lru), Lru, "lru") == text_of(expected)


def abort():
    faulthandler.disable()  # pytest's would tell of it at length
    os.abort()


@pytest.mark.parametrize("end, told", [
    (lambda: os._exit(0), "without an answer"), (lambda: os._exit(3), "without an answer"), (abort, "by signal 6"),
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "by signal 9")])
def test_a_policy_that_ends_its_process_does_not_end_the_callers(end, told):
    policy = broken(Lru, use=lambda self, uses: end())
    rule = "Python class policies_test.Broken: its policies ended the run: the simulation's process .*" + told
    for call in (lambda: CACHE.run(policy), lambda: CACHE.run(policy, executor="simgrid"),
                 lambda: moelab.check_policy(policy, instances=5)):
        with pytest.raises(moelab.InputError, match=rule):
            call()


class KeepsViews(Lru):
    """reads what it was given later, too"""

    name = "keeps-views"

    def __init__(self, shape):
        super().__init__(shape)
        self.views, self.total = [], 0

    def use(self, uses):
        self.views.append(uses)
        self.total += sum(int(view["object"].sum()) for view in self.views[-20:])
        super().use(uses)


def test_a_view_that_is_kept_does_no_harm():
    assert text_of(CACHE.run(KeepsViews, TOGETHER), KeepsViews, "lru") == text_of(CACHE.run("lru", TOGETHER))


class Looks(Lru):
    """looks at what it is given"""

    name = "looks"
    memory = None  # that the uses lie in

    def use(self, uses):
        assert uses.dtype == moelab.policies.USE and not uses.flags.writeable
        assert self.memory is None or uses.base is self.memory or len(uses) > len(self.memory)
        assert self.states.flags.writeable and self.states is self.states
        assert (np.diff(uses["object"].astype(int)) > 0).all() and (uses["tokens"] > 0).all()
        self.memory = uses.base
        super().use(uses)


def test_a_policy_is_given_views_of_the_same_memory():
    assert text_of(CACHE.run(Looks, TOGETHER), Looks, "lru") == text_of(CACHE.run("lru", TOGETHER))


class Tires(Lru):
    """raises at its fifth step"""

    name = "tires"
    steps = 0

    def begin_step(self, step):
        self.steps += 1
        if self.steps == 5:
            raise RuntimeError("five are enough")


@pytest.mark.parametrize("executor", ["fast", "simgrid"])
def test_an_exception_comes_with_its_step(executor):
    with pytest.raises(moelab.InputError, match="policy 'tires' .*, step 5 of layer 0: throws: RuntimeError: five are"):
        CACHE.run(Tires, executor=executor)


PRINTING = """
import moelab

class Printing(moelab.CachePolicy):
    "prints"
    name = "printing"
    made = 0

    def __init__(self, shape):
        if Printing.made == 0:
            print("made")
        Printing.made += 1

    def use(self, uses):
        pass

print("before")
settings = {"overrides.system.cache.policy": "printing", "workload.requests": 1, "workload.output_tokens": 2}
for executor in ("fast", "simgrid"):
    moelab.run("zipmoe-orin", "zipmoe-lru", settings, executor, [Printing])
print("after")
"""


def test_what_a_policy_prints_appears_once(tmp_path):
    (tmp_path / "printing.py").write_text(PRINTING)
    done = subprocess.run([sys.executable, str(tmp_path / "printing.py")], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["before", "made", "made", "after"]


ENDLESS = """
import sys, moelab

class Endless(moelab.CachePolicy):
    "never answers"
    name = "endless"

    def use(self, uses):
        print("begins", flush=True)
        while True:
            pass

what, db = sys.argv[1:]
try:
    if what == "run":
        moelab.run("zipmoe-orin", "zipmoe-lru", {"overrides.system.cache.policy": "endless"}, policies=[Endless])
    elif what == "check":
        moelab.check_policy(Endless)
    else:
        moelab.sweep({"name": "s", "scenario": "zipmoe-orin", "systems": ["zipmoe-lru"],
                      "axes": {"overrides.system.cache.policy": ["endless"]}}, db, policies=[Endless])
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize("what", ["run", "check", "sweep"])
def test_an_interrupt_ends_a_policy_that_does_not_end(what, tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    child = subprocess.Popen([sys.executable, str(tmp_path / "endless.py"), what, str(tmp_path / "r.db")],
                             stdout=subprocess.PIPE)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    try:
        assert child.wait(timeout=60) == 7
    finally:
        child.kill()
        child.stdout.close()


def test_calls_of_several_threads_do_not_meet():
    """Beside a thread that keeps Python busy."""
    expected = [text_of(CACHE.run("lru")), text_of(CACHE.run("lfu"))]
    found, stop = {}, threading.Event()

    def call(number, policy, shipped):
        found[number] = text_of(CACHE.run(policy), policy, shipped)

    def count():
        number = 0
        while not stop.is_set():
            number += 1

    busy = threading.Thread(target=count)
    threads = [threading.Thread(target=call, args=(2 * i + j, (Lru, Lfu)[j], ("lru", "lfu")[j]))
               for i in range(2) for j in range(2)]
    busy.start()
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        busy.join()
    assert [found[n] for n in range(4)] == expected * 2


# ---- sweeps

KEEPS = """
import moelab

class Keeps(moelab.CachePolicy):
    "keeps the first ones"
    name = "keeps"

    def use(self, uses):
        for expert in uses["object"].tolist():
            if (self.states != moelab.State.M).sum() < self.shape.places:
                self.states[expert] = self.shape.kept_as
"""


def load(path):
    spec = importlib.util.spec_from_file_location("keeps", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Keeps


def test_a_sweep_runs_again_what_a_class_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    sweep = {"name": "s", "scenario": "zipmoe-orin", "set": SHORT, "systems": ["zipmoe-lru"],
             "axes": {"overrides.system.cache.policy": ["lru", "my-lru", "keeps"]}}
    db, file = tmp_path / "r.db", tmp_path / "keeps.py"

    def runs(keeps):
        summary = moelab.sweep(sweep, db, jobs=2, policies=[Lru, keeps])
        assert summary["failed"] == 0 and summary["done"] + summary["there"] == 3
        return summary["done"]

    file.write_text(KEEPS)
    assert runs(load(file)) == 3
    assert runs(load(file)) == 0
    keeps = load(file)
    keeps.version = "2"
    assert runs(keeps) == 1
    keeps.threshold = 3
    assert runs(keeps) == 1
    assert runs(keeps) == 0
    file.write_text(KEEPS + "# changed")
    assert runs(load(file)) == 1
    pytest.importorskip("pandas")
    ttft_s = {row["overrides.system.cache.policy"]: row["ttft_s"] for row in moelab.results(db).to_dict("records")}
    assert ttft_s["lru"] == ttft_s["my-lru"]


def test_a_sweep_tells_of_the_policy_that_breaks_a_rule(tmp_path):
    sweep = {"name": "s", "scenario": "zipmoe-orin", "set": SHORT, "systems": ["zipmoe-lru"],
             "axes": {"overrides.system.cache.policy": ["lru", "broken"]}}
    for policy, told in ((broken(Lru, use=keep_all), "its memory is"),
                         (broken(Lru, use=lambda self, uses: abort()), "signal 6")):
        summary = moelab.sweep(sweep, tmp_path / "r.db", policies=[policy])
        assert summary["failed"] == 1 and told in summary["failures"][0]["error"]


class Waits(Lru):
    """says that it has begun, and waits"""

    name = "waits"
    version = ""  # the folder of the two files

    def __init__(self, shape):
        super().__init__(shape)
        with open(os.path.join(self.version, "begun"), "w"):
            pass
        while not os.path.exists(os.path.join(self.version, "goes-on")):
            time.sleep(0.01)


def test_of_two_sweeps_at_a_time_none_has_policies(tmp_path):
    """Runs go on beside them."""
    policy = type("Waits", (Waits,), {"__doc__": "waits", "version": str(tmp_path)})
    sweep = {"name": "s", "scenario": "zipmoe-orin", "set": SHORT, "systems": ["zipmoe-lru"],
             "axes": {"overrides.system.cache.policy": ["waits"]}}
    summaries = []
    thread = threading.Thread(
        target=lambda: summaries.append(moelab.sweep(sweep, tmp_path / "a.db", policies=[policy])))
    thread.start()
    try:
        while thread.is_alive() and not (tmp_path / "begun").exists():
            time.sleep(0.01)
        for policies in ([], [Lru]):
            with pytest.raises(RuntimeError, match="another sweep of this process is at work, one of the two with"):
                moelab.sweep({**sweep, "axes": {"seed": [1]}}, tmp_path / "b.db", policies=policies)
        CACHE.run(Lru)
        CACHE.run("lru")
    finally:
        (tmp_path / "goes-on").touch()
        thread.join()
    assert summaries[0]["done"] == 1


def test_the_package_has_the_classes_of_all_families():
    import ast

    with open(moelab.policies.__file__) as text:
        classes = [c for c in ast.parse(text.read()).body if isinstance(c, ast.ClassDef)]
    named = {c.name for c in classes if c.name.endswith("Policy") and c.name[0] != "_"} - {"Policy"}
    assert named == {name for name in moelab.__all__ if name.endswith("Policy")}
