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

import enum
import math
from dataclasses import dataclass
from typing import ClassVar, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union

import numpy as np


class State(enum.IntEnum):
    """Which parts of an expert are in memory; parts are the plane of signs and mantissas, and the exponents."""

    F = 0  # full tensors, ready to use
    C = 1  # both planes, the exponents compressed
    S = 2  # the plane of signs and mantissas alone
    E = 3  # the compressed exponents alone
    M = 4  # nothing


class Parameter(NamedTuple):
    """A numeric parameter of a policy. Where `default` is an int it takes whole numbers only."""

    default: Union[int, float]
    help: str
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""


class Policy:
    """What the classes of all families share; subclass one of those."""

    family: ClassVar[str]
    name: ClassVar[str]
    """Small letters, digits, "-" and "_", a letter first."""
    source: ClassVar[str] = ""
    """The paper or code that defines it."""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    version: ClassVar[str] = ""
    """To be changed with what the policy reads elsewhere, such as a file: a sweep runs again what another version ran.
    What the class does and holds itself is known without it."""


USE = np.dtype({"names": ["object", "tokens", "score", "next_use"], "formats": ["u4", "u4", "f4", "u8"],
                "offsets": [0, 4, 8, 16], "itemsize": 24})
"""An expert that a step used: its number in the domain, the tokens that it served, the sum of their gate scores (0
where the trace has none), and the step of its layer at which it is used next (NEVER where it is not; with
`needs_future`)."""

NEVER = 2**64 - 1


class CacheShape(NamedTuple):
    """A domain: the experts that one object of a cache policy manages, of a layer or of the whole model."""

    objects: int
    """Experts, numbered from 0; of a whole model layer * experts + expert."""
    layers: int
    places: int
    """Experts that fit, each in `kept_as`."""
    capacity_bytes: float
    bytes: "np.ndarray"
    """[5] of an expert, by State."""
    pool_experts: "np.ndarray"
    """[5] planned experts of each pool, by State; with `uses_pools`."""
    kept_as: State
    """In which a policy keeps what it keeps, unless it `uses_pools`."""
    top_k: int
    profile: "np.ndarray"
    """[objects] uses in an offline profile; with `needs_profile`, else empty."""
    first_layer: int
    """The domain's first layer in the model."""
    model_layers: int


class CacheStep(NamedTuple):
    """A step of a layer."""

    layer: int
    """0 where the domain has one."""
    tokens: int
    prompt_tokens: int
    """Of the tokens, those of prompts: above 0 while the model prefills."""


class _AnyCachePolicy(Policy):
    family = "cache"
    per_model: ClassVar[bool] = False
    """One domain for the whole model instead of one a layer."""
    may_span_model: ClassVar[bool] = False
    """Works with either; the system says which."""
    needs_scores: ClassVar[bool] = False
    """Only traces with gate scores will do."""


_Cache = TypeVar("_Cache", bound="CachePolicy")


class CachePolicy(_AnyCachePolicy):
    """Which experts stay in memory, in which state, and which leave.

    A step of a domain is begin_step(step), observe(scores) with `needs_all_scores`, and use(uses) once the layer
    is done; the states decide what the next step has to load. insert(expert) may come at any time between.
    The sum of the states' bytes must not be above shape.capacity_bytes after each call.
    """

    needs_future: ClassVar[bool] = False
    """Fills next_use: for oracles."""
    needs_all_scores: ClassVar[bool] = False
    """observe() is called: only traces with the scores of all experts will do."""
    uses_pools: ClassVar[bool] = False
    """Keeps experts in several states at once: shape.pool_experts has what a planning policy gives each."""
    needs_profile: ClassVar[bool] = False
    preloads: ClassVar[bool] = False
    """Holds experts from the start, and always the same."""

    _shape: CacheShape
    _states: "np.ndarray"

    def __new__(cls: Type[_Cache], shape: CacheShape, **parameters: float) -> _Cache:
        self = super().__new__(cls)
        self._shape = shape
        self._states = np.full(shape.objects, State.M, np.uint8)
        return self

    def __init__(self, shape: CacheShape, **parameters: float) -> None:
        """A domain begins. `shape` and `states` are there already."""

    @property
    def shape(self) -> CacheShape:
        return self._shape

    @property
    def states(self) -> "np.ndarray":
        """[objects] the State of each expert, all M at first: the policy's answer, to be written in place."""
        return self._states

    def use(self, uses: "np.ndarray") -> None:
        """The experts that the step used, of dtype USE, in ascending order; perhaps none. Each is in memory in full at
        this moment: what stays of it, and what leaves for it, is up to the policy."""
        raise NotImplementedError("a cache policy has a method use(self, uses)")

    def begin_step(self, step: CacheStep) -> None:
        """A step begins."""

    def observe(self, scores: "np.ndarray") -> None:
        """[experts] gate scores of all experts of the step's layer, summed over its tokens."""

    def begin_request(self) -> None:
        """A request, or a batch of requests, begins."""

    def insert(self, expert: int) -> bool:
        """An expert was fetched ahead, in full: whether the policy takes it, or has it already."""
        return False


class Feature(enum.IntEnum):
    """Columns of what PriorityCachePolicy.priorities() is given; steps are those of an expert's own layer."""

    RECENCY = 0  # steps since its last use; never used: all so far
    GAP = 1  # steps between its last two uses; used once: from the start to then; never: all so far
    FREQUENCY = 2  # share of the steps so far in which it was used
    RECENT_FREQUENCY = 3  # the same, decayed by half in 16 steps
    REQUEST_FREQUENCY = 4  # share of this request's steps in which it was used
    LAST_REQUEST_FREQUENCY = 5  # the same of the request before, as it ended
    SCORE = 6  # its tokens' gate scores over all tokens of the step, decayed by half in 16 steps; 0 without scores
    TOKENS = 7  # share of the last step's tokens that it served
    LAYER = 8  # depth of its layer: 0 the first, 1 the last
    AHEAD = 9  # layers from the one that ran to its own, as a share of the domain's: 1 where its own ran
    PROMPT = 10  # share of this step's tokens that are of prompts: 1 prefills, 0 decodes
    HELD = 11  # 1: in memory before this step
    FETCHED = 12  # 1: prefetched, and its layer has not run since


class PriorityCachePolicy(_AnyCachePolicy):
    """A cache that answers with priorities, for policies that are learned: after every step, of the experts that were
    in memory or were used, as many as fit stay: those of the highest priorities, among equals the one used last, then
    the lower number.

    An expert that was fetched ahead is kept where there is room, or in the place of one with a lower priority, as they
    were last answered.
    """

    def __init__(self, shape: CacheShape, **parameters: float) -> None: ...

    def begin_step(self, step: CacheStep) -> None:
        """A step begins."""

    def begin_request(self) -> None:
        """A request, or a batch of requests, begins."""

    def priorities(self, features: "np.ndarray") -> "np.ndarray":
        """features: [experts, len(Feature)] of all experts of the domain, this step counted. [experts] priorities, any
        floats but NaN."""
        raise NotImplementedError("a priority cache policy has a method priorities(self, features)")


class PrefetchShape(NamedTuple):
    layers: int
    experts: int
    top_k: int
    seed: int
    """For what a policy draws."""
    load_s: float
    """Of one expert over the link; 0 where memory is shared."""
    gpu_s: float
    """Of one expert on the GPU, for one token."""
    cpu_s: "np.ndarray"
    """Of one expert on the CPU, by number of tokens from 0; empty where it does not compute."""


class GatesAhead(NamedTuple):
    """What the gate of a layer that did not run yet will say, token by token, as recorded."""

    chosen: "np.ndarray"
    """[tokens, top_k] as the model will choose."""
    scores: "np.ndarray"
    """[tokens, experts]"""
    predicted: Optional["np.ndarray"]
    """[tokens, top_k] what the recording predicted itself, one layer ahead; None where it did not."""


class PrefetchPolicy(Policy):
    """Which experts of later layers to fetch while a layer computes."""

    family = "prefetch"
    needs_all_scores: ClassVar[bool] = False
    """gate_ahead() gets scores: only traces with those of all experts will do."""
    runs_attention_ahead: ClassVar[bool] = False
    """It predicts with the next layer's attention: what it wishes can be fetched once that has run."""
    gates_ahead: int = 0
    """How many layers ahead it wants to know of; read once, after __init__."""

    def __init__(self, shape: PrefetchShape, **parameters: float) -> None: ...

    def begin_request(self) -> None: ...

    def begin_step(self) -> None:
        """A forward pass begins."""

    def gate_ahead(self, layer: int, gates: GatesAhead, resident: "np.ndarray") -> None:
        """Of each of `gates_ahead` layers, the nearest first, before after_gate(). resident: [experts] whether each is
        on the GPU."""

    def after_gate(self, layer: int, uses: "np.ndarray") -> Sequence[Tuple[int, int]]:
        """`layer` has routed to `uses` (dtype USE). The (layer, expert) to fetch now, the most urgent first."""
        raise NotImplementedError("a prefetch policy has a method after_gate(self, layer, uses)")


class Role(enum.IntEnum):
    """What an expert is to a token."""

    TOP = 0  # of the model's own choice, with a top score
    LOW = 1  # of the model's own choice, with a low score, kept
    SUBSTITUTE = 2  # in the place of one with a low score


class RoutingPolicy(Policy):
    """Which experts serve each token. Asked where the trace has the scores of all experts."""

    family = "routing"

    def __init__(self, **parameters: float) -> None: ...

    def route(self, chosen: "np.ndarray", scores: "np.ndarray", resident: "np.ndarray", experts: "np.ndarray",
              roles: "np.ndarray") -> None:
        """The tokens of a layer's step: chosen [tokens, top_k] by the model, scores [tokens, experts], and resident
        [experts], whether each is on the GPU. Fills experts and roles, [tokens, top_k] each, which hold `chosen` and
        Role.TOP. A token's experts are distinct; a position holds the model's choice or its substitute."""
        raise NotImplementedError("a routing policy has a method route(self, chosen, scores, resident, experts, roles)")


MISSING = np.dtype({"names": ["expert", "score", "tokens"], "formats": ["u4", "f4", "u4"], "offsets": [0, 4, 8],
                    "itemsize": 12})
"""An expert that is not on the GPU: the sum of its tokens' gate scores (0 where the trace has none), and its tokens."""


class ExecutionCosts(NamedTuple):
    load_s: float
    """One expert over the link."""
    cpu_s: "np.ndarray"
    """One expert on the CPU, by number of tokens, from 0."""
    gpu_s: float
    """One expert on the GPU once it is there; 0 where not known."""
    step_tokens: int
    on_gpu: int
    """Experts that the step uses and that are there."""


class ExecutionPolicy(Policy):
    """Which missing experts of a layer the CPU computes, which are loaded for the GPU; link and CPU work at once."""

    family = "execution"
    needs_scores: ClassVar[bool] = False
    needs_cpu: ClassVar[bool] = False
    """costs.cpu_s is filled: the device has to know these times."""

    def __init__(self, **parameters: float) -> None: ...

    def plan(self, missing: "np.ndarray", costs: ExecutionCosts) -> Tuple[Sequence[int], Sequence[int]]:
        """`missing`, of dtype MISSING, in ascending order. The positions in it that are loaded, and those that the CPU
        computes, each in their order; every position is in one of the two."""
        raise NotImplementedError("an execution policy has a method plan(self, missing, costs)")

    def observe_load(self, seconds: float) -> None:
        """An expert came over the link."""


LAYER_EXPERT = np.dtype({"names": ["id", "tensors", "state", "execute_s"], "formats": ["u4", "u4", "u1", "f8"],
                         "offsets": [0, 4, 8, 16], "itemsize": 24})
"""An expert of a layer's step: its number, its tensors, its State, and the time to run its tokens."""

SM_CHUNK = 2**32 - 1


class LayerInstance(NamedTuple):
    """A layer's step. Times are of one operation."""

    threads: int
    """That decompress."""
    shards: int
    """Chunks of a tensor's exponents; 0: tensors are stored whole."""
    sm_read_s: float
    """Of a plane of signs and mantissas; of a whole tensor where shards is 0."""
    e_read_s: float
    decompress_s: float
    """Of one chunk of exponents."""
    recover_s: float
    """Of one tensor."""
    experts: "np.ndarray"
    """Of dtype LAYER_EXPERT."""


class LayerOrder(NamedTuple):
    """The most urgent first. Tasks are tensors, numbered expert by expert in the instance's order."""

    reads: Sequence[Tuple[int, int]]
    """(task, chunk), the chunk SM_CHUNK or 0 to shards - 1: every read that the states still need, once."""
    tasks: Sequence[int]
    """Every tensor once, for decompression and recovery."""
    experts: Sequence[int]
    """Every expert once, by its place in the instance, for execution."""


class SchedulePolicy(Policy):
    """In which order a layer's reads, decompressions, recoveries and executions run (see policies/schedule/README.md)."""

    family = "schedule"

    def __init__(self, **parameters: float) -> None: ...

    def order(self, layer: LayerInstance) -> LayerOrder:
        raise NotImplementedError("a schedule policy has a method order(self, layer)")


class BatchRequest(NamedTuple):
    id: int
    prompt_tokens: int
    output_tokens: int
    prefilled: bool
    """Its prompt's keys and values, and its first token, come with it."""
    encoded: bool
    """Its prompt runs through an encoder and produces no token."""


class BatchingShape(NamedTuple):
    block_tokens: int
    """Tokens of a block of the KV cache."""
    gpu_blocks: int
    host_blocks: int
    """Swap space."""
    state_blocks: int
    """That each admitted request holds besides those of its tokens."""
    max_requests: int
    """That run at once."""
    max_tokens: int
    """That a step runs."""
    micro_batch: int
    """Tokens of prompts that a step of static batches runs; 0: whole prompts."""


class StepShare(NamedTuple):
    """What a request does in a step."""

    request: int
    tokens: int
    context: int
    """Tokens in its cache before the step."""
    prompt: bool
    """Rows of a prompt, or of what is computed again."""
    produces: bool
    """Gets a token."""


@dataclass
class BatchStep:
    """A step; lists of ids in the order in which things were decided."""

    shares: Sequence[StepShare] = ()
    recomputed: int = 0
    """Of its tokens, those that were in the cache before."""
    blocks_out: int = 0
    """GPU to host before the step runs."""
    blocks_in: int = 0
    admitted: Sequence[int] = ()
    restarted: Sequence[int] = ()
    """Dropped before, admitted again."""
    resumed: Sequence[int] = ()
    """Swapped in."""
    swapped_out: Sequence[int] = ()
    dropped: Sequence[int] = ()
    finished: Sequence[int] = ()
    """Get their last token in this step."""


class KvUse(NamedTuple):
    """After form(), while the step runs; after complete(), between steps."""

    gpu_blocks: int
    gpu_floor: int
    """Promised blocks: the cache is not made smaller."""
    host_blocks: int
    running: int
    """Requests, as the next two."""
    waiting: int
    swapped: int


class BatchingPolicy(Policy):
    """Which requests form a step, and whose KV cache gives way."""

    family = "batching"
    static_batches: ClassVar[bool] = False
    """A batch runs until all its requests are done, prompts by shape.micro_batch: memory is planned for that."""

    def __init__(self, shape: BatchingShape, **parameters: float) -> None: ...

    def misfit(self, request: BatchRequest) -> str:
        """Why it could never run, even alone, as a sentence's end; "" where it can."""
        raise NotImplementedError("a batching policy has a method misfit(self, request)")

    def arrive(self, request: BatchRequest) -> None:
        """In order of arrival; between form() and complete() for the next step."""
        raise NotImplementedError("a batching policy has a method arrive(self, request)")

    def form(self) -> Optional[BatchStep]:
        """The next step; None, or one without shares, where nothing can run."""
        raise NotImplementedError("a batching policy has a method form(self)")

    def complete(self) -> None:
        """The step has run: caches have grown, finished requests leave."""
        raise NotImplementedError("a batching policy has a method complete(self)")

    def resize(self, gpu_blocks: int) -> None:
        """Between steps: so many blocks there are from now on."""
        raise NotImplementedError("a batching policy has a method resize(self, gpu_blocks)")

    def kv_use(self) -> KvUse:
        raise NotImplementedError("a batching policy has a method kv_use(self)")


class PressureTerms(NamedTuple):
    """Arrays go by the number of requests, the first of one."""

    kv_bytes: "np.ndarray"
    """KV cache of so many requests at their ends."""
    step_s: "np.ndarray"
    """A step with a row of each, their experts there."""
    used: "np.ndarray"
    """Different experts that such a step uses, of all layers."""
    room_bytes: float
    """For KV cache and cached experts together."""
    expert_bytes: float
    experts: float
    """Of all layers."""
    load_s: float
    """Of one expert."""


class PressurePolicy(Policy):
    """For how many requests the KV cache has room, where experts and requests want the same memory."""

    family = "pressure"
    needs_costs: ClassVar[bool] = False
    """It reads more of the terms than kv_bytes."""

    def __init__(self, **parameters: float) -> None: ...

    def requests(self, terms: PressureTerms) -> int:
        """1 to len(terms.kv_bytes)."""
        raise NotImplementedError("a pressure policy has a method requests(self, terms)")


class PlanInput(NamedTuple):
    """A layer; times are of one operation, as in LayerInstance."""

    inclusion: "np.ndarray"
    """Probability that the expert of each rank of popularity is used in a step."""
    k: int
    threads: int
    shards: int
    tensors: int
    sm_read_s: float
    e_read_s: float
    decompress_s: float
    memory_bytes: float
    """For the layer's pools."""
    tensor_elements: float
    tensor_bytes: float
    """Of one tensor whole: 2 for each BF16 element, less in a quantised format."""
    ratio: float
    """Compressed size of the exponents over their plain size."""
    step: float
    """Of the grid of memory shares."""
    pools: Sequence[bool]
    """By State: which may be used."""
    fixed_ratios: Sequence[float]
    """By State: what a system's YAML says for the policy `fixed`; 0 for all others."""


class Plan(NamedTuple):
    """Arrays go by State."""

    ratios: Sequence[float]
    """Shares of memory, which sum to 1 over the pools that are used."""
    capacity: Sequence[int]
    """Experts that each pool holds."""
    expected_makespan_s: float = 0


class PlanningPolicy(Policy):
    """How large the pools of full and compressed experts are. Has no parameters of its own."""

    family = "planning"

    def plan(self, input: PlanInput) -> Plan:
        raise NotImplementedError("a planning policy has a method plan(self, input)")


class StorageBackend(NamedTuple):
    name: str
    bytes_per_second: float
    """Plain bytes made ready; infinity: nothing to do."""
    gpu_bytes_per_byte: float
    """GPU memory that a plain byte takes."""
    capacity_bytes: float


class StorageShape(NamedTuple):
    layers: int
    experts: int
    expert_bytes: float
    backends: Sequence[StorageBackend]
    """The GPU's first, the host's or an SSD last."""
    gpu_budget_bytes: float
    compute_s: float
    """Of one layer with its weights there; 0: not known."""


class StoragePolicy(Policy):
    """On which backends the experts of each layer lie."""

    family = "storage"

    def __init__(self, **parameters: float) -> None: ...

    def split(self, shape: StorageShape) -> "np.ndarray":
        """[layers, backends] experts; each layer has shape.experts in all."""
        raise NotImplementedError("a storage policy has a method split(self, shape)")


class ResidencyState(NamedTuple):
    iteration: int
    compute_s: float
    """Of an iteration, all weights there."""
    gpu_bytes: float
    """For stored experts and KV cache together."""
    kv_bytes: float
    """As it will be in this iteration."""


class ResidencyPolicy(Policy):
    """Which experts move between backends before a step."""

    family = "residency"

    def __init__(self, **parameters: float) -> None: ...

    def adjust(self, state: ResidencyState, shape: StorageShape, split: "np.ndarray") -> None:
        """split: [layers, backends] experts, to be changed in place."""
        raise NotImplementedError("a residency policy has a method adjust(self, state, shape, split)")


class PlacementServer(NamedTuple):
    gpu_bytes: Sequence[float]
    """Memory for experts on each GPU."""
    load_bytes_per_second: float
    up: bool
    """False: it has left the cluster, and holds nothing."""


class PlacementShape(NamedTuple):
    layers: int
    experts: int
    expert_bytes: float
    servers: Sequence[PlacementServer]
    copies: int
    """Servers that hold each expert, at least."""
    seed: int
    """For what a policy draws."""


class PlacementPolicy(Policy):
    """Which GPUs of a cluster hold which experts."""

    family = "placement"

    def __init__(self, **parameters: float) -> None: ...

    def place(self, shape: PlacementShape, counts: "np.ndarray") -> "np.ndarray":
        """counts: [servers, layers, experts] activations by each server's users. [GPUs of all servers, layers, experts]
        whether each GPU holds each expert."""
        raise NotImplementedError("a placement policy has a method place(self, shape, counts)")
