// Seeds that are text: tables, lines and configurations, written by hand.
#pragma once

#include <array>

namespace moelab::test {

/// A seed that starts with a byte which chooses a form (see the target).
struct TextSeed {
  const char* target;
  const char* name;
  unsigned form;
  const char* text;
};

inline constexpr std::array<TextSeed, 25> kTextSeeds{{
    {"csv_routing", "long", 0, "token,layer,e\n0,0,1\n0,0,2\n0,3,0\n0,3,7\n1,0,2\n1,0,3\n1,3,-1\n1,3,-1\n"},
    {"csv_routing", "columns", 3, "token,layer,e,e1,s,s1\n0,0,1,2,0.75,0.25\n1,0,3,4,1e-3,0\n"},
    {"csv_routing", "lists", 2, "token,layer,e,s\n0,0,\"[1, 2]\",0.5;0.25\n0,1,3 4,\"[1,0]\"\n"},
    {"csv_routing", "requests", 188,
     "request;token;layer;e;rank;phase;domain\na;0;0;1;0;prefill;x\na;0;0;2;1;prefill;x\n\"b\";0;0;5;0;"
     "decode;\"y"
     "\"\"z\"\nb;0;0;4;1;2;\"y\"\"z\"\n"},
    {"csv_routing", "dense", 64, "\xef\xbb\xbftoken,layer,e\r\n0,0,9\r\n0,1,1\r\n\r\n1,0,9\r\n1,1,2\r\n"},
    {"jsonl_routing", "requests", 136,
     "{\"a\": {\"e\": [[[1, 2]], [[3, 0]]], \"s\": [[[0.5, 0.25]], [[1, 0]]]}, \"prompt\": 1}\n"
     "{\"a\": {\"e\": [[[4, 2]]], \"s\": [[[5e-1, 0.25]]]}, \"prompt\": 0}\n"},
    {"jsonl_routing", "tokens", 101,
     "{\"request\": \"r\", \"token\": 0, \"phase\": \"prefill\", \"domain\": \"d\", \"a\": {\"e\": [[1], "
     "[2]]}}\n"
     "{\"request\": \"r\", \"token\": 1, \"phase\": 2, \"domain\": \"d\", \"a\": {\"e\": [[3], [4]]}}\n"},
    {"jsonl_routing", "layers", 3,
     "{\"token\":0,\"layer\":0,\"a\":{\"e\":[1,2]}}\n{\"token\":0,\"layer\":1,\"a\":{\"e\":[-1,-1]}}\n"},
    {"jsonl_routing", "experts", 19,
     "{\"token\":0,\"layer\":0,\"rank\":0,\"a\":{\"e\":1}}\n{\"token\":0,\"layer\":0,\"rank\":1,\"a\":{\"e\":"
     "2}}\n"},
    {"vllm", "base64", 0,
     R"({"id": "a", "choices": [{"index": 0, "text": "x", "routed_experts": "k05VTVBZAQB2AHsnZGVzY3InOiAnfHUxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDEsIDIpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAgMA"}], "usage": {"prompt_tokens": 2, "completion_tokens": 1}, "prompt_routed_experts": null}
)"},
    {"vllm", "lists", 1,
     R"({"prompt_routed_experts": [[[1, 2]], [[3, 0]]], "choices": [{"routed_experts": [[[0, 1]], [[0, 0]]]}], "usage": {"prompt_tokens": 2, "completion_tokens": 2}}
)"},
    {"vllm", "choices", 0,
     R"({"prompt_routed_experts": [[[1]]], "choices": [{"routed_experts": [[[0]]]}, {"routed_experts": [[[2]]]}], "usage": {"prompt_tokens": 1, "completion_tokens": 4}}
)"},
    {"counts_table", "long", 12, "prompt,layer,expert,count,kind\na,0,1,5,a\na,0,2,6,b\nb,0,1,7,a\n"},
    {"counts_table", "wide", 50, "layer,e0,e1,kind\n3,0.25,0.75,a\n4,1,0,b\n"},
    {"counts_table", "logical", 1, R"({"logical_count": [[[1, 2], [3, 4]], [[0, 0], [0, 0]]]})"},
    {"counts_table", "physical", 1,
     R"({"physical_count": [[1, 2, 3]], "physical_to_logical_map": [[1, 0, 1]]})"},
    {"request_logs", "mooncake", 0,
     "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n"
     "{\"timestamp\": 27482.5, \"input_length\": 7, \"output_length\": 5}\n"},
    {"request_logs", "azure", 1,
     "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 "
     "18:17:04.0319600,3180,8\n"},
    {"request_logs", "azure_zone", 1,
     "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29T23:59:60Z,1,1\n2024-03-01T00:00:01+00:00,2,2\n"},
    {"request_logs", "burstgpt", 10,
     "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log "
     "Type\n5,ChatGPT,472,18,490,Conversation log\n"
     "45,ChatGPT,1087,0,1087,Conversation log\n"},
    {"request_logs", "lengths", 3, "prompt_tokens,output_tokens\n3,4\n5,6\n"},
    {"request_logs", "arrivals", 51, "prompt_tokens,output_tokens,arrival\n3,4,0.5\n5,6,1e3\n"},
    {"request_logs", "own", 4, "arrival_s,prompt_tokens,output_tokens\n0.1,3,4\n7.25e-1,5,6\n"},
    {"scenario", "written_out", 0,
     "name: s\nquestion: why\nseed: 3\nmodel: deepseek-v2-lite\ndevice: jetson-agx-orin-64gb\nbudget: 10 "
     "GiB\n"
     "workload: {batch: 1, requests: 2, prompt_tokens: 16, output_tokens: 8, skew: 0.5}\nsystems: [zipmoe, "
     "{name: a, title: b, source: c, weights: whole, page_cache: true, schedule: {policy: fifo}, cache: "
     "{policy: "
     "lru}}]\noverrides: {system: "
     "{threads: "
     "2}, device: {gpu: {launch: {value: 5 us}}}}\n"},
    {"scenario", "json", 1,
     R"({"name": "a", "title": "b", "source": "c", "weights": "compressed", "codec": "zstd", "shards": 4, "threads": 2, "page_cache": false, "cache": {"policy": "marking", "keep_as": "C"}})"},
}};

/// A seed that is a file as it is.
struct PlainSeed {
  const char* target;
  const char* name;
  const char* text;
};

inline constexpr std::array<PlainSeed, 11> kPlainSeeds{{
    {"hf_config", "mixtral",
     R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})"},
    {"hf_config", "qwen2",
     R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "max_window_layers": 21, "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 16, "sliding_window": 4096, "use_sliding_window": false, "vocab_size": 151936, "decoder_sparse_step": 1, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60, "mlp_only_layers": [0]})"},
    {"hf_config", "qwen3_next",
     R"({"model_type": "qwen3_next", "decoder_sparse_step": 1, "full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "mlp_only_layers": [], "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 151936})"},
    {"hf_config", "deepseek_v3", R"({"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "topk_group": 4, "v_head_dim": 128, "vocab_size": 129280})"},
    {"hf_config", "gpt_oss",
     R"({"text_config": {"model_type": "gpt_oss", "attention_bias": true, "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention"], "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 2, "num_key_value_heads": 8, "num_local_experts": 32, "sliding_window": 128, "vocab_size": 201088}})"},
    {"hf_config", "nemotron_h",
     R"({"model_type": "nemotron_h", "conv_kernel": 4, "head_dim": 128, "hidden_size": 2688, "hybrid_override_pattern": "MEM*E-", "intermediate_size": 1856, "mamba_head_dim": 64, "mamba_num_heads": 64, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, "n_groups": 8, "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 32, "num_experts_per_tok": 6, "num_hidden_layers": 6, "num_key_value_heads": 2, "ssm_state_size": 128, "tie_word_embeddings": false, "use_bias": false, "use_conv_bias": true, "vocab_size": 131072})"},
    {"hf_config", "granite_hybrid",
     R"({"model_type": "granitemoehybrid", "hidden_size": 1536, "intermediate_size": 512, "layer_types": ["mamba", "attention", "mamba"], "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 48, "num_attention_heads": 12, "num_experts_per_tok": 6, "num_hidden_layers": 3, "num_key_value_heads": 4, "num_local_experts": 64, "shared_intermediate_size": 1024, "tie_word_embeddings": true, "vocab_size": 100352})"},
    {"hf_config", "switch",
     R"({"model_type": "switch_transformers", "d_ff": 2816, "d_kv": 64, "d_model": 1024, "decoder_sparse_step": 2, "encoder_sparse_step": 2, "num_decoder_layers": 24, "num_experts": 128, "num_heads": 16, "num_layers": 24, "num_sparse_decoder_layers": 12, "num_sparse_encoder_layers": 12, "vocab_size": 32128, "tie_word_embeddings": true})"},
    {"routing_law", "decoder",
     "format: moelab-routing-law\nversion: 1\nmodel: \"m\"\nprovenance: \"p\"\nexperts: 3\ntop_k: "
     "2\nprompt_tokens: "
     "10.5\ndecode_tokens: 20\nspan_tokens: [4, 64]\ndomains:\n  - {name: \"a\", share: 0.25}\n  - {name: "
     "\"b\", "
     "share: 0.75}\nlayers:\n  - {domain: 0.1, prompt: 0.2, spans: [0.1, 0.05], coupling: 0.5,\n     "
     "gate_sum: 1, "
     "gate_gaps: [0.5, 0.25], bias: [1.5, 0, -1]}\n  - {domain: 0, prompt: 0, spans: [0, 1], coupling: 0,\n  "
     "   "
     "gate_sum: 2.5, gate_gaps: [1], bias: [0, 0, 0]}\n"},
    {"routing_law", "encoder",
     "{\"format\": \"moelab-routing-law\", \"version\": 1, \"model\": \"\", \"provenance\": \"\", "
     "\"experts\": 1, "
     "\"top_k\": 1, \"prompt_tokens\": 0, \"decode_tokens\": 1e3, \"span_tokens\": [], \"layers\": "
     "[{\"encoder\": "
     "true, \"domain\": 0, \"prompt\": 0, \"spans\": [], \"coupling\": 1, \"bias\": [0]}, {\"domain\": 0, "
     "\"prompt\": 1, \"spans\": [], \"coupling\": 1, \"bias\": [2]}]}\n"},
    {"device", "cpu", R"(name: c
title: t
sources:
  b: {kind: measured, text: x}
measured_on: {cpu: e, kernel: k, driver: "", gpu: "", date: d, command: m}
memory:
  total: {value: 24 GB, source: b}
  system_reserve: {value: 1 GB, source: b}
cpu:
  threads: {value: 2, source: b}
  dispatch: {value: 24 us, spread: [20 us, 24 us, 40 us], source: b}
  recover: {points: [[1000, 1 us]], source: b}
  experts:
    - {hidden: 8, width: 8, matrices: 3, seconds: {points: [[1, 1 us], [2, 3 us]], source: b}}
  peak: {value: 1 GFLOP/s, source: b}
  bandwidth: {value: 1 GB/s, source: b}
  dense_launch: {value: 0 s, source: b}
  sharing: {value: [1, 1.5], source: b}
  slowdown_while_reading: {value: 1.5, source: b}
ssd:
  read: {latency: 0 s, rate: 1 GB/s, spread: [0.8, 1, 2], source: b}
  slowdown_while_decompressing: {value: 1, source: b}
  readers: {value: [1], source: b}
page_cache:
  read: {points: [[0 B, 0 s]], source: b}
codecs:
  z: {ratio: {value: 0.4, source: b}, decompress: {points: [[1 MiB, 1 ms]], source: b}}
)"},
}};

}  // namespace moelab::test
