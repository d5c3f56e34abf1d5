"""What a sweep knows a policy's class by."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

from policies.lru import Lru
from policy_places import CACHE, SHORT, abort, broken, keep_all


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
    assert runs(load(file)) == 0
    file.write_text(KEEPS.replace("shape.places", "shape.places // 2"))
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


DIGESTS = '''
import functools, sys
sys.path[:0] = sys.argv[1:]
import moelab, numpy as np
from moelab._registration import described
from policy_places import CACHE, SHORT, abort, broken, keep_all


def helper(x):
    return x + {number}


SCALE = {{"a": [1, {number}]}}


def wrapped(f):
    @functools.wraps(f)
    def around(*a, **k):
        return f(*a, **k)
    return around


class Base(moelab.PriorityCachePolicy):
    """keeps what it keeps"""
    name = "p"

    def priorities(self, features):
        return features[:, 0]


class Default(Base):
    """x"""
    def priorities(self, features, sign={number}):
        return sign * features[:, 0]


class Keyword(Base):
    """x"""
    def priorities(self, features, *, sign={number}):
        return sign * features[:, 0]


class Wrapped(Base):
    """x"""
    @wrapped
    def priorities(self, features):
        return {number} * features[:, 0]


class Helper(Base):
    """x"""
    def priorities(self, features):
        return [helper(f) for f in features[:, 0]]


class Constant(Base):
    """x"""
    def priorities(self, features):
        return features[:, 0] * SCALE["a"][1]


class Nested(Base):
    """x"""
    class Inner:
        number = {number}


class Array(Base):
    """x"""
    weights = np.arange(5.) * {number}


class Set(Base):
    """x"""
    names = {{"alpha", "beta", "gamma", "delta", "n{number}"}}


class Inherits(Default):
    """x"""


for policy in (Default, Keyword, Wrapped, Helper, Constant, Nested, Array, Set, Inherits):
    print(policy.__name__, described(policy)["digest"])
'''


def digests(folder, number, before="", seed="0"):
    file = folder / "digests.py"
    file.write_text(before + DIGESTS.format(number=number))
    done = subprocess.run([sys.executable, str(file), *sys.path], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONHASHSEED": seed})
    return dict(line.split() for line in done.stdout.splitlines())


def test_a_digest_is_of_what_a_class_does(tmp_path):
    one = digests(tmp_path, 2)
    assert len(one) == 9
    assert digests(tmp_path, 2, seed="1") == one  # in another process, whose sets have another order
    assert digests(tmp_path, 2, before="# a comment\nimport os\n") == one
    other = digests(tmp_path, 3)
    for name in one:
        assert other[name] != one[name], name


def test_what_has_no_digest_needs_a_version():
    class Opaque(moelab.CachePolicy):
        """keeps nothing"""
        name = "opaque"
        lock = threading.Lock()

        def use(self, uses):
            pass

    with pytest.raises(moelab.InputError, match="of which is not known when it changes: expected a class attribute version"):
        moelab.run("recorded-default", policies=[Opaque])
    Opaque.version = "1"
    moelab.run("recorded-default", system="zipmoe-lru", policies=[Opaque], settings={"workload.requests": 1})


def test_two_classes_of_a_factory_are_two(tmp_path):
    def made(name, sign):
        class Made(moelab.PriorityCachePolicy):
            """by recency"""

            def priorities(self, features):
                return sign * features[:, 0]
        Made.name = name
        return Made

    def swept(*policies):
        summary = moelab.sweep({"name": "s", "question": "q", "scenario": "recorded-default", "systems": ["zipmoe-lru"],
                                "set": {"workload.requests": 1},
                                "axes": {"overrides.system.cache.policy": ["one", "two"]}}, tmp_path / "x.db",
                               policies=policies)
        return summary["there"], summary["done"]

    assert swept(made("one", 1), made("two", 1)) == (0, 2)
    assert swept(made("one", 1), made("two", 1)) == (2, 0)
    assert swept(made("one", 1), made("two", -1)) == (1, 1)
    assert swept(made("two", -1), made("one", 1)) == (2, 0)


def test_runs_without_policies_need_no_lock_of_python():
    stop = []

    def busy():
        while not stop:
            sum(range(50))

    threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            moelab.run("recorded-default", system="zipmoe-lru", settings={"workload.requests": 1})
    finally:
        stop.append(True)
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("name, value", [("use", lambda self, uses: None), ("insert", lambda self, e: True),
                                         ("needs_future", True)])
def test_a_priority_cache_has_no_other_answers(name, value):
    policy = type("Other", (moelab.PriorityCachePolicy,), {"__doc__": "x", "name": "other", name: value})
    with pytest.raises(moelab.InputError, match=f"has '{name}', which a PriorityCachePolicy has not"):
        moelab.run("recorded-default", policies=[policy])


def test_a_leaderboard_has_the_classs_digest(tmp_path, moelab_program):
    from moelab._registration import described

    board = tmp_path / "board.jsonl"
    found = moelab.compare("recorded-default", ["lru", "my-lru"], system="zipmoe-lru", seeds=1, policies=[Lru],
                           settings={"workload.requests": 1}, leaderboard=board)
    lines = [json.loads(line) for line in board.read_text().splitlines()]
    assert {line["policy"] for line in lines} == {"lru", "my-lru", "belady"}
    mine, shipped = ([line for line in lines if line["policy"] == name][0] for name in ("my-lru", "lru"))
    assert mine["library"] == "python " + described(Lru)["digest"]
    assert mine["tpot_s"] == shipped["tpot_s"] == [p for p in found["budgets"][0]["policies"] if p["name"] == "lru"][0]["tpot_s"]
    subprocess.run([moelab_program, "leaderboard", str(board)], check=True, stdout=subprocess.DEVNULL)
