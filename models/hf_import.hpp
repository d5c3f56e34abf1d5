// The architecture that a Hugging Face config.json describes.
#pragma once

#include <string>
#include <string_view>

#include "models/architecture.hpp"

namespace moelab {

/// Reads the config.json of a model, of a Mixture-of-Experts or dense (text; a multimodal model's
/// "text_config" is taken). The families by model_type: mixtral, qwen2_moe, qwen3_moe, qwen3_next, deepseek,
/// deepseek_v2, deepseek_v3, kimi_k2, olmoe, gpt_oss, phimoe, switch_transformers, xverse; llama, mistral,
/// qwen2, qwen3. Any other is read by the key names that these use, which its `source` then says. Weights are
/// in what "quantization_config" says (hf_quantization.hpp), or for a file called config.json a
/// hf_quant_config.json beside it; else taken as served in BF16 whatever the checkpoint's type.
///
/// `name`: the architecture's name; empty: the model's folder (for a file called config.json) or the file's
/// stem, in lower case. Throws InputError with every key that is missing, of the wrong type or out of range,
/// also for a file that cannot be opened, is larger than 16 MiB, nests deeper than 64 levels or is not JSON.
Architecture import_hf_config(const std::string& path, const std::string& name = {});

/// The same from text; `file` stands for the file in messages and gives the name where `name` is empty.
Architecture parse_hf_config(const std::string& file, std::string_view text, const std::string& name = {});

}  // namespace moelab
