#include "sim/advise/advice_flags.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/model_import.hpp"
#include "models/runtime_fit.hpp"
#include "sim/advise/advice_space.hpp"
#include "sim/results/shell_word.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

constexpr double kLogicalBatch = 2048;  // llama.cpp's --batch-size, which --ubatch-size cannot pass

std::string whole(double value) {
  return std::to_string(static_cast<long long>(std::llround(value)));
}

std::string gguf_file(const Advice& a, const AdviceRequest& q) {
  if (!q.gguf.empty() && q.weights.empty()) return shell_word(q.gguf);
  std::string type = a.weights.substr(a.weights.find('-') + 1);
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
  return shell_word(q.model.name + "-" + type + ".gguf");
}

/// llama.cpp's --n-cpu-moe, which counts layers of any kind, for experts of the first so many MoE layers.
int n_cpu_moe(const Architecture& model, int moe_layers) {
  return moe_layers <= 0 ? 0 : model.moe_layers()[static_cast<std::size_t>(moe_layers) - 1] + 1;
}

/// Where llama.cpp has layers and experts.
std::string llama_places(const Advice& a, const AdviceRequest& q) {
  if (!q.machine.gpu) return "";
  if (a.split.cpu_only) return " --device none";
  // The head counts as a layer, the last.
  const int layers = static_cast<int>(q.model.layers.size()) + 1;
  std::string text =
      " -ngl " + std::to_string(a.split.cpu_layers > 0 ? layers - a.split.cpu_layers : std::max(99, layers));
  if (a.split.cpu_expert_layers > 0)
    text += " -ncmoe " + std::to_string(n_cpu_moe(q.model, a.split.cpu_expert_layers));
  if (a.layers_a_gpu.empty()) return text;
  text += " -sm layer -ts ";
  for (std::size_t i = 0; i < a.layers_a_gpu.size(); ++i)
    text += (i > 0 ? "," : "") + std::to_string(a.layers_a_gpu[i]);
  return text;
}

std::string llama_command(const Advice& a, const AdviceRequest& q) {
  std::string text = "llama-server -m " + gguf_file(a, q) + " -c " + whole(q.context * q.users);
  text += llama_places(a, q);
  if (!q.kv.empty() && q.kv != "fp16") text += " -ctk " + q.kv + " -ctv " + q.kv;
  text += " -np " + whole(q.users);  // llama-server takes four where nothing is said
  if (a.micro_batch > kLogicalBatch) text += " -b " + whole(a.micro_batch);
  return text + " -ub " + whole(a.micro_batch);
}

/// kt-kernel's names for weights that it computes as their files have them; empty: it has none.
std::string native_method(const std::string& weights) {
  return weights == "bf16" ? "BF16" : weights == "fp8" ? "FP8" : weights == "mxfp4" ? "MXFP4" : "";
}

/// Where a hub has the model, else its name here. Of weights that their owner quantised (AWQ) the hub's name
/// is another one: that of a folder stands for it.
std::string served_name(const Advice& a, const Architecture& model) {
  if (a.weights == "awq") return model.name + "-awq";
  const std::string name = hub_name(model);
  return name.empty() ? model.name : name;
}

std::string ktransformers_command(const Advice& a, const AdviceRequest& q) {
  std::string text = "python -m sglang.launch_server --model " + shell_word(served_name(a, q.model));
  if (a.weights.starts_with("gguf"))
    text += " --kt-method LLAMAFILE --kt-weight-path " + gguf_file(a, q);
  else if (const std::string method = native_method(a.weights); !method.empty())
    text += " --kt-method " + method + " --kt-weight-path " + shell_word(served_name(a, q.model));
  if (q.machine.cpu)
    text += " --kt-cpuinfer " + std::to_string(q.machine.cpu->cores * q.machine.sockets) +
            " --kt-threadpool-count " + std::to_string(q.machine.sockets);
  text += " --kt-num-gpu-experts " +
          whole(a.split.gpu_expert_share * (q.model.is_moe() ? q.model.moe().experts : 0));
  if (a.gpus > 1) text += " --tensor-parallel-size " + std::to_string(a.gpus);
  return text + " --context-length " + whole(q.context);
}

/// vLLM counts in GiB of each GPU, and puts tensors into the host's memory, layer by layer, until they are as
/// many: rounded down, so that none of the next layer goes there.
std::string gib_of_each(double bytes, int gpus) {
  return fixed(std::floor(100 * bytes / 0x1p30 / gpus) / 100, 2);
}

/// Bytes that a server counts shares of.
double memory_of_gpu(const MachineParts& machine) {
  return machine.gpu->unified() && machine.ram ? machine.ram->value() : machine.gpu->memory.value();
}

/// What of a GPU's memory the budget is: vLLM counts driver and libraries to it, SGLang weights and caches
/// alone.
std::string budget_share(const Advice& a, const AdviceRequest& q, bool weights_and_caches) {
  const double all = memory_of_gpu(q.machine);
  const double beside = (a.memory.gpu_context + a.memory.gpu_reserve) / std::max(1, a.gpus);
  const double share =
      (q.budget->value() + (weights_and_caches ? -a.memory.gpu_compute / std::max(1, a.gpus) : beside)) / all;
  return fixed(std::floor(100 * std::clamp(share, 0.01, 0.99)) / 100, 2);
}

/// vLLM takes no more of each GPU's memory than a share: 0.9 where nothing is said, 0.92 in newer versions
/// (--gpu-memory-utilization in its pages of `vllm serve`, v0.6.4 and stable). What takes more is told so,
/// rounded up; 0.99 is the most, since it asks for so much free memory before it starts.
std::string share_beyond_usual(const Advice& a, const AdviceRequest& q) {
  constexpr double kUsual = 0.9;
  const double all = memory_of_gpu(q.machine);
  if (a.gpu_most <= kUsual * all) return {};
  return fixed(std::min(0.99, std::ceil(100 * a.gpu_most / all) / 100), 2);
}

std::string vllm_memory_flag(const Advice& a, const AdviceRequest& q) {
  const bool sglang = a.family == "sglang";
  const std::string share = q.budget ? budget_share(a, q, sglang) : sglang ? "" : share_beyond_usual(a, q);
  return share.empty() ? "" : (sglang ? " --mem-fraction-static " : " --gpu-memory-utilization ") + share;
}

std::string vllm_command(const Advice& a, const AdviceRequest& q, const Architecture& stored) {
  const bool sglang = a.family == "sglang";
  std::string text = sglang ? "python -m sglang.launch_server --model " : "vllm serve ";
  text += shell_word(served_name(a, q.model));
  if (a.weights == "fp8" || a.weights == "awq") text += " --quantization " + a.weights;
  text += vllm_memory_flag(a, q);
  if (q.kv == "fp8") text += sglang ? " --kv-cache-dtype fp8_e4m3" : " --kv-cache-dtype fp8";
  if (a.gpus > 1) text += " --tensor-parallel-size " + std::to_string(a.gpus);
  if (a.split.link_layers > 0) {
    double bytes = 0;
    for (int l = 0; l < a.split.link_layers; ++l)
      bytes += layer_bytes(stored, stored.layers[static_cast<std::size_t>(l)]).value();
    text += " --cpu-offload-gb " + gib_of_each(bytes, a.gpus);
  }
  return text + (sglang ? " --context-length " : " --max-model-len ") + whole(q.context);
}

/// The flags as programs have them that start mlx_lm.server or have the same (32 requests at once where
/// nothing is said); its own source was not at hand.
std::string mlx_command(const Advice& a, const AdviceRequest& q) {
  std::string text =
      "mlx_lm.server --model " +
      shell_word(a.weights.starts_with("mlx-") ? q.model.name + "-" + a.weights : served_name(a, q.model));
  if (q.users > 1) text += " --decode-concurrency " + whole(q.users);
  return text + "  # has no flag for the context: keys and values grow with it, here to " + whole(q.context) +
         " tokens" + (q.users > 1 ? " a user" : "");
}

/// TensorRT-LLM's page of trtllm-serve; --max_seq_len counts prompt and answer.
std::string tensorrt_command(const Advice& a, const AdviceRequest& q) {
  std::string text = "trtllm-serve " + shell_word(served_name(a, q.model));
  if (a.gpus > 1) text += " --tp_size " + std::to_string(a.gpus);
  return text + " --max_batch_size " + whole(q.users) + " --max_seq_len " + whole(q.context);
}

/// mlc-llm, python/mlc_llm/cli/serve.py, EngineConfigOverride.
std::string mlc_command(const Advice& a, const AdviceRequest& q) {
  std::string overrides = "context_window_size=" + whole(q.context) + ";max_num_sequence=" + whole(q.users);
  if (a.gpus > 1) overrides += ";tensor_parallel_shards=" + std::to_string(a.gpus);
  return "mlc_llm serve " + shell_word(q.model.name + "-" + a.weights) + " --overrides " +
         shell_word(overrides);
}

/// The hub's name, or where none is known the title: what to look for.
std::string looked_for(const Architecture& model) {
  const std::string name = hub_name(model);
  return name.empty() ? model.title : name.substr(name.find('/') + 1);
}

/// "4" of "mlx-4bit".
std::string mlx_bits(const std::string& weights) {
  const std::size_t begin = weights.find('-') + 1;
  return weights.substr(begin, weights.find("bit") - begin);
}

std::string mlx_weights_from(const Advice& a, const Architecture& model) {
  const std::string hub = hub_name(model);
  return "`mlx_lm.convert --hf-path " + (hub.empty() ? "FOLDER" : shell_word(hub)) + " -q --q-bits " +
         mlx_bits(a.weights) + " --mlx-path " + shell_word(model.name + "-" + a.weights) +
         "` makes them of " + (hub.empty() ? "the model's own folder" : "the owner's weights") +
         "; Hugging Face's mlx-community has many that are made, under names that are not known here (look "
         "for '" +
         looked_for(model) + "')";
}

}  // namespace

std::string weights_from(const Advice& a, const AdviceRequest& q) {
  if (a.weights.starts_with("mlx-")) return mlx_weights_from(a, q.model);
  if (a.weights == "awq")
    return "a repository of their own, whose name is not known here: look for '" + looked_for(q.model) +
           " AWQ' on Hugging Face, and write its name or its folder in the place of " +
           served_name(a, q.model);
  if (!a.weights.starts_with("gguf-") || (!q.gguf.empty() && q.weights.empty())) return {};
  return "a GGUF file of that type, whose name is not known here: look for '" + looked_for(q.model) +
         " GGUF' on Hugging Face, or make it with llama.cpp's convert_hf_to_gguf.py and llama-quantize";
}

std::string command_of(const Advice& a, const AdviceRequest& q, const Architecture& stored) {
  if (is_llama(a.family)) return llama_command(a, q);
  if (a.family == "mlx") return mlx_command(a, q);
  if (a.family.starts_with("ktransformers")) return ktransformers_command(a, q);
  if (a.family == "tensorrt-llm") return tensorrt_command(a, q);
  if (a.family == "mlc") return mlc_command(a, q);
  // The others are libraries or papers' prototypes, which no one line starts.
  return is_vllm(a.family) || a.family == "sglang" ? vllm_command(a, q, stored) : "";
}

}  // namespace moelab
