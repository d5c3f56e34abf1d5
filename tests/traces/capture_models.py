"""Tiny models with random weights, one a case, with what the test must know of each to check its recorded routing:
where its MoE blocks are and the rule by which it chooses (capture_reference.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import capture_reference as reference
import torch
import transformers as tf

VOCABULARY = 96

_COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2,
    "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    config: type
    model: type
    settings: dict
    choose: Callable  # logits [tokens, experts] -> ids, weights; see capture_reference
    router: str = "mlp.gate"  # in a layer
    layers: list[int] = field(default_factory=lambda: [0, 1, 2])  # those with experts
    scores: str = "logits"
    uses_bias: bool = False  # the choice takes the router's correction bias as well

    def build(self) -> torch.nn.Module:
        """Deterministic weights; vectors that start as zeros (biases) get values, or they would test nothing."""
        torch.manual_seed(20)
        model = self.model(self.config(**(_COMMON | self.settings))).eval()
        for layer in self.layers:
            router = model.model.layers[layer].get_submodule(self.router)
            for name in ("bias", "e_score_correction_bias"):
                if getattr(router, name, None) is not None:
                    torch.nn.init.normal_(getattr(router, name), std=0.3)
        return model


_DEEPSEEK = {
    "n_routed_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 16, "n_shared_experts": 1,
    "intermediate_size": 32, "first_k_dense_replace": 1, "num_hidden_layers": 4, "num_key_value_heads": 4,
    "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    "routed_scaling_factor": 1.7,
}  # fmt: skip
_QWEN = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16, "head_dim": 8}

CASES = [
    Case(
        "mixtral", tf.MixtralConfig, tf.MixtralForCausalLM,
        {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 32},
        partial(reference.softmax_top, k=2, normalize=True),
    ),
    Case(
        "qwen2_moe", tf.Qwen2MoeConfig, tf.Qwen2MoeForCausalLM,
        {"num_experts": 8, "num_experts_per_tok": 4, "moe_intermediate_size": 16,
         "shared_expert_intermediate_size": 16},
        partial(reference.softmax_top, k=4, normalize=False),
    ),
    Case(
        "qwen2_moe with a dense layer", tf.Qwen2MoeConfig, tf.Qwen2MoeForCausalLM,
        {"num_experts": 8, "num_experts_per_tok": 4, "moe_intermediate_size": 16,
         "shared_expert_intermediate_size": 16, "intermediate_size": 32, "num_hidden_layers": 4,
         "mlp_only_layers": [1], "norm_topk_prob": True},
        partial(reference.softmax_top, k=4, normalize=True), layers=[0, 2, 3],
    ),
    Case(
        "qwen3_moe", tf.Qwen3MoeConfig, tf.Qwen3MoeForCausalLM, _QWEN | {"norm_topk_prob": True},
        partial(reference.softmax_top, k=3, normalize=True),
    ),
    Case(
        "qwen3_next", tf.Qwen3NextConfig, tf.Qwen3NextForCausalLM,
        _QWEN
        | {"num_hidden_layers": 4, "shared_expert_intermediate_size": 16, "linear_num_key_heads": 2,
           "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
        partial(reference.softmax_top, k=3, normalize=True), layers=[0, 1, 2, 3],
    ),
    Case(
        "deepseek_v2", tf.DeepseekV2Config, tf.DeepseekV2ForCausalLM, _DEEPSEEK | {"topk_method": "greedy"},
        partial(reference.softmax_top, k=4, normalize=False, scale=1.7), layers=[1, 2, 3],
    ),
    Case(
        "deepseek_v2 with groups", tf.DeepseekV2Config, tf.DeepseekV2ForCausalLM,
        _DEEPSEEK | {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
        partial(reference.softmax_groups, k=4, groups=4, kept=2, scale=1.7), layers=[1, 2, 3],
    ),
    Case(
        "deepseek_v3", tf.DeepseekV3Config, tf.DeepseekV3ForCausalLM,
        _DEEPSEEK | {"n_group": 4, "topk_group": 2, "norm_topk_prob": True},
        partial(reference.sigmoid_groups, k=4, groups=4, kept=2, scale=1.7),
        layers=[1, 2, 3], scores="sigmoid", uses_bias=True,
    ),
    Case(
        "olmoe", tf.OlmoeConfig, tf.OlmoeForCausalLM,
        {"num_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 16},
        partial(reference.softmax_top, k=2, normalize=False),
    ),
    Case(
        "gpt_oss", tf.GptOssConfig, tf.GptOssForCausalLM,
        {"num_local_experts": 8, "num_experts_per_tok": 4, "intermediate_size": 16, "head_dim": 8, "sliding_window": 6},
        partial(reference.top_softmax, k=4), router="mlp.router",
    ),
    Case(
        "phimoe", tf.PhimoeConfig, tf.PhimoeForCausalLM,
        {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 16, "router_jitter_noise": 0.2},
        partial(reference.sparse_mixer, jitter=0.2), router="mlp.router",
    ),
    Case(  # not in the table of families: found by shape
        "ernie4_5_moe, by shape", tf.Ernie4_5_MoeConfig, tf.Ernie4_5_MoeForCausalLM,
        {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16, "intermediate_size": 32,
         "moe_layer_start_index": 0, "moe_layer_end_index": 2, "moe_layer_interval": 1, "moe_num_shared_experts": 1},
        partial(reference.softmax_top, k=3, normalize=True),
    ),
    Case(
        "granitemoe, by shape", tf.GraniteMoeConfig, tf.GraniteMoeForCausalLM,
        {"num_local_experts": 8, "num_experts_per_tok": 3, "intermediate_size": 16},
        partial(reference.top_softmax, k=3), router="block_sparse_moe.router",
    ),
]  # fmt: skip


class GateAndList(torch.nn.Module):
    """A MoE block as models' own code has it: a plain Linear gate that only scores, and a list of experts."""

    def __init__(self, hidden: int, experts: int, k: int):
        super().__init__()
        self.gate = torch.nn.Linear(hidden, experts, bias=False)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(hidden, hidden, bias=False) for _ in range(experts))
        self.k = k

    def forward(self, hidden):
        weights, ids = self.gate(hidden).topk(self.k)
        every = torch.stack([expert(hidden) for expert in self.experts], dim=-2)
        chosen = every.gather(-2, ids[..., None].expand(*ids.shape, hidden.shape[-1]))
        return (weights.sigmoid()[..., None] * chosen).sum(-2)


def own_code_model() -> torch.nn.Module:
    """A Mixtral with such blocks: of a type in the table, but without the class that the table names."""
    model = CASES[0].build()
    for layer in model.model.layers:
        layer.mlp = GateAndList(32, 8, 2)
    return model


def switch_model(capacity: int) -> torch.nn.Module:
    """Every second layer of the encoder and of the decoder has experts: 2 + 2 MoE layers."""
    torch.manual_seed(21)
    config = tf.SwitchTransformersConfig(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=32, num_layers=4, num_sparse_encoder_layers=2,
        num_decoder_layers=4, num_sparse_decoder_layers=2, num_heads=4, num_experts=4, expert_capacity=capacity,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=None, initializer_factor=1.0,
    )  # fmt: skip
    return tf.SwitchTransformersForConditionalGeneration(config).eval()
