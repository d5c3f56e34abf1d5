// How a checkpoint stores its weights, by its configuration. Only hf_*.cpp use it.
#pragma once

#include <string>

#include "models/architecture.hpp"
#include "models/hf_config.hpp"

namespace moelab::hf {

/// What "quantization_config" says of the model, or `beside` (a hf_quant_config.json, null: there is none)
/// where it says nothing; BF16 where neither does. Methods: fp8, gptq, awq, mxfp4; compressed-tensors,
/// modelopt, bitsandbytes. Any other is a problem, as is what a method's keys say that is not covered.
/// Routers stay at 16 bits, runtimes do not quantise them. `note` gets what a reader of the result should
/// know.
StoredWeights read_quantization(const HfConfig& config, const HfConfig* beside, const Architecture& a,
                                std::string& note);

}  // namespace moelab::hf
