"""Classes and parameters that fit or not, and what goes on around a run with policies: exceptions, prints, interrupts, threads."""

import os
import random
import signal
import subprocess
import sys
import threading

import pytest

np = pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

from moelab import Parameter, State
from policies.equal_shares import EqualShares
from policies.fixed_residency import FixedResidency
from policies.lfu import Lfu
from policies.lru import Lru
from policy_places import (CACHE, Opaque, SHORT, TOGETHER, abort, broken, keep_all, move_to_gpu, of_cache, raises,
                           text_of)


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


@pytest.mark.parametrize("end, told", [
    (lambda: os._exit(0), "without an answer"), (lambda: os._exit(3), "without an answer"), (abort, "by signal 6"),
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "by signal 9")])
def test_a_policy_that_ends_its_process_does_not_end_the_callers(end, told):
    policy = broken(Lru, use=lambda self, uses: end())
    rule = "Python class policy_places.Broken: its policies ended the run: the simulation's process .*" + told
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
