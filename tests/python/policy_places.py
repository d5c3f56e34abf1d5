"""Where policies of each family are asked, and ways to answer wrongly."""

import faulthandler
import json
import os

import moelab
import numpy as np
from moelab import State


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


def abort():
    faulthandler.disable()  # pytest's would tell of it at length
    os.abort()
