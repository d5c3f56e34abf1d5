// What a model weighs in the formats that people download it in: from a short name ("gguf-q4_k_m", "fp8") or
// by part ({experts: mxfp4, head: q8_0}).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture.hpp"

namespace moelab {

class YamlMap;

/// The model's weights as a whole-model name says:
/// - "bf16", "fp16", "fp32": all of it;
/// - "mlx-4bit", "q4f16_1" and their like: all of it but the router;
/// - "fp8", "int8", "gptq-int4", "awq", "nvfp4", "mxfp8", "int4-g128", "bnb-nf4" and their like: its linear
/// layers; embedding, head and router stay 16-bit;
/// - "gguf-TYPE": as llama.cpp's quantize mixes types for it (llama_tensor_get_type: by tensor and layer,
/// with
///   the fall-backs for rows that do not divide by 256; norms and routers 32-bit). TYPE is "q4_k_m", "q8_0",
///   "iq4_xs", ...; "mxfp4": experts MXFP4, the rest Q8_0. Importance matrices change types little and are
///   left out.
/// - "mxfp4": the experts, the rest BF16.
/// Throws InputError for an unknown name, with the closest.
StoredWeights stored_as(const Architecture& model, std::string_view name);
/// The largest tensor that holds one matrix of all of a layer's experts: of a GGUF mixture in the widest type
/// that it gives one, else in the experts' mean. 0: no experts.
Bytes largest_expert_tensor(const Architecture& model);
/// All names that stored_as() takes.
std::vector<std::string> stored_names();
/// Whether ik_llama.cpp reads files of that name ("gguf-iq3_k") and llama.cpp does not.
bool is_of_ik_llama(std::string_view name);

/// What keys and values can be cached in: runtimes' 16 bits and FP8, and llama.cpp's cache types. What it
/// takes to convert them is not counted.
std::vector<std::string> cache_formats();
/// Bytes of a cached value, scales included; nothing for another format.
std::optional<double> cache_bytes(std::string_view format);

/// The model's title, with what its weights are stored as and what they weigh where that is not BF16:
/// "GPT-OSS-20B (experts mxfp4, else bf16: 13.79 GB)".
/// With several `gpus`, `model` is what each of them has; where they divide the experts by number, it has all
/// experts, and of the rest what each of them has: then what lies on all of them together is said.
std::string title_with_weights(const Architecture& model, std::uint32_t gpus = 1,
                               bool experts_divided = false);

/// Reads `key` of a map: a whole-model name, or formats by part ("q4_k", or "gguf-q4_k_m": what that mixture
/// gives the part) with `all` for those not named, and the KV cache's (`kv`); absent: what the model's own
/// file says. Problems go to the document's.
StoredWeights read_stored(const YamlMap& map, std::string_view key, const Architecture& model);

}  // namespace moelab
