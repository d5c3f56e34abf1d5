"""Which experts stay in memory."""

import enum
from typing import ClassVar, NamedTuple, Type, TypeVar

import numpy as np

from .policy import Policy, State


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
