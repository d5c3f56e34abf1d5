#include "experiments/load/replay_setup.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/part.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/paged_plan.hpp"

namespace moelab::replay {
namespace {

constexpr const char* kSystem = "vllm-v1";

/// Letters in lower case and digits, all else left out.
std::string bare(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// "rtx4090" of "nvidiageforcertx4090".
std::string without_maker(std::string text) {
  for (const std::string_view maker : {"nvidia", "amd", "geforce"})
    if (text.starts_with(maker)) text.erase(0, maker.size());
  return text;
}

/// "rtx-4090" of "rtx-4090-24gb".
std::string board_of(const GpuPart& part) {
  return part.name.ends_with("gb") ? part.name.substr(0, part.name.rfind('-')) : part.name;
}

/// What makers add to a model's name that changes none of its sizes.
bool is_addition(std::string_view rest) {
  static constexpr std::array kAdditions{"instruct", "it",   "chat", "base", "hf",
                                         "thinking", "2507", "2506", "v0.1", "v0.3"};
  while (!rest.empty()) {
    if (rest.front() != '-') return false;
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find('-'));
    if (std::find(kAdditions.begin(), kAdditions.end(), word) == kAdditions.end()) return false;
    rest.remove_prefix(word.size());
  }
  return true;
}

std::string document_of(const ServingFolder& folder, const std::string& model, const std::string& runtime,
                        const GpuPart& gpu, int gpus, double budget) {
  using Json = nlohmann::ordered_json;
  const EngineArguments& e = folder.engine;
  Json system;
  system["name"] = kSystem;
  system["title"] = "vLLM (V1)";
  system["source"] = "meta.json";
  system["weights"] = "paged";
  system["paging"] = {{"backends", Json::array({"resident"})}};
  system["batching"] = {{"policy", "vllm-v1"},
                        {"async", e.async ? 1 : 0},
                        {"prefix_cache", e.prefix_cache ? 1 : 0},
                        {"max_tokens", e.max_tokens}};
  system["kv"] = {{"block_tokens", e.block_tokens}};
  Json s;
  s["name"] = "replay";
  s["question"] = "How near is a prediction to a server's run?";
  s["model"] = model;
  s["machine"] = {{"gpu", gpu.name}, {"gpus", gpus}};
  s["runtime"] = runtime;
  const int ranks = static_cast<int>(e.data_parallel);
  if (gpus > ranks) s["tensor_parallel"] = gpus / ranks;
  if (ranks > 1) s["data_parallel"] = ranks;
  if (gpus > 1 && e.expert_parallel) s["expert_parallel"] = true;
  s["budget"] = std::to_string(static_cast<std::uint64_t>(budget)) + " B";
  s["seed"] = 1;
  s["workload"] = {{"batch", e.max_requests}, {"requests", 1}, {"prompt_tokens", 1}, {"output_tokens", 1}};
  s["systems"] = Json::array({system});
  return s.dump();
}

void take_requests(const ServingFolder& folder, Scenario& s) {
  for (const MeasuredRequest& r : folder.requests)
    s.workload.log.push_back({r.queued_s, r.prompt_tokens, r.output_tokens});
  s.workload.requests = static_cast<std::uint32_t>(s.workload.log.size());
}

/// The budget that leaves the KV cache so many blocks.
void give_blocks(std::uint64_t blocks, MemoryPlan& memory, const ServingFolder& folder) {
  if (memory.shortfall > Bytes(0))
    throw InputError(folder.path, "the GPU's memory lacks " + to_string(memory.shortfall) +
                                      " for weights and one block of the KV cache, and the engine had " +
                                      std::to_string(blocks) + " blocks");
  memory.kv_blocks = blocks;
  memory.kv_cache = static_cast<double>(blocks) * memory.kv_block;
}

}  // namespace

std::string model_of(const std::string& name) {
  std::string asked = name.substr(name.rfind('/') + 1);
  for (char& c : asked) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (asked.starts_with("meta-llama-")) asked = asked.substr(5);
  const std::vector<std::string> known = config_names("models");
  std::string best;
  for (const std::string& model : known)
    if (asked.starts_with(model) && is_addition(std::string_view(asked).substr(model.size())) &&
        model.size() > best.size())
      best = model;
  if (!best.empty()) return best;
  throw InputError("", "no model '" + shown_word(name) + "'" + suggestion(asked, known) +
                           "; expected '--model NAME' of `moelab models`");
}

double visible_bytes(const GpuPart& gpu) {
  const double all = gpu.memory.value();
  return all - std::max(0.5 * 0x1p30, 0.0107 * all);
}

std::string gpu_of(const std::string& name) {
  try {
    return find_gpu(name).name;
  } catch (const InputError&) {
    // Servers add to a board's name ("RTX PRO 6000 Blackwell Server Edition"): the longest that it begins
    // with.
    const std::string asked = without_maker(bare(name));
    std::string best;
    std::size_t longest = 0;
    for (const GpuPart& part : gpu_parts())
      for (const std::string& of : {without_maker(bare(part.title)), bare(board_of(part))}) {
        const bool ends =
            of.size() == asked.size() || std::isdigit(static_cast<unsigned char>(asked[of.size()])) == 0;
        if (of.size() > longest && asked.starts_with(of) && ends) best = part.name, longest = of.size();
      }
    if (!best.empty()) return best;
    std::vector<std::string> known;
    for (const GpuPart& part : gpu_parts())
      known.insert(known.end(), {bare(board_of(part)), bare(part.name)});
    const std::string near = closest_name(asked, known);
    for (const GpuPart& part : gpu_parts())
      if (bare(board_of(part)) == near || bare(part.name) == near)
        throw InputError("", "no GPU '" + shown_word(name) + "' (did you mean '" + part.name +
                                 "'?); expected '--gpu NAME' of `moelab parts`");
    throw InputError("", "no GPU '" + shown_word(name) + "'; expected '--gpu NAME' of `moelab parts`");
  }
}

Setup set_up(const ServingFolder& folder, const Named& named) {
  const EngineArguments& e = folder.engine;
  const std::string model_name = named.model.empty() ? e.model : named.model;
  const std::string gpu_name = named.gpu.empty() ? e.gpu : named.gpu;
  if (model_name.empty()) throw InputError(folder.path, "meta.json names no model: expected '--model NAME'");
  if (gpu_name.empty())
    throw InputError(folder.path, "neither meta.json nor config.json names the GPU: expected '--gpu NAME'");
  const GpuPart& gpu = find_gpu(gpu_of(gpu_name));
  const int gpus = named.gpus > 0 ? named.gpus : static_cast<int>(e.tensor_parallel * e.data_parallel);
  if (gpus % static_cast<int>(e.data_parallel) != 0)
    throw InputError(folder.path, std::to_string(gpus) + " GPUs for data_parallel_size " +
                                      std::to_string(e.data_parallel) +
                                      ": expected a multiple of it (--gpus)");
  const double visible = e.gpu_bytes && named.gpu.empty() ? *e.gpu_bytes : visible_bytes(gpu);
  const double reserve = load_runtime(named.runtime).gpu_reserve;
  const double budget = std::max(1.0, visible * e.memory_share - reserve);
  const std::string document = document_of(folder, model_of(model_name), named.runtime, gpu, gpus, budget);
  Setup setup;
  setup.gpu = gpu.title;
  const Scenario read = scenario_of_document("replay", document);
  setup.scenario = scenario_of_system(read, read.systems.front());
  take_requests(folder, setup.scenario);
  setup.trace = scenario_trace(setup.scenario);
  const std::vector<ServedRequest> requests = served_requests(setup.scenario, setup.trace);
  setup.memory = plan_paged(setup.scenario, setup.system(), requests).memory;
  if (setup.memory.shortfall > Bytes(0) && !e.kv_blocks)
    throw InputError(folder.path, gpu.title + " lacks " + to_string(setup.memory.shortfall) +
                                      " for the weights of " + setup.scenario.model.title +
                                      " and one block of its KV cache");
  setup.predicted_blocks = setup.memory.kv_blocks;
  if (e.kv_blocks) give_blocks(*e.kv_blocks, setup.memory, folder);
  check_requests(setup.scenario, setup.system(), setup.memory, requests);
  return setup;
}

}  // namespace moelab::replay
