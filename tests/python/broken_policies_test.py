"""What becomes of policies in Python that break a rule."""


import pytest

np = pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

from moelab import Role, State
from policies.by_recency import ByRecency
from policies.equal_shares import EqualShares
from policies.experts_yield import ExpertsYield
from policies.fiddler import Fiddler
from policies.fixed_residency import FixedResidency
from policies.layer_window import LayerWindow
from policies.longest_first import LongestFirst
from policies.lru import Lru
from policies.smoe_routing import SmoeRouting
from policies.static_batching import StaticBatching
from policies.uniform_placement import UniformPlacement
from policies.whole_layer import WholeLayer
from policy_places import (BATCHING, CACHE, EXECUTION, Opaque, PLACEMENT, PLANNING, PREFETCH, PRESSURE, RESIDENCY,
                           ROUTING, SCHEDULE, STORAGE, Wordless, answers, broken, changes, everywhere, keep_all,
                           keep_another, move_nothing_well, placed, plan_with, raises, rebind, recurse, route_to,
                           same_twice, set_state, shares_with, step_with, unfinished, write_uses)


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
     r"step 1 of layer 0: throws: ZeroDivisionError: by nothing \(policy_places.py:\d+, in method\)"),
    (CACHE, broken(Lru, use=raises(moelab.InputError("no"))), "step 1 of layer 0: throws: no"),
    (CACHE, broken(Lru, use=raises(KeyboardInterrupt())), "step 1 of layer 0: throws: KeyboardInterrupt"),
    (CACHE, broken(Lru, use=raises(SystemExit(0))), "step 1 of layer 0: throws: SystemExit"),
    (CACHE, broken(Lru, use=raises(Wordless())), "step 1 of layer 0: throws: Wordless: an object of Wordless"),
    (CACHE, broken(Lru, use=raises(ValueError("half \ud800"))), r"step 1 of layer 0: throws: ValueError: half \? \("),
    (CACHE, broken(Lru, use=recurse), r"step 1 of layer 0: throws: RecursionError: .*policy_places.py:\d+, in recurse"),
    (CACHE, broken(Lru, use=rebind), "step 1 of layer 0: throws: AttributeError: .*policy_places.py"),
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
    assert "policy 'broken' (Python class policy_places.Broken)" in str(caught.value)
    assert len(caught.value.problems) == 1
