#include "models/runtime_fit.hpp"

#include <algorithm>
#include <vector>

#include "models/config_store.hpp"

namespace moelab {

std::string family_of(const Runtime& runtime) {
  const std::vector<std::string> shipped = config_names("runtimes");
  Runtime r = runtime;
  while (!r.based_on.empty() && std::find(shipped.begin(), shipped.end(), r.name) == shipped.end())
    r = load_runtime(r.based_on);
  return r.name;
}

bool is_vllm(const std::string& family) {
  return family == "vllm" || family == "vllm-v1";
}

bool is_gpu_server(const std::string& family) {
  return is_vllm(family) || family == "sglang" || family == "tensorrt-llm";
}

std::string cannot_run_on(const Runtime& runtime, const MachineParts& machine) {
  const std::string family = family_of(runtime);
  const bool server = is_gpu_server(family);
  const bool kt = family.starts_with("ktransformers");
  const bool of_gpus = family == "mlx" || family == "mlc" ||
                       (family.find("llama.cpp") != std::string::npos && !family.ends_with("-cpu"));
  if (!machine.gpu) return server || kt || of_gpus ? "'" + runtime.name + "' needs a GPU here" : "";
  const GpuPart& gpu = *machine.gpu;
  bool runs = true;
  if (family.ends_with("-cuda") || family == "tensorrt-llm") runs = gpu.maker == "nvidia";
  if (family.ends_with("-rocm")) runs = gpu.maker == "amd";
  if (family.ends_with("-metal") || family == "mlx") runs = gpu.maker == "apple";
  // vLLM's installation page: GPUs of compute capability 7.0 and more.
  if (server || kt) runs = runs && gpu.maker != "apple" && gpu.maker != "intel" && gpu.generation != "pascal";
  return runs ? "" : "'" + runtime.name + "' does not run on " + gpu.title;
}

}  // namespace moelab
