"""Which requests form a step."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Optional, Sequence, Tuple

from .policy import Policy


class TokenPart(NamedTuple):
    """Tokens of a request that others may have too: from the end of the part before to `end`."""

    id: int
    """Parts with one id are the same tokens, behind the same ones, as far as both reach."""
    end: int


class BatchRequest(NamedTuple):
    id: int
    prompt_tokens: int
    output_tokens: int
    prefilled: bool
    """Its prompt's keys and values, and its first token, come with it."""
    encoded: bool
    """Its prompt runs through an encoder and produces no token."""
    parts: Tuple[TokenPart, ...] = ()
    """Of what its prompt and its answer are made; behind the last one its tokens are its own."""
    priority: int = 0
    """Lower goes first, to policies that go by it."""


class BatchingShape(NamedTuple):
    block_tokens: int
    """Tokens of a block of the KV cache."""
    gpu_blocks: int
    host_blocks: int
    """Swap space."""
    state_blocks: int
    """That each admitted request holds besides those of its tokens."""
    shares_beginnings: bool
    """Whether blocks hold all that another request with the same beginning needs."""
    max_requests: int
    """That run at once."""
    max_tokens: int
    """That a step runs."""
    micro_batch: int
    """Tokens of prompts that a step of static batches runs; 0: whole prompts."""
    drafts: int
    """Tokens that are drafted for each decode share; 0 where the policy does not speculate."""


class StepShare(NamedTuple):
    """What a request does in a step."""

    request: int
    tokens: int
    context: int
    """Tokens in its cache before the step; at first those found of others."""
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
    """Get their last token in this step, whatever drafts are refused."""


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

    speculates: ClassVar[bool] = False
    """Decode shares run drafts, up to shape.drafts and one less than the request has left; refuse() is called."""

    by_priority: ClassVar[bool] = False
    """It goes by requests' priorities; else results say that it does not, where a workload has some."""

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

    def refuse(self, refused: Sequence[int]) -> None:
        """Before complete(), where any draft was refused: by share, how many of its last tokens were."""
        raise NotImplementedError("a batching policy that speculates has a method refuse(self, refused)")

    def complete(self) -> None:
        """The step has run: caches have grown, finished requests leave."""
        raise NotImplementedError("a batching policy has a method complete(self)")

    def resize(self, gpu_blocks: int) -> None:
        """Between steps: so many blocks there are from now on."""
        raise NotImplementedError("a batching policy has a method resize(self, gpu_blocks)")

    def kv_use(self) -> KvUse:
        raise NotImplementedError("a batching policy has a method kv_use(self)")
