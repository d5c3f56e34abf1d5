// Which machines a runtime runs on.
#pragma once

#include <string>

#include "models/machine_parts.hpp"
#include "models/runtime.hpp"

namespace moelab {

/// A runtime that this project knows: itself, or what a file of one's own is based on.
std::string family_of(const Runtime& runtime);

/// Whether it is vLLM, of whichever engine: `vllm`, `vllm-v1`.
bool is_vllm(const std::string& family);
/// Whether it serves many users from GPUs of NVIDIA or AMD: vLLM, SGLang, TensorRT-LLM.
bool is_gpu_server(const std::string& family);

/// Why a runtime does not run on a machine of such parts, whatever the weights; "" where it does.
std::string cannot_run_on(const Runtime& runtime, const MachineParts& machine);

}  // namespace moelab
