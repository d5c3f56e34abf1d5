"""Policies written in Python: a class a family, whose subclasses moelab.run(), sweep(), compare() and check_policy()
take.

    class MyFifo(moelab.CachePolicy):
        '''the expert that came first leaves first'''
        name = "my-fifo"

        def __init__(self, shape):
            self.kept = []

        def use(self, uses):
            for expert in uses["object"].tolist():
                if self.states[expert] != moelab.State.M or self.shape.places == 0:
                    continue
                if len(self.kept) == self.shape.places:
                    self.states[self.kept.pop(0)] = moelab.State.M
                self.kept.append(expert)
                self.states[expert] = self.shape.kept_as

    moelab.run("zipmoe-orin", system="zipmoe-lru", policies=[MyFifo],
               settings={"overrides.system.cache.policy": "my-fifo"})

A policy has a `name`, by which scenarios choose it, a docstring, whose first line is its help, and perhaps
`parameters`, which __init__ gets by their names ("-" as "_"). Every run makes its policies anew, in a process
of its own: what they keep is gone with it, what they print appears. Whatever they answer is checked (a cache
must not hold more than its memory, for one); what breaks a rule or raises ends the run with the policy, the
step and the rule. moelab.InputError says that a policy cannot do what it is asked.

Times are in seconds, sizes in bytes. Layers are those with experts, counted from 0; experts are counted from 0
within their layer. Arrays that a policy is given are valid during the call, and read-only but for those that it
is to fill.
"""

from .batching import (
    BatchRequest as BatchRequest,
    BatchStep as BatchStep,
    BatchingPolicy as BatchingPolicy,
    BatchingShape as BatchingShape,
    KvUse as KvUse,
    StepShare as StepShare,
    TokenPart as TokenPart,
)
from .cache import (
    CachePolicy as CachePolicy,
    CacheShape as CacheShape,
    CacheStep as CacheStep,
    Feature as Feature,
    PriorityCachePolicy as PriorityCachePolicy,
)
from .execution import ExecutionCosts as ExecutionCosts, ExecutionPolicy as ExecutionPolicy, MISSING as MISSING
from .placement import (
    PlacementPolicy as PlacementPolicy,
    PlacementServer as PlacementServer,
    PlacementShape as PlacementShape,
)
from .planning import Plan as Plan, PlanInput as PlanInput, PlanningPolicy as PlanningPolicy
from .policy import NEVER as NEVER, Parameter as Parameter, Policy as Policy, State as State, USE as USE
from .prefetch import GatesAhead as GatesAhead, PrefetchPolicy as PrefetchPolicy, PrefetchShape as PrefetchShape
from .pressure import PressurePolicy as PressurePolicy, PressureTerms as PressureTerms
from .residency import ResidencyPolicy as ResidencyPolicy, ResidencyState as ResidencyState
from .routing import Role as Role, RoutingPolicy as RoutingPolicy
from .schedule import (
    LAYER_EXPERT as LAYER_EXPERT,
    LayerInstance as LayerInstance,
    LayerOrder as LayerOrder,
    SM_CHUNK as SM_CHUNK,
    SchedulePolicy as SchedulePolicy,
)
from .storage import StorageBackend as StorageBackend, StoragePolicy as StoragePolicy, StorageShape as StorageShape
