#include "sim/advise/advice_space.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/runtime_fit.hpp"
#include "models/stored_weights.hpp"
#include "models/tensor_parallel.hpp"

namespace moelab {
namespace {

/// The model itself, as it is in its GGUF file.
constexpr std::string_view kOfTheFile;

/// Why so many GPUs cannot share the model's layers: its heads, widths or groups of weights do not divide by
/// them. Empty where they can.
std::string cannot_share(const Architecture& model, int gpus) {
  try {
    (void)tensor_parallel_part(model, gpus);
    return "";
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
}

std::vector<int> sharing_gpus(const Architecture& model, int most) {
  std::vector<int> numbers{1};
  for (int n = 2; n <= most; ++n)
    if (cannot_share(model, n).empty()) numbers.push_back(n);
  return numbers;
}

/// Of llama.cpp: experts of the first layers, or where there are none whole layers, on the CPU.
std::vector<Split> llama_splits(const Architecture& model) {
  std::vector<Split> splits;
  const int moe_layers = static_cast<int>(model.moe_layers().size());
  const int layers = static_cast<int>(model.layers.size());
  if (model.is_moe())
    for (int n = 1; n <= moe_layers; ++n) splits.push_back({.cpu_expert_layers = n});
  else
    for (int n = 1; n < layers; ++n) splits.push_back({.cpu_layers = n});
  splits.push_back({.cpu_only = true});
  return splits;
}

std::vector<Split> host_splits(const Runtime& runtime, const Architecture& model) {
  if (!offers_host(runtime)) return {};
  const std::string family = family_of(runtime);
  if (is_llama(family)) return llama_splits(model);
  std::vector<Split> splits;
  if (is_vllm(family))
    for (int n = 1; n <= static_cast<int>(model.layers.size()); ++n) splits.push_back({.link_layers = n});
  if (family.starts_with("ktransformers") && model.is_moe()) {
    const int experts = model.moe().experts;
    for (int n = experts - 1; n >= 0; --n)
      splits.push_back({.gpu_expert_share = static_cast<double>(n) / experts});
  }
  return splits;
}

/// Of the machine's own runtimes the one that a name stands for but for how it computes: llama.cpp, beside a
/// GPU of NVIDIA, for llama.cpp-cuda. "" where there is none.
std::string runtime_meant(std::string name, const std::vector<std::string>& offered) {
  const auto with_hyphens = [](std::string text) {
    std::ranges::replace(text, '.', '-');
    return text;
  };
  const std::string begin = with_hyphens(std::move(name)) + "-";
  const auto found = std::ranges::find_if(
      offered, [&](const std::string& one) { return with_hyphens(one).starts_with(begin); });
  return found == offered.end() ? "" : *found;
}

/// Programs that have llama.cpp in them, as people name them.
bool has_llama_inside(std::string name) {
  std::erase_if(name, [](char c) { return c == '-' || c == '_' || c == ' ' || c == '.'; });
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  constexpr std::array<std::string_view, 7> programs{"ollama",    "lmstudio", "koboldcpp", "jan",
                                                     "llamafile", "gpt4all",  "lemonade"};
  return std::ranges::find(programs, name) != programs.end();
}

/// Why the runtime does not read GGUF files of that type of a model with such experts; empty where it does.
std::string cannot_read(const Runtime& runtime, std::string_view weights, const Architecture& model) {
  constexpr std::string_view kGguf = "gguf-";
  const GgufLimits& limits = runtime.gguf;
  if (!weights.starts_with(kGguf)) return "";
  const std::vector<std::string>& types = limits.types;
  if (!types.empty() && std::ranges::find(types, weights.substr(kGguf.size())) == types.end())
    return "'" + runtime.name + "' does not run weights in " + std::string(weights) + " (" +
           limits.types_source + ")";
  if (model.is_moe() && model.moe().width % limits.width_multiple != 0)
    return "'" + runtime.name + "' runs GGUF files of models whose experts' width is a multiple of " +
           std::to_string(limits.width_multiple) + ", and that of " + model.title + " is " +
           std::to_string(model.moe().width) + " (" + limits.width_source + ")";
  return "";
}

std::vector<std::string> runtimes_offered(const AdviceRequest& request) {
  const MachineParts& machine = request.machine;
  if (!machine.gpu && request.model.is_moe()) return {"llama.cpp-cpu", "ik_llama.cpp-cpu"};
  if (!machine.gpu) return {"llama.cpp-cpu"};
  if (machine.gpu->maker == "apple" && request.gguf.empty()) return {"llama.cpp-metal", "mlx"};
  if (machine.gpu->maker == "apple") return {"llama.cpp-metal"};
  if (machine.gpu->maker == "amd") return {"llama.cpp-rocm", "llama.cpp-vulkan"};
  if (machine.gpu->maker == "intel") return {"llama.cpp-vulkan"};
  const bool cpu_experts = !machine.gpu->unified() && machine.cpu && request.model.is_moe();
  std::vector<std::string> names{"llama.cpp-cuda"};
  if (cpu_experts) names.emplace_back("ik_llama.cpp-cuda");
  if (!request.gguf.empty()) return names;
  names.emplace_back("vllm");
  if (cpu_experts) names.emplace_back("ktransformers");
  return names;
}

/// Whether its GPUs have a slice of every layer each.
bool shares_layers(const Runtime& runtime) {
  return runtime.tensor_parallel > 0 || family_of(runtime).starts_with("ktransformers");
}

}  // namespace

std::string cannot_share(const Runtime& runtime, const Architecture& model, int gpus) {
  return shares_layers(runtime) ? cannot_share(model, gpus) : "";
}

bool is_llama(const std::string& runtime) {
  return runtime.starts_with("llama.cpp") || runtime.starts_with("ik_llama.cpp");
}

bool is_for_cpu_experts(const std::string& runtime) {
  return runtime.starts_with("ik_llama.cpp");
}

std::string cannot_run(const Runtime& runtime, const std::string& weights, const AdviceRequest& request) {
  const MachineParts& machine = request.machine;
  if (std::string lacks = cannot_run_on(runtime, machine); !lacks.empty()) return lacks;
  const std::string family = family_of(runtime);
  const bool gguf = weights.empty() || weights.starts_with("gguf"), mlx = weights.starts_with("mlx");
  const bool mlc = weights.starts_with("q") && weights.find("f16") != std::string::npos;
  const bool kt = family.starts_with("ktransformers");
  // Its tutorial on native precision: all its methods but that for GGUF files (llamafile's kernels) ask for
  // AVX-512.
  if (kt && !gguf && machine.cpu && !machine.cpu->avx512())
    return "'" + runtime.name + "' computes weights in " + weights + " with AVX-512, which " +
           machine.cpu->title + " has not";
  if (family.starts_with("llama.cpp") && is_of_ik_llama(weights))
    return "'" + runtime.name + "' does not run weights in " + weights + ", which ik_llama.cpp alone reads";
  const bool takes = is_llama(family)  ? gguf
                     : family == "mlx" ? mlx || weights == "bf16" || weights == "fp16"
                     : family == "mlc" ? mlc
                     : kt              ? !mlx && !mlc
                                       : !gguf && !mlx && !mlc;
  if (!takes)
    return "'" + runtime.name + "' does not run weights in " + (weights.empty() ? "a GGUF file" : weights);
  return cannot_read(runtime, weights.empty() ? request.model.stored.name : weights, request.model);
}

std::string cannot_cache(const Runtime& runtime, const std::string& kv) {
  if (kv.empty() || kv == "bf16" || kv == "fp16") return "";
  const std::string family = family_of(runtime);
  if (kv == "fp8" ? is_gpu_server(family) : is_llama(family)) return "";
  return "'" + runtime.name + "' does not cache keys and values in " + kv;
}

std::vector<std::string> runtimes_for(const AdviceRequest& request) {
  const std::vector<std::string> offered = runtimes_offered(request), known = config_names("runtimes");
  if (request.runtimes.empty()) return offered;
  for (const std::string& name : request.runtimes) {
    if (is_config_path(name) || std::ranges::find(known, name) != known.end()) continue;
    if (has_llama_inside(name))
      throw InputError("", "unknown runtime '" + shown_word(name) + "': it has llama.cpp in it, which is '" +
                               offered.front() + "' here; `moelab runtimes` lists all");
    if (const std::string meant = runtime_meant(name, offered); !meant.empty())
      throw InputError("", "unknown runtime '" + shown_word(name) + "' (did you mean '" + meant +
                               "'?); `moelab runtimes` lists them");
  }
  return request.runtimes;
}

bool has_mxfp4_experts(const Architecture& model) {
  return model.stored.of(WeightPart::experts) == find_weight_format("mxfp4").bits / 8;
}

std::vector<std::string> weights_for(const std::string& runtime, const AdviceRequest& request) {
  const Architecture& model = request.model;
  if (!request.weights.empty()) return request.weights;
  if (!request.gguf.empty()) return {std::string(kOfTheFile)};
  const bool mxfp4 = has_mxfp4_experts(model);
  if (is_llama(runtime)) {
    if (mxfp4) return {"gguf-mxfp4"};
    // Beside llama.cpp's rows, which show what more bits cost in either.
    if (is_for_cpu_experts(runtime) && request.runtimes.empty()) return {"gguf-q4_k_m"};
    return {"gguf-q8_0", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m"};
  }
  if (runtime == "mlx") return {"mlx-8bit", "mlx-6bit", "mlx-4bit"};
  if (mxfp4) return {"mxfp4"};
  if (runtime.starts_with("ktransformers")) return {"bf16", "gguf-q4_k_m"};
  return {"bf16", "fp8", "awq"};
}

namespace {

/// Whether there are files of fewer bits than those of weights_for(), and the request leaves the choice.
bool has_smaller(const std::string& runtime, const AdviceRequest& request) {
  return request.weights.empty() && request.gguf.empty() && is_llama(runtime) &&
         !has_mxfp4_experts(request.model);
}

}  // namespace

std::vector<std::string> smaller_weights_for(const std::string& runtime, const AdviceRequest& request) {
  if (!has_smaller(runtime, request)) return {};
  // Q4_0 and IQ4_NL have 4.5 bits, as good as Q4_K_S.
  return {"gguf-q4_k_s", "gguf-iq4_xs"};
}

std::vector<std::string> few_bit_weights_for(const std::string& runtime, const AdviceRequest& request) {
  if (!has_smaller(runtime, request)) return {};
  return {"gguf-q3_k_m", "gguf-iq3_xxs", "gguf-q2_k", "gguf-iq2_xxs"};
}

bool offers_host(const Runtime& runtime) {
  const std::string family = family_of(runtime);
  return is_llama(family) || is_vllm(family) || family.starts_with("ktransformers");
}

std::vector<AdvicePlace> places_of(const Runtime& runtime, const Architecture& model,
                                   const MachineParts& machine) {
  if (!machine.gpu || family_of(runtime).ends_with("-cpu")) return {{machine.gpus, Split{.cpu_only = true}}};
  const std::vector<int> numbers =
      shares_layers(runtime) ? sharing_gpus(model, machine.gpus) : std::vector<int>{machine.gpus};
  std::vector<Split> splits{Split{}};
  if (!machine.gpu->unified() && machine.cpu)
    for (const Split& split : host_splits(runtime, model)) splits.push_back(split);
  std::vector<AdvicePlace> places;
  for (const int gpus : numbers)
    for (const Split& split : splits) places.push_back({gpus, split});
  return places;
}

std::vector<double> micro_batches_of(const Runtime& runtime) {
  if (is_llama(family_of(runtime))) return {512, 1024, 2048, 4096};
  return {runtime.micro_batch};
}

}  // namespace moelab
