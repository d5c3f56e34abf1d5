#include "sim/sweep/sweep_point.hpp"

#include <algorithm>
#include <memory>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/result_json.hpp"
#include "sim/run.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/trace_scores.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// The point's scenario with its system alone. A system that the scenario does not list is named to it.
Scenario load_point(const SweepFile& sweep, const SweepPoint& point) {
  const ConfigText& base = sweep.scenario;
  Scenario s = scenario_of_document(base.name, base.text, point.settings, {point.system});
  if (!s.systems.empty()) return s;
  Settings settings = point.settings;
  settings.emplace_back("systems", "[" + point.system + "]");
  s = scenario_of_document(base.name, base.text, settings, {point.system});
  if (s.systems.empty())
    throw InputError(base.name, "the system of file '" + point.system + "' has another name; name it so");
  return s;
}

/// A scalar of a document by its dotted path.
std::optional<Value> scalar_at(const Json& document, const std::string& path) {
  const Json* node = &document;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    if (!node->is_object() || !node->contains(key)) return std::nullopt;
    node = &(*node)[key];
    begin = end + 1;
  }
  if (node->is_boolean()) return node->get<bool>();
  if (node->is_number()) return Measure{node->get<double>(), Measure::Unit::none};
  if (node->is_string()) return value_of_text(node->get<std::string>());
  return std::nullopt;
}

bool holds(const Condition& where, const SweepPoint& point, const Scenario& s) {
  const Json document = Json::parse(s.document);
  std::vector<std::string> known = {"model.size", "model", "device", "system", "series"};
  for (const auto& [name, value] : point.axes) known.push_back(name);
  for (const auto& [key, value] : document.items())
    if (value.is_primitive()) known.push_back(key);
  const auto lookup = [&](const std::string& name) -> std::optional<Value> {
    if (name == "model.size")
      return Measure{(non_expert_bytes(s.model) + routed_bytes(s.model)).value(), Measure::Unit::bytes};
    if (name == "model") return s.model.name;
    if (name == "device") return s.device.name;
    if (name == "system") return point.system;
    if (name == "series") return point.series;
    if (auto found = scalar_at(document, name)) return found;
    for (const auto& [axis, value] : point.axes)
      if (axis == name) return value_of_text(value);
    return std::nullopt;
  };
  return where.holds(lookup, known);
}

/// What a trace is drawn from: points that agree in it have the same one.
std::string trace_key(const Scenario& s) {
  Json document = Json::parse(s.document);
  const SystemConfig& system = s.systems.front();
  for (const char* key : {"name", "question", "budget", "device", "systems"}) document.erase(key);
  return document.dump() + (draws_all_scores(s) ? " all scores" : "") +
         (system.paging   ? " paged"
          : system.placed ? " placed"
                          : "");
}

}  // namespace

struct PointPreparer::Trace {
  std::string key;
  RoutingTrace trace;
  std::optional<RankInclusion> statistics;
};

SweepPoint point_of(const SweepFile& sweep, std::uint64_t number) {
  SweepPoint point;
  point.number = number;
  point.settings = sweep.set;
  std::vector<const AxisChoice*> choices;
  for (auto axis = sweep.axes.rbegin(); axis != sweep.axes.rend(); ++axis) {
    choices.push_back(&axis->choices[number % axis->choices.size()]);
    number /= axis->choices.size();
  }
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
    point.axes.insert(point.axes.end(), (*choice)->shown.begin(), (*choice)->shown.end());
    point.settings.insert(point.settings.end(), (*choice)->settings.begin(), (*choice)->settings.end());
    if (!(*choice)->system.empty()) point.system = (*choice)->system;
    if (!(*choice)->series.empty()) point.series = (*choice)->series;
  }
  return point;
}

std::string to_string(const SweepPoint& point) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    text += (text.empty() ? "" : ", ") + name + " = " + value;
  };
  for (const auto& [name, value] : point.axes) add(name, value);
  if (!point.series.empty()) add("series", point.series);
  return text;
}

PointJob job_of(const SweepFile& sweep, const SweepPoint& point) {
  const Scenario s = load_point(sweep, point);
  return {scenario_document(s, s.systems.front()), s.settings, sweep.executor};
}

std::string run_point(const PointJob& job) {
  Scenario s = scenario_of_document("the point's scenario", job.document);
  s.settings = job.settings;
  if (s.systems.size() != 1) throw InputError(s.name, "expected a scenario with one system");
  const RoutingTrace trace = scenario_trace(s);
  const std::optional<RankInclusion> statistics = check_scenario(s, trace);
  RunOptions options;
  if (statistics) options.statistics = &*statistics;
  options.executor = job.executor == "simgrid" ? ExecutorKind::simgrid : ExecutorKind::fast;
  return results_json({run_system(s, s.systems.front(), trace, options)});
}

PreparedPoint PointPreparer::prepare(const SweepPoint& point) {
  const Scenario s = load_point(sweep_, point);
  PreparedPoint prepared;
  if (sweep_.where) {
    try {
      prepared.kept = holds(*sweep_.where, point, s);
    } catch (const ConditionError& error) {
      throw InputError(sweep_.name, std::string("where: ") + error.what());
    }
    if (!prepared.kept) return prepared;
  }
  const std::string key = trace_key(s);
  auto found = std::find_if(traces_.begin(), traces_.end(), [&](const auto& t) { return t->key == key; });
  if (found == traces_.end()) {
    constexpr std::size_t kMostTraces = 8;
    if (traces_.size() == kMostTraces) traces_.erase(traces_.begin());
    traces_.push_back(std::make_shared<Trace>(Trace{key, scenario_trace(s), std::nullopt}));
    found = traces_.end() - 1;
  }
  const RoutingTrace& trace = (*found)->trace;
  std::optional<RankInclusion>& statistics = (*found)->statistics;
  auto looked_at = check_scenario(s, trace, statistics ? &*statistics : nullptr);
  if (looked_at) statistics = std::move(looked_at);
  prepared.identity =
      run_identity(scenario_document(s, s.systems.front()), data_files(s), s.settings, sweep_.executor);
  prepared.work = static_cast<double>(trace.tokens()) * trace.layers();
  return prepared;
}

}  // namespace moelab
