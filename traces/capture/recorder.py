"""Records what a model's routers decide while it prefills and decodes a batch of prompts."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from .errors import CaptureError
from .routers import DECODER, DROPPED, ENCODER, Routers, Routing, picks, ranked
from .trace_writer import DECODE, NO_EXPERT, PREFILL, Rows
from .trace_writer import ENCODER as ENCODER_PHASE


@dataclass(frozen=True)
class Options:
    max_new_tokens: int = 0  # 0: the prompts' pass only
    batch: int = 1  # prompts that run together, padded
    scores: str | int = "all"  # all, none, or the number of best experts a token
    score_dtype: str = "float16"  # of gate_scores and router_scores
    temperature: float = 0.0  # 0: greedy; above, sampled
    seed: int = 0


@dataclass
class Recorder:
    """Hooks on all routers, while in the `with` block. A call of a router is one pass of its layer."""

    routers: Routers
    options: Options
    calls: list[list[dict[str, np.ndarray]]] = field(default_factory=list)  # of each layer: its calls, arrays by tensor

    def __enter__(self) -> "Recorder":
        self._last: tuple[int, Tensor] | None = None  # the router that ran last, and what entered it
        self._hooks = [
            router.module.register_forward_hook(self._hook(layer), with_kwargs=True)
            for layer, router in enumerate(self.routers.all)
        ]
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def start(self) -> None:
        """Forgets what was recorded: another batch begins."""
        self.calls = [[] for _ in self.routers.all]
        self._last = None

    def rows(self, stack: str, picks: list[tuple[int, list[int]]]) -> dict[str, np.ndarray]:
        """Rows of a request that only `stack` saw: of call c the tokens with these numbers, for all (c, tokens).
        The other stack's layers do not run for them."""
        running = set(self.routers.layers(stack))
        count = sum(len(tokens) for _, tokens in picks)
        columns: dict[str, list[np.ndarray]] = {}
        for layer, calls in enumerate(self.calls):
            example = calls[0] if calls else self._example()
            for name, array in example.items():
                if layer in running:
                    column = np.concatenate([calls[call][name][tokens] for call, tokens in picks])
                else:
                    column = np.full((count, array.shape[1]), NO_EXPERT if array.dtype == np.uint16 else 0, array.dtype)
                columns.setdefault(name, []).append(column)
        return {name: np.stack(layers, axis=1) for name, layers in columns.items()}

    def passes(self, stack: str, expected: int) -> None:
        """CaptureError unless every router of `stack` was called this often."""
        for layer in self.routers.layers(stack):
            if len(self.calls[layer]) != expected:
                raise CaptureError(
                    f"the router {self.routers.all[layer].name} was called {len(self.calls[layer])} times, not once in "
                    f"each of {expected} passes: this model (or a fused kernel it was loaded with) goes around its "
                    "router modules"
                )

    def _example(self) -> dict[str, np.ndarray]:
        return next(calls[0] for calls in self.calls if calls)

    def _hook(self, layer: int):
        router = self.routers.all[layer]
        first = layer == 0 or self.routers.all[layer - 1].stack != router.stack

        def hook(_module: nn.Module, args: tuple, kwargs: dict, output: object) -> None:
            hidden = (*args, *kwargs.values())[0]
            if not first and (self._last is None or self._last[0] != layer - 1):
                raise CaptureError(f"the router {router.name} did not run after {self.routers.all[layer - 1].name}")
            routing = router.read(output)
            ahead = None if first else picks(router.decide(self._last[1].to(hidden.device)))
            self._last = (layer, hidden.clone())  # models may go on to change it in place
            self.calls[layer].append(self._arrays(routing, ahead))

        return hook

    def _arrays(self, routing: Routing, ahead: Tensor | None) -> dict[str, np.ndarray]:
        """A call's tensors, as the trace has them."""
        dtype = getattr(torch, self.options.score_dtype)
        ids, weights = ranked(routing)
        dropped = ids == DROPPED
        arrays = {"expert_ids": ids.masked_fill(dropped, NO_EXPERT)}
        if routing.weights is not None:
            arrays["gate_scores"] = weights.masked_fill(dropped, 0).to(dtype)
        none = dropped.any(-1, keepdim=True)
        scores = routing.scores.masked_fill(none, 0)
        if self.options.scores == "all":
            arrays["router_scores"] = scores.to(dtype)
        elif self.options.scores != "none":
            if not ids.shape[-1] <= self.options.scores < scores.shape[-1]:
                raise CaptureError(
                    f"the {self.options.scores} best scores: the model chooses {ids.shape[-1]} of {scores.shape[-1]} "
                    "experts; record at least as many as are chosen, and for all of them say all"
                )
            best, candidates = scores.sort(dim=-1, descending=True, stable=True)
            arrays["router_scores"] = best[:, : self.options.scores].to(dtype)
            arrays["candidate_ids"] = candidates[:, : self.options.scores].masked_fill(none, NO_EXPERT)
        arrays["lookahead_ids"] = torch.full_like(ids, NO_EXPERT) if ahead is None else ahead
        return {name: _numpy(array) for name, array in arrays.items()}


def _numpy(array: Tensor) -> np.ndarray:
    """Scores as they are, ids as U16 (by way of 32 bits: torch cannot convert to U16 everywhere)."""
    return array.cpu().numpy() if array.is_floating_point() else array.to(torch.int32).cpu().numpy().astype(np.uint16)


@torch.no_grad()
def run_batch(model, recorder: Recorder, prompts: list[list[int]], seed: int) -> list[Rows]:
    """One batch through the model; the rows of each of its requests."""
    options = recorder.options
    both = model.config.is_encoder_decoder
    width = max(map(len, prompts))
    pad = getattr(model.config.get_text_config(), "pad_token_id", None) or 0
    tokens = torch.full((len(prompts), width), pad)
    mask = torch.zeros_like(tokens)
    for i, prompt in enumerate(prompts):
        # A decoder is padded on the left, so that all prompts end together; an encoder on the right, because
        # experts of limited capacity (Switch) serve the tokens that come first.
        begin = 0 if both else width - len(prompt)
        tokens[i, begin : begin + len(prompt)] = torch.tensor(prompt)
        mask[i, begin : begin + len(prompt)] = 1
    torch.manual_seed(seed)
    recorder.start()
    sequences = model.generate(
        input_ids=tokens.to(model.device), attention_mask=mask.to(model.device),
        max_new_tokens=max(1, options.max_new_tokens), pad_token_id=pad, use_cache=True, disable_compile=True,
        return_dict_in_generate=False,
        **_choice_of_tokens(options.temperature),
    )  # fmt: skip
    generated = sequences[:, 1:] if both else sequences[:, width:]
    counts = _generated_counts(generated.tolist(), model.generation_config.eos_token_id)
    recorder.passes(DECODER, generated.shape[1])
    if both:
        recorder.passes(ENCODER, 1)
        return [
            _encoder_decoder_rows(recorder, i, len(p), width, n)
            for i, (p, n) in enumerate(zip(prompts, counts, strict=True))
        ]
    return [_decoder_rows(recorder, i, len(p), width, n) for i, (p, n) in enumerate(zip(prompts, counts, strict=True))]


def _choice_of_tokens(temperature: float) -> dict[str, object]:
    if temperature > 0:
        return {"do_sample": True, "temperature": temperature}
    return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}


def _generated_counts(generated: list[list[int]], eos: int | list[int] | None) -> list[int]:
    """Tokens of each sequence, up to and with its first end-of-sequence token: behind it, generate() pads."""
    ends = set() if eos is None else {eos} if isinstance(eos, int) else set(eos)
    return [next((n + 1 for n, token in enumerate(row) if token in ends), len(row)) for row in generated]


def _decoder_rows(recorder: Recorder, i: int, length: int, width: int, generated: int) -> Rows:
    """The prompt's tokens come from pass 0, where sequence i has the rows from i * width on, its own last; the first
    generated token comes out of that pass, and each pass after it takes one token in."""
    decoded = generated - 1 if recorder.options.max_new_tokens > 0 else 0
    prompt = list(range((i + 1) * width - length, (i + 1) * width))
    arrays = recorder.rows(DECODER, [(0, prompt)] + [(call, [i]) for call in range(1, decoded + 1)])
    return Rows(arrays, np.array([PREFILL] * length + [DECODE] * decoded, np.uint8))


def _encoder_decoder_rows(recorder: Recorder, i: int, length: int, width: int, generated: int) -> Rows:
    """The encoder sees the prompt, its own tokens first; the decoder starts from a token of its own."""
    decoded = generated if recorder.options.max_new_tokens > 0 else 0
    arrays = recorder.rows(ENCODER, [(0, list(range(i * width, i * width + length)))])
    if decoded:
        more = recorder.rows(DECODER, [(call, [i]) for call in range(decoded)])
        arrays = {name: np.concatenate([array, more[name]]) for name, array in arrays.items()}
    return Rows(arrays, np.array([ENCODER_PHASE] * length + [DECODE] * decoded, np.uint8))
