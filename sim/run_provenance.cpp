#include "sim/run_provenance.hpp"

#include <algorithm>

#include "models/machine_profile.hpp"
#include "models/model_import.hpp"
#include "policies/batching/batching.hpp"
#include "sim/run_result.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/parallel_config.hpp"
#include "sim/scenario/trace_fit.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

bool goes_by_priority(const SystemConfig& system) {
  if (!system.batching) return false;
  const PolicyChoice& choice = system.batching->policy;
  const auto& by_priority = find_batching_policy(choice.name)->by_priority;
  return by_priority && by_priority(choice.parameters);
}

/// Whether some requests go before others of the same queue by their priorities.
bool has_priorities(const Scenario& s) {
  if (!s.cluster) return has_priorities(s.workload);
  return std::ranges::any_of(s.cluster->loads, [](const ServerLoad& load) {
    return std::ranges::any_of(load.log,
                               [&](const auto& q) { return q.priority != load.log.front().priority; });
  });
}

/// Whether any request has rows of a prompt.
bool has_prompts(const RoutingTrace& trace) {
  const auto requests = trace.requests();
  return std::any_of(requests.begin(), requests.end(),
                     [](const TraceRequest& r) { return r.decode_begin > r.begin; });
}

void add_speculation(const SpeculationConfig& speculation, RunResult& r) {
  std::string drafts = "drafts: " + draft_title(speculation);
  if (speculation.model) drafts += " (" + speculation.model->source + ")";
  if (!speculation.source.empty()) drafts += " (" + speculation.source + ")";
  r.provenance.push_back(drafts);
  r.provenance.push_back("acceptance of drafts: stated, " + shortest_text(speculation.acceptance) +
                         "; refused drafts are routed as the tokens that stand in their place");
}

}  // namespace

void add_provenance(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace, RunResult& r) {
  for (const auto& [path, value] : s.settings)
    r.provenance.push_back("set for this run: " + path + " = " + value);
  const bool routes = s.model.is_moe();
  r.provenance.push_back("trace: " + (routes ? trace.provenance() : "none: the model has no experts"));
  r.provenance.push_back("model: " + s.model.source);
  if (s.speculation.any()) add_speculation(s.speculation, r);
  if (!system.source.empty()) r.provenance.push_back("system: " + system.source);
  if (system.runtime)
    for (const std::string& line : runtime_provenance(*system.runtime)) r.provenance.push_back(line);
  else if (!system.host_source.empty())
    r.provenance.push_back("host overhead: " + system.host_source);
  const SourcedNumbers& numbers =
      s.cluster ? static_cast<const SourcedNumbers&>(s.cluster->profile) : s.device;
  const std::string kind = s.cluster ? "cluster" : "device";
  for (const std::string& line : numbers.provenance) r.provenance.push_back(kind + " " + line);
  if (numbers.unmeasured)
    r.warnings.push_back("the " + kind + " profile '" +
                         (s.cluster ? s.cluster->profile.name : s.device.name) +
                         "' holds numbers that were not measured on that " + kind +
                         " ('provenance' of moelab run --format json says where each is from)");
  if (s.expert_ranks() > 1)
    r.provenance.push_back("experts: neighbours on each of " + std::to_string(s.gpus()) +
                           " GPUs, as vLLM places them (determine_expert_map, \"linear\")");
  if (s.data_parallel > 1)
    r.provenance.push_back(
        "exchanges of rows: all-gather and reduce-scatter (vLLM's default), each as long as the all-reduce "
        "that moves as much over each link (derived)");
  for (const std::string& note : machine_notes(s)) r.warnings.push_back(note);
  if (has_priorities(s) && !goes_by_priority(system))
    r.warnings.push_back(
        "system '" + system.name +
        "' does not go by the requests' priorities; 'batching: {policy: vllm-v1, scheduling: "
        "1}' does");
  if (!trace.model().empty() && !names_model(trace.model(), s.model))
    r.warnings.push_back("the trace says it is of model '" + trace.model() + "', the scenario's is '" +
                         s.model.name + "'");
  if (const std::string note = import_note(s.model); !note.empty())
    r.warnings.push_back("the model was imported from " + note);
  if (routes && trace.synthetic()) r.warnings.push_back("the routing trace is synthetic");
  if (!s.workload.trace_file.empty() && !has_prompts(trace))
    r.warnings.push_back(
        "the routing trace has no prompts' rows, so TTFT is the time of one generated token, not of a "
        "prompt; "
        "'moelab trace import' says which rows are prompts'");
  const bool other_model = std::any_of(s.settings.begin(), s.settings.end(),
                                       [](const auto& setting) { return setting.first == "model"; });
  if (other_model && s.workload.has_law && !names_model(s.workload.law.model, s.model))
    r.warnings.push_back("the routing is drawn by the law of '" + s.workload.law.model +
                         "', which the scenario names; "
                         "--set workload.law=own draws it by that of '" +
                         s.model.name + "'");
  if (system.batching && system.kv.swap_space > Bytes(0) && !s.cluster && !s.device.is_discrete())
    r.warnings.push_back("device '" + s.device.name +
                         "' has one memory for CPU and GPU: requests that give way are computed again, not "
                         "swapped (kv.swap_space)");
}

}  // namespace moelab
