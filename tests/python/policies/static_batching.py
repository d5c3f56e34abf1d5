"""Static batching: see policies/batching/static_batching.cpp."""

from collections import deque
from dataclasses import dataclass

import moelab


@dataclass
class Running:
    """A request of the batch."""

    ask: moelab.BatchRequest
    known: int  # tokens that must be in the cache for the next one to be produced
    cached: int
    left: int  # tokens still to be produced
    prompt: bool
    blocks: int
    rows: int = 0  # in the step that was formed
    share: int = 0  # its place in it


def final_tokens(request):
    """Tokens in its cache at its end."""
    given = request.prompt_tokens + (1 if request.prefilled or request.encoded else 0)
    return given + request.output_tokens - 1


class StaticBatching(moelab.BatchingPolicy):
    """a batch runs until all its requests are done, then the next one is taken"""

    name = "my-static"
    source = "request-level batching, as in Orca (Yu et al., OSDI 2022), section 3.1"
    static_batches = True
    speculates = True

    def __init__(self, shape):
        if shape.max_tokens < shape.max_requests * (1 + shape.drafts):
            raise ValueError("drafts of all requests have to fit into a step")
        self.shape = shape
        self.gpu_blocks = shape.gpu_blocks
        self.waiting = deque()
        self.batch = []  # those that are not done
        self.promised = 0  # blocks of the batch at its requests' ends

    def blocks_of(self, tokens):
        return -(-tokens // self.shape.block_tokens) + self.shape.state_blocks

    def misfit(self, request):
        blocks = self.blocks_of(final_tokens(request))
        if blocks > self.gpu_blocks:
            return f"needs {blocks} blocks of {self.shape.block_tokens} tokens, there are {self.gpu_blocks}"
        at_once = 1 if request.prefilled else request.prompt_tokens
        if at_once > self.shape.max_tokens:
            return (f"needs a step of {at_once} tokens for its prompt, a step has at most {self.shape.max_tokens}")
        return ""

    def arrive(self, request):
        self.waiting.append(request)

    def form(self):
        step = moelab.BatchStep(shares=[], admitted=[], finished=[])
        if not self.batch:
            self.take_batch(step)
        prompts = any(request.prompt for request in self.batch)
        room = self.shape.max_tokens
        for request in self.batch:
            if request.prompt != prompts:
                continue
            rows = self.rows_of(request, self.shape.max_tokens - room)
            if rows == 0 or rows > room:
                break
            room -= rows
            self.add_share(request, rows, step)
        return step

    def take_batch(self, step):
        while self.waiting and len(self.batch) < self.shape.max_requests:
            ask = self.waiting[0]
            cached = ask.prompt_tokens if ask.prefilled else 0
            known = ask.prompt_tokens + (1 if ask.prefilled else 0)
            blocks = self.blocks_of(final_tokens(ask))
            if known - cached > self.shape.max_tokens or self.promised + blocks > self.gpu_blocks:
                return
            self.promised += blocks
            self.batch.append(Running(ask, known, cached, ask.output_tokens, not ask.prefilled, self.blocks_of(cached)))
            step.admitted.append(ask.id)
            self.waiting.popleft()

    def rows_of(self, request, taken):
        """What is to run of it, or as much of its prompt as the step's micro-batch has left."""
        missing = request.known - request.cached
        if not request.prompt:
            return missing + min(self.shape.drafts, request.left - 1)
        if request.ask.encoded or self.shape.micro_batch == 0:
            return missing
        return min(missing, self.shape.micro_batch - taken)

    def add_share(self, request, rows, step):
        ask = request.ask
        produces = request.cached + rows >= request.known and not (request.prompt and ask.encoded)
        step.shares.append(moelab.StepShare(ask.id, rows, request.cached, request.prompt, produces))
        if produces and request.left == 1:
            step.finished.append(ask.id)
        request.rows = rows
        request.share = len(step.shares) - 1
        request.blocks = self.blocks_of(max(request.known, request.cached + rows))

    def refuse(self, refused):
        for request in self.batch:
            if request.rows > 0:
                request.rows -= refused[request.share]

    def complete(self):
        for request in self.batch:
            request.cached += request.rows
            request.rows = 0
            if request.cached < request.known:
                continue
            produced = request.cached + 1 - request.known
            request.known += produced
            if not (request.prompt and request.ask.encoded):
                request.left -= produced
            request.prompt = False
            if request.left == 0:
                self.promised -= self.blocks_of(final_tokens(request.ask))
        self.batch = [request for request in self.batch if request.left > 0]

    def resize(self, gpu_blocks):
        self.gpu_blocks = gpu_blocks

    def kv_use(self):
        return moelab.KvUse(gpu_blocks=sum(request.blocks for request in self.batch), gpu_floor=self.promised,
                            host_blocks=0, running=len(self.batch), waiting=len(self.waiting), swapped=0)
