#include "sim/advise/policy_trial.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/machine_profile.hpp"
#include "models/stored_weights.hpp"
#include "models/tensor_parallel.hpp"
#include "models/yaml_reader.hpp"
#include "sim/advise/advice_space.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/trace_scores.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kPrompt = 2, kOutput = 24;  // tokens that are simulated; the context beyond is added
constexpr double kMostUsers = 8;

/// Of each user, of which the last is counted: many fill the caches sooner.
std::uint32_t requests_of(double users) {
  return users < 4 ? 4 : 2;
}

/// A layer's experts pass through a window of two layers, those that have no room from the host's memory:
/// FluxMoE where weights are not BF16, which is all that its codec takes.
constexpr const char* kWindow =
    R"({"name": "fluxmoe-window", "title": "FluxMoE's window over plain weights", "weights": "paged",
        "paging": {"backends": ["resident", "host"], "storage": {"policy": "tri-state"}},
        "batching": {"policy": "continuous", "swap": 1}, "kv": {"swap_space": "1 GiB", "policy": "experts-yield"}})";

/// Systems that cache, load or compute experts one by one, of whom the machine's memories make sense.
/// Those that use the gate scores of all experts come first, and draw the routing with them.
std::vector<Json> systems_for(const MachineParts& machine) {
  if (machine.gpu && !machine.gpu->unified())
    return {"smoe",    "hybrimoe",          "hybrimoe-code",      "llama-cpp",
            "fiddler", "moe-infinity-host", Json::parse(kWindow), "zipmoe-gpu"};
  return {"moe-infinity", "zipmoe-whole", "zipmoe", "accelerate"};
}

Json machine_json(const MachineText& text, int gpus) {
  Json machine = Json::object();
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) machine[key] = value.starts_with('{') ? Json::parse(value) : Json(value);
  };
  add("gpu", text.gpu);
  if (!text.gpu.empty()) machine["gpus"] = std::max(1, gpus);
  add("cpu", text.cpu);
  machine["sockets"] = text.sockets;
  add("memory", text.memory);
  add("ram", text.ram);
  add("ssd", text.ssd);
  return machine;
}

class Trials {
 public:
  Trials(const AdviceRequest& request, const MachineText& text, const Advice& base)
      : request_(request), runtime_(load_runtime(base.asked)), model_(request.model) {
    if ((request.gguf.empty() || !request.weights.empty()) && base.weights != model_.stored.name)
      model_.stored = stored_as(model_, base.weights);
    if (!request.kv.empty()) model_.stored.kv = cache_bytes(request.kv).value();
    gpus_ = request.machine.gpu ? std::max(1, base.gpus) : 0;
    Problems problems;
    Json document = {
        {"name", "advise"},
        {"model",
         Json::parse(
             YamlDocument::from_text(model_.name, architecture_to_yaml(model_), problems).node().json())},
        {"machine", machine_json(text, gpus_)},
        {"runtime", base.asked}};
    problems.throw_if_any();
    const auto users = static_cast<std::uint32_t>(request.users);
    document["workload"] = {{"requests", requests_of(users) * users},
                            {"batch", users},
                            {"prompt_tokens", kPrompt},
                            {"output_tokens", kOutput},
                            {"prefilled", true}};
    if (gpus_ > 1) document["tensor_parallel"] = gpus_;
    document_ = std::move(document);
    add_budget();
  }

  PolicyTrial run(const Json& system);

 private:
  /// All the memory that the runtime leaves, or the budget, less the keys and values that are not simulated.
  /// Of one memory they are gone, and no page cache has them.
  void add_budget() {
    MachineParts machine = request_.machine;
    machine.gpus = gpus_;
    const Architecture part = gpus_ > 1 ? tensor_parallel_part(model_, gpus_) : model_;
    const Bytes left_out(std::max(0.0, request_.context - kPrompt - kOutput) * request_.users *
                         kv_bytes_per_token(part).value());
    const Bytes usable = profile_of(machine, runtime_, model_.stored).usable_memory();
    // A GPU of Apple computes what policies cache, and macOS limits what it may take.
    const std::optional<Bytes> most = request_.budget ? request_.budget : machine.gpu_share_of_ram();
    const Bytes budget = (most ? std::min(usable, *most) : usable) - left_out;
    if (budget < Bytes(1)) throw InputError("", "keys and values leave no memory for experts");
    document_["budget"] = whole_bytes(budget);
    if (machine.ram && (!machine.gpu || machine.gpu->unified()))
      document_["machine"]["ram"] = whole_bytes(*machine.ram - left_out);
  }
  static std::string whole_bytes(Bytes size) {
    return std::to_string(std::llround(std::floor(size.value()))) + " B";
  }

  /// What attending to the context takes beyond what is simulated.
  double attention_left_out() const {
    MachineParts machine = request_.machine;
    machine.gpus = gpus_;
    const ServingEstimate estimate(model_, machine, runtime_, {.cpu_only = !machine.gpu});
    const double simulated = kPrompt + kOutput / 2.0;
    return std::max(0.0, estimate.decode(request_.users, request_.context).attention -
                             estimate.decode(request_.users, simulated).attention);
  }

  const AdviceRequest& request_;
  Runtime runtime_;
  Architecture model_;
  int gpus_ = 0;
  Json document_;
  std::optional<RoutingTrace> trace_;  // the same for all
  bool has_scores_ = false;            // of all experts
};

PolicyTrial Trials::run(const Json& system) {
  PolicyTrial trial;
  trial.system = trial.title =
      system.is_string() ? system.get<std::string>() : system["name"].get<std::string>();
  Json document = document_;
  document["systems"] = Json::array({system});
  try {
    const Scenario s = scenario_of_document("advise", document.dump());
    trial.title = s.systems.front().title;
    if (!trace_ || (draws_all_scores(s) && !has_scores_)) {
      trace_ = scenario_trace(s);
      has_scores_ = draws_all_scores(s);
    }
    check_scenario(s, *trace_);
    const RunResult r = run_system(s, s.systems.front(), *trace_, {});
    check_fits(r);
    const std::vector<double>& gaps = r.metrics.token_gaps_s;
    if (gaps.empty()) throw InputError("", "no token was made");
    const auto later =
        gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() - gaps.size() / requests_of(request_.users));
    trial.tpot_s = std::accumulate(later, gaps.end(), 0.0) / static_cast<double>(gaps.end() - later) +
                   attention_left_out();
    const RoutingCounts& routing = r.metrics.routing;
    if (routing.active > 0)
      trial.substituted = static_cast<double>(routing.substituted) / static_cast<double>(routing.active);
  } catch (const InputError& error) {
    trial.why_not = error.problems().front().what;
  }
  return trial;
}

/// Why there is nothing for a policy to decide, or to simulate it by; empty where there is.
std::string why_none(const AdviceRequest& q, const Advice& base) {
  if (!q.model.is_moe()) return "the model has no experts";
  // Of what does not fit there is no time.
  const bool discrete = q.machine.gpu && !q.machine.gpu->unified();
  if (base.decode_s > 0 && (!discrete || base.split == Split{}))
    return std::string("all experts are in the ") + (discrete ? "GPU's " : "") +
           "memory, and there is nothing to decide";
  if (q.users > kMostUsers || q.users != std::floor(q.users))
    return "simulated are whole numbers of users, up to " + std::to_string(static_cast<int>(kMostUsers));
  return {};
}

}  // namespace

PolicyTrials try_policies(const AdviceRequest& request, const MachineText& machine, const Advice& base) {
  PolicyTrials trials{base.runtime, base.weights, base.gpus, why_none(request, base), {}};
  if (!trials.why_none.empty()) return trials;
  try {
    Trials simulated(request, machine, base);
    for (const Json& system : systems_for(request.machine)) {
      trials.rows.push_back(simulated.run(system));
      // llama.cpp's own split, which the advice has a prompt's time of.
      if (system == "llama-cpp" && base.split.cpu_expert_layers > 0 && is_llama(base.family))
        trials.rows.back().ttft_s = base.prompt_s;
    }
  } catch (const InputError& error) {
    trials.why_none = error.problems().front().what;
  }
  std::stable_sort(trials.rows.begin(), trials.rows.end(), [](const PolicyTrial& a, const PolicyTrial& b) {
    if (a.why_not.empty() != b.why_not.empty()) return a.why_not.empty();
    return a.tpot_s < b.tpot_s;
  });
  return trials;
}

}  // namespace moelab
