"""What the capture tests share: recording into a folder, reading a trace back, and another way through a model."""

from pathlib import Path

import capture_hf
import torch
from capture.recorder import Options
from safetensors import safe_open

NO_EXPERT = 65535
PREFILL, DECODE = 1, 2
PROMPTS = [[5, 17, 3, 44, 8], [9, 61, 23, 7, 80, 31, 2, 12, 55], [70, 4, 29]]
NEW_TOKENS = 5


class Trace:
    def __init__(self, path):
        with safe_open(path, "np") as file:
            self.metadata = file.metadata()
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}

    def __getattr__(self, name):
        return self.tensors[name]

    def request(self, i):
        return slice(int(self.request_offsets[i]), int(self.request_offsets[i + 1]))


def record(model, prompts, folder, name="trace.safetensors", domains=None, **options):
    path = Path(folder) / name
    requests = [capture_hf.Request(p, domains[i] if domains else None) for i, p in enumerate(prompts)]
    options = {"max_new_tokens": NEW_TOKENS, "score_dtype": "float32"} | options
    capture_hf.capture(model, requests, path, Options(**options), model_name="tiny", provenance="test")
    return Trace(path)


@torch.no_grad()
def greedy(model, prompt, count, eos=None):
    """Prompt and tokens, by full passes; ends with eos, which is a token too."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + count and (len(tokens) == len(prompt) or tokens[-1] != eos):
        tokens.append(int(model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    return tokens


@torch.no_grad()
def full_pass(model, blocks, **inputs):
    """The model's output, and what entered each of the MoE blocks, [tokens, hidden]."""
    entered = {}
    hooks = [
        block.register_forward_pre_hook(
            lambda _m, args, i=i: entered.update({i: args[0].reshape(-1, args[0].shape[-1]).numpy()})
        )
        for i, block in enumerate(blocks)
    ]
    out = model(**inputs, use_cache=False)
    for hook in hooks:
        hook.remove()
    return out, [entered[i] for i in range(len(blocks))]


def logits_of(router, hidden):
    bias = getattr(router, "bias", None)
    return hidden @ router.weight.detach().numpy().T + (0 if bias is None else bias.detach().numpy())
