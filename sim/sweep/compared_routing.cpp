#include "sim/sweep/compared_routing.hpp"

#include <algorithm>
#include <filesystem>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/scenario_document.hpp"
#include "sim/scenario/trace_fit.hpp"
#include "sim/sweep/policy_comparison.hpp"
#include "traces/default_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// Of the scenario's workload: what says which experts tokens choose.
void erase_routing(Json& workload) {
  for (const char* key : {"trace", "law", "skew", "reuse", "drift", "gate_decay"}) workload.erase(key);
}

std::string with_trace(const Scenario& s, const std::string& document, const std::string& name) {
  const WorkloadConfig& w = s.workload;
  if (!w.request_log.empty())
    throw InputError("",
                     "brings requests of its own, and the scenario has those of 'workload.request_log'; "
                     "expected --law");
  const std::vector<std::string> laws = config_names("laws");
  std::error_code none;
  if (!is_default_trace(name) && !std::filesystem::exists(name, none) &&
      std::find(laws.begin(), laws.end(), name) != laws.end())
    throw InputError("", "is no trace but a law; expected --law " + name);
  const RoutingTrace trace = open_routing_trace(name);
  check_trace_fits(s.model, name, trace);
  Json changed = Json::parse(document);
  Json& workload = changed["workload"];
  erase_routing(workload);
  for (const char* key : {"prompt_tokens", "output_tokens", "lengths_of", "classes", "shared_prefix",
                          "conversations", "requests"})
    workload.erase(key);
  const std::uint64_t asked = w.trace_file.empty() ? w.requests : w.trace_requests;
  if (asked > 0 && asked < trace.requests().size()) workload["requests"] = asked;
  workload["trace"] = std::filesystem::exists(name, none)
                          ? std::filesystem::absolute(name).lexically_normal().string()
                          : name;
  return changed.dump();
}

std::string with_law(const Scenario& s, const std::string& document, const std::string& name) {
  if (!s.workload.trace_file.empty())
    throw InputError("",
                     "says nothing of how long requests are, and the scenario's are those of a trace; "
                     "expected a scenario with 'workload.output_tokens'");
  find_config("laws", name);  // else an error would name the scenario
  Json changed = Json::parse(document);
  erase_routing(changed["workload"]);
  changed["workload"]["law"] = name;
  return changed.dump();
}

using DocumentWith = std::string (*)(const Scenario&, const std::string&, const std::string&);

/// Document of a trace or a law, once it is known that a scenario can be read with it.
std::string checked_document(const Scenario& s, DocumentWith with, const std::string& name,
                             const std::string& option) {
  try {
    const std::string document = with(s, scenario_document(s, s.systems.front()), name);
    scenario_of_document(s.name, document);
    return document;
  } catch (const InputError& error) {
    Problems problems;
    for (const Problem& problem : error.problems())
      problems.add({option + " " + shown_word(name), 0, 0, problem.what});
    problems.throw_if_any();
    throw;
  }
}

void check_once(const std::vector<std::string>& names, const std::string& option) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      throw InputError(option + " " + shown_word(*name), "is named twice");
}

}  // namespace

std::vector<ComparedRouting> compared_routings(const Scenario& scenario, const CompareSettings& settings) {
  check_once(settings.traces, "--trace");
  check_once(settings.laws, "--law");
  std::vector<ComparedRouting> all;
  for (const std::string& name : settings.traces)
    all.push_back({name, "", checked_document(scenario, with_trace, name, "--trace")});
  for (const std::string& name : settings.laws)
    all.push_back({"", name, checked_document(scenario, with_law, name, "--law")});
  if (all.empty()) all.push_back({"", "", scenario_document(scenario, scenario.systems.front())});
  return all;
}

}  // namespace moelab
