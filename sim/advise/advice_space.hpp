// What advice chooses from: runtimes for a machine, formats, splits and micro-batches that each offers.
#pragma once

#include <string>
#include <vector>

#include "sim/advise/advice.hpp"

namespace moelab {

/// llama.cpp and its like, which take GGUF files and layers of a model to the GPU one by one.
bool is_llama(const std::string& runtime);
/// Whether it is tried for what the CPU computes alone, where no name is asked for: ik_llama.cpp.
bool is_for_cpu_experts(const std::string& runtime);

/// Why it cannot run the request's model in such weights (empty: of a GGUF file) on its machine; empty where
/// it can.
std::string cannot_run(const Runtime& runtime, const std::string& weights, const AdviceRequest& request);
/// Why the runtime does not have its KV cache in that format; empty where it does.
std::string cannot_cache(const Runtime& runtime, const std::string& kv);

/// Those that the request names, or all for the machine's maker. Throws InputError for a name that lacks how
/// a runtime of this machine computes: llama.cpp in place of llama.cpp-cuda.
std::vector<std::string> runtimes_for(const AdviceRequest& request);
/// Of four bits and more: what fewer cost in quality, speed cannot say. Empty names stand for the weights of
/// the GGUF file that the request names.
std::vector<std::string> weights_for(const std::string& runtime, const AdviceRequest& request);
/// Whether the model was trained to have its experts in MXFP4 (gpt-oss). Files of all other types keep them
/// so
/// ("the size savings is basically non-existent", bartowski/openai_gpt-oss-20b-GGUF).
bool has_mxfp4_experts(const Architecture& model);
/// Smaller ones of four bits and more than weights_for() has, and those of fewer, the most bits first: what
/// is tried besides where no GPU holds the former whole. None where the request says which weights it wants,
/// the experts are MXFP4, or the runtime has no such format in the catalogue.
std::vector<std::string> smaller_weights_for(const std::string& runtime, const AdviceRequest& request);
std::vector<std::string> few_bit_weights_for(const std::string& runtime, const AdviceRequest& request);

/// Whether it can serve some of a model from the host's memory, beside a GPU.
bool offers_host(const Runtime& runtime);

/// Why a runtime whose GPUs share each layer cannot serve the model on so many of them; empty where it can,
/// and where it gives GPUs layers of their own.
std::string cannot_share(const Runtime& runtime, const Architecture& model, int gpus);

/// A split on so many of the machine's GPUs.
struct AdvicePlace {
  int gpus;
  Split split;
};
/// All that the runtime offers, the most on the GPU first.
std::vector<AdvicePlace> places_of(const Runtime& runtime, const Architecture& model,
                                   const MachineParts& machine);
std::vector<double> micro_batches_of(const Runtime& runtime);

}  // namespace moelab
