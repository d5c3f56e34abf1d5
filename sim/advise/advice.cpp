#include "sim/advise/advice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "models/input_error.hpp"
#include "models/stored_weights.hpp"

namespace moelab {
namespace {

/// Of experiments/world/README.md's table: nine in ten counted decoding rows come out better than that with
/// the fitted constants of other sources; those set by hand saw all rows.
constexpr double kDecodeError = 0.25;

bool is_llama(const std::string& runtime) {
  return runtime.starts_with("llama.cpp") || runtime.starts_with("ik_llama.cpp");
}

/// The weights of the GGUF file that the request names.
constexpr std::string_view kOfTheFile;

std::vector<std::string> runtimes_for(const AdviceRequest& request) {
  const MachineParts& machine = request.machine;
  if (!machine.gpu) return {"llama.cpp-cpu"};
  if (machine.gpu->maker == "apple" && request.gguf.empty()) return {"llama.cpp-metal", "mlx"};
  if (machine.gpu->maker == "apple") return {"llama.cpp-metal"};
  if (machine.gpu->maker == "amd") return {"llama.cpp-rocm", "llama.cpp-vulkan"};
  if (machine.gpu->maker == "intel") return {"llama.cpp-vulkan"};
  if (!request.gguf.empty()) return {"llama.cpp-cuda"};
  std::vector<std::string> names{"llama.cpp-cuda", "vllm"};
  if (!machine.gpu->unified() && machine.cpu) names.emplace_back("ktransformers");
  return names;
}

/// Of four bits and more: what fewer cost in quality, speed cannot say.
std::vector<std::string> weights_for(const std::string& runtime, const AdviceRequest& request) {
  const Architecture& model = request.model;
  if (!request.gguf.empty()) return {std::string(kOfTheFile)};
  const bool mxfp4 = model.stored.of(WeightPart::experts) == find_weight_format("mxfp4").bits / 8;
  if (is_llama(runtime)) {
    if (mxfp4) return {"gguf-mxfp4"};
    return {"gguf-q8_0", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m"};
  }
  if (runtime == "mlx") return {"mlx-8bit", "mlx-6bit", "mlx-4bit"};
  if (mxfp4) return {"mxfp4"};
  if (runtime.starts_with("ktransformers")) return {"bf16", "gguf-q4_k_m"};
  return {"bf16", "fp8", "awq"};
}

/// All splits that the runtime offers, the most on the GPU first.
std::vector<Split> splits_of(const std::string& runtime, const Architecture& model,
                             const MachineParts& machine) {
  if (!machine.gpu) return {Split{.cpu_only = true}};
  std::vector<Split> splits{Split{}};
  if (!machine.cpu || machine.gpu->unified() || !model.is_moe()) return splits;
  const int layers = static_cast<int>(model.moe_layers().size());
  if (is_llama(runtime)) {
    for (int n = 1; n <= layers; ++n) splits.push_back({.cpu_expert_layers = n});
    splits.push_back({.cpu_only = true});
  } else if (runtime.starts_with("ktransformers")) {
    const int experts = model.moe().experts;
    for (int n = experts - 1; n >= 0; --n)
      splits.push_back({.gpu_expert_share = static_cast<double>(n) / experts});
  }
  return splits;
}

std::vector<double> micro_batches_of(const std::string& runtime, const Runtime& r) {
  if (is_llama(runtime)) return {512, 2048, 4096};
  return {r.micro_batch};
}

std::string whole(double value) {
  return std::to_string(static_cast<long long>(std::llround(value)));
}

/// As one word of a shell's command line.
std::string quoted(const std::string& path) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+=:@%,";
  if (path.find_first_not_of(plain) == std::string::npos) return path;
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_of(const Advice& a, const AdviceRequest& q) {
  const std::string context = whole(q.context * q.users);
  if (is_llama(a.runtime)) {
    std::string type = a.weights.substr(a.weights.find('-') + 1);
    std::transform(type.begin(), type.end(), type.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    const std::string file = q.gguf.empty() ? q.model.name + "-" + type + ".gguf" : quoted(q.gguf);
    std::string text = "llama-server -m " + file + " -c " + context;
    text += a.split.cpu_only ? " -ngl 0" : " -ngl 99";
    if (a.split.cpu_expert_layers > 0) text += " -ncmoe " + std::to_string(a.split.cpu_expert_layers);
    return text + " -np " + whole(q.users) + " -ub " + whole(a.micro_batch);
  }
  if (a.runtime == "mlx") return "mlx_lm.server --model " + q.model.name + "-" + a.weights;
  if (a.runtime.starts_with("ktransformers"))
    return "python -m sglang.launch_server --model " + q.model.name + " --kt-num-gpu-experts " +
           whole(a.split.gpu_expert_share * (q.model.is_moe() ? q.model.moe().experts : 0));
  std::string text = "vllm serve " + q.model.name;
  if (a.runtime == "sglang") text = "python -m sglang.launch_server --model " + q.model.name;
  if (a.weights == "fp8" || a.weights == "awq") text += " --quantization " + a.weights;
  if (q.machine.gpus > 1) text += " --tensor-parallel-size " + std::to_string(q.machine.gpus);
  return text + " --max-model-len " + whole(q.context);
}

/// The micro-batch that a prompt is fastest with, of those whose buffers fit beside what decodes fastest; the
/// memory that it takes, and the command that says it.
void add_prompt(const AdviceRequest& request, const Runtime& runtime, const Architecture& model, Advice& a) {
  const ServingEstimate estimate(model, request.machine, runtime, a.split);
  const double tokens = request.context * request.users;
  for (const double micro_batch : micro_batches_of(runtime.name, runtime)) {
    const LoadOptions options{.micro_batch = micro_batch, .sequences = request.users};
    const double seconds = estimate.prompt(request.prompt, micro_batch).total();
    if (a.micro_batch > 0 && (seconds >= a.prompt_s * 0.999 || !estimate.impossible(tokens, options).empty()))
      continue;
    a.prompt_s = seconds;
    a.micro_batch = micro_batch;
    a.memory = estimate.memory(tokens, options);
  }
  a.command = command_of(a, request);
}

/// The fastest way of one runtime with one format; what it lacks where none fits.
std::optional<Advice> best_of(const AdviceRequest& request, const Runtime& runtime,
                              const std::string& weights, std::string& lacks) {
  Architecture model = request.model;
  if (weights != kOfTheFile) model.stored = stored_as(model, weights);
  std::optional<Advice> best;
  for (const Split& split : splits_of(runtime.name, model, request.machine)) {
    const ServingEstimate estimate(model, request.machine, runtime, split);
    const std::string problem =
        estimate.impossible(request.context * request.users, {.sequences = request.users});
    if (!problem.empty()) {
      lacks = problem;
      continue;
    }
    const StepEstimate step = estimate.decode(request.users, request.context);
    if (best && best->decode_s <= step.total()) continue;
    Advice a;
    a.runtime = runtime.name;
    a.title = runtime.title;
    a.weights = model.stored.name;
    a.split = split;
    a.decode_s = step.total();
    a.bound = step.bound();
    a.error = kDecodeError;
    best = std::move(a);
  }
  if (best) add_prompt(request, runtime, model, *best);
  return best;
}

}  // namespace

std::vector<Advice> advise(const AdviceRequest& request) {
  const std::vector<std::string> runtimes =
      request.runtimes.empty() ? runtimes_for(request) : request.runtimes;
  std::vector<Advice> list;
  std::string lacks;
  for (const std::string& name : runtimes) {
    const Runtime runtime = load_runtime(name);
    for (const std::string& weights : request.weights.empty() ? weights_for(name, request) : request.weights)
      if (std::optional<Advice> advice = best_of(request, runtime, weights, lacks))
        list.push_back(std::move(*advice));
  }
  if (list.empty())
    throw InputError(
        "", "'" + request.model.name + "' does not fit in any way that was tried: " + lacks +
                ". Smaller weights (--weights gguf-q2_k), a shorter --context or more memory would help");
  std::stable_sort(list.begin(), list.end(),
                   [](const Advice& a, const Advice& b) { return a.decode_s < b.decode_s; });
  return list;
}

}  // namespace moelab
