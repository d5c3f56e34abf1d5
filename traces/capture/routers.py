"""Finds the routers of a transformers model and reads what they decide.

A router is a module that is called once a MoE layer with the tokens' hidden states and says which experts they go to.
FAMILIES says, by the model's type, which class it is and how to read its output; in a model that is not in the table,
routers are found by shape.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .errors import CaptureError

ENCODER, DECODER = "encoder", "decoder"
DROPPED = -1  # in ids: the token's expert was full, no expert serves it

# How configurations name the number of routed experts and the number that serve a token.
EXPERTS_NAMES = ("num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts")
TOP_K_NAMES = ("num_experts_per_tok", "num_experts_per_token", "num_selected_experts", "moe_top_k", "moe_topk", "moe_k")


@dataclass(frozen=True)
class Routing:
    """What a router decided for n tokens."""

    scores: Tensor  # [n, experts] what it gave every expert, before the top-k
    ids: Tensor  # [n, k] the chosen experts, or DROPPED
    weights: Tensor | None  # [n, k] of the chosen, as the model applies them; None: not known


@dataclass(frozen=True)
class Family:
    router: str  # class name of the router modules
    read: Callable[[object], Routing]
    scores: str = "logits"  # what Routing.scores are: logits (then softmax), or sigmoid (applied already)


@dataclass(frozen=True)
class Router:
    name: str  # path of the module in the model
    stack: str  # ENCODER or DECODER
    module: nn.Module
    read: Callable[[object], Routing]

    def decide(self, hidden: Tensor) -> Routing:
        """What this router makes of other hidden states than the model gives it; calls no hooks."""
        return self.read(self.module.forward(hidden))


@dataclass(frozen=True)
class Routers:
    """A model's routers in the order in which they run, an encoder's first."""

    all: list[Router]
    experts: int  # of each
    scores: str
    note: str  # for the provenance: how the choice was read, where that is not the model's own word

    def layers(self, stack: str) -> list[int]:
        return [i for i, router in enumerate(self.all) if router.stack == stack]


def read_choice(output: object) -> Routing:
    """(logits, weights, ids): how transformers' decoders return it since version 5."""
    logits, weights, ids = output
    return Routing(_flat(logits).float(), _flat(ids), _flat(weights).float())


def read_sigmoid_choice(output: object) -> Routing:
    """The same with sigmoid gates. The choice may add a correction bias and groups; the scores are without them."""
    logits, weights, ids = output
    return Routing(_flat(logits).float().sigmoid(), _flat(ids), _flat(weights).float())


def read_switch(output: object) -> Routing:
    """(one-hot choice, its probability, logits); the choice is all zeros where the expert had no place left."""
    chosen, probability, logits = (_flat(tensor) for tensor in output)
    dropped = chosen.sum(-1, keepdim=True) == 0
    ids = chosen.argmax(-1, keepdim=True).masked_fill(dropped, DROPPED)
    return Routing(logits.float(), ids, probability.float())


FAMILIES = {
    "mixtral": Family("MixtralTopKRouter", read_choice),
    "qwen2_moe": Family("Qwen2MoeTopKRouter", read_choice),
    "qwen3_moe": Family("Qwen3MoeTopKRouter", read_choice),
    "qwen3_next": Family("Qwen3NextTopKRouter", read_choice),
    "deepseek_v2": Family("DeepseekV2TopkRouter", read_choice),
    "deepseek_v3": Family("DeepseekV3TopkRouter", read_sigmoid_choice, "sigmoid"),
    "olmoe": Family("OlmoeTopKRouter", read_choice),
    "gpt_oss": Family("GptOssTopKRouter", read_choice),
    "phimoe": Family("PhimoeTopKRouter", read_choice),
    "switch_transformers": Family("SwitchTransformersTop1Router", read_switch),
}


def find_routers(model: nn.Module) -> Routers:
    """By the family table, else by shape; CaptureError if there are none."""
    config = model.config
    family = FAMILIES.get(config.model_type)
    if family is not None:
        found = [(name, module) for name, module in model.named_modules() if type(module).__name__ == family.router]
        if found:
            routers = [Router(name, _stack(name, config), module, family.read) for name, module in found]
            return Routers(routers, _experts(routers), family.scores, "")
    return _find_by_shape(model)


def ranked(routing: Routing) -> tuple[Tensor, Tensor]:
    """The chosen experts [n, k] by falling weight (score, where that is unknown), equal ones by id; and these."""
    ids, by_id = routing.ids.long().sort(dim=-1)
    if routing.weights is not None:
        values = routing.weights.gather(-1, by_id)
    else:
        values = routing.scores.gather(-1, ids.clamp(min=0))
    values, order = values.sort(dim=-1, descending=True, stable=True)
    return ids.gather(-1, order), values


def picks(routing: Routing) -> Tensor:
    """The experts [n, k] by falling weight; where one has no place left, those that the router would have picked."""
    ids, _ = ranked(routing)
    best = routing.scores.topk(ids.shape[-1]).indices
    return torch.where(ids == DROPPED, best, ids)


def _find_by_shape(model: nn.Module) -> Routers:
    """Routers are what stands beside experts and gives a score to each.

    Experts are a ModuleList of E modules, or a module with a parameter [E, ., .]. Their router is the outermost module
    under the same parent that holds exactly one weight [E, hidden] and is not the experts.
    """
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    experts, top_k = _number(config, EXPERTS_NAMES), _number(config, TOP_K_NAMES)
    if experts is None or top_k is None:
        raise CaptureError(
            f"a model of type {config.model_type!r} is not in the table of families ({', '.join(FAMILIES)}), and its "
            f"configuration does not say how many experts there are ({', '.join(EXPERTS_NAMES)}) and how many serve a "
            f"token ({', '.join(TOP_K_NAMES)})"
        )
    read = _reader_by_shape(experts, top_k)
    routers = []
    for path, parent in model.named_modules():
        children = dict(parent.named_children())
        if not any(_is_experts(child, experts) for child in children.values()):
            continue
        for name, child in children.items():
            if not _is_experts(child, experts) and _scores_experts(child, experts):
                routers.append(Router(f"{path}.{name}", _stack(path, model.config), child, read))
    if not routers:
        raise CaptureError(
            f"no router found in a model of type {config.model_type!r}: none of its modules has {experts} experts "
            f"and beside them a weight [{experts}, hidden]"
        )
    note = f"routers found by shape; the experts of a router that only scores are the {top_k} best"
    return Routers(routers, experts, "logits", note)


def _is_experts(module: nn.Module, experts: int) -> bool:
    if isinstance(module, nn.ModuleList):
        return len(module) == experts
    return any(p.dim() == 3 and p.shape[0] == experts for p in module.parameters(recurse=False))


def _scores_experts(module: nn.Module, experts: int) -> bool:
    return sum(p.dim() == 2 and p.shape[0] == experts for p in module.parameters()) == 1


def _reader_by_shape(experts: int, top_k: int) -> Callable[[object], Routing]:
    def read(output: object) -> Routing:
        tensors = [_flat(t) for t in (output if isinstance(output, tuple | list) else [output]) if _is_rows(t)]
        scores = [t for t in tensors if t.shape[-1] == experts and t.is_floating_point()]
        ids = [t for t in tensors if t.shape[-1] == top_k and not t.is_floating_point()]
        weights = [t for t in tensors if t.shape[-1] == top_k and t.is_floating_point() and top_k != experts]
        if len(scores) != 1:
            shapes = ", ".join(f"{t.dtype} {list(t.shape)}" for t in tensors)
            raise CaptureError(
                f"a router found by shape returns {shapes or 'no tensors'}: not one score for each of {experts} experts"
            )
        logits = scores[0].float()
        if len(ids) == 1 and len(weights) == 1:
            return Routing(logits, ids[0], weights[0].float())
        return Routing(logits, logits.topk(top_k).indices, None)

    return read


def _is_rows(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() >= 2


def _experts(routers: list[Router]) -> int:
    """How many experts every router scores: rows of its weight."""
    counts = {weight.shape[0] for router in routers for weight in router.module.parameters() if weight.dim() == 2}
    if len(counts) != 1:
        raise CaptureError(f"layers have different numbers of experts ({sorted(counts)}): a trace holds one number")
    return counts.pop()


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _stack(name: str, config: object) -> str:
    return ENCODER if getattr(config, "is_encoder_decoder", False) and "encoder" in name.split(".") else DECODER


def _number(config: object, names: tuple[str, ...]) -> int | None:
    values = [getattr(config, name, None) for name in names]
    return next((value for value in values if isinstance(value, int) and value > 0), None)
