// The extension of the Python package: everything crosses as text (JSON) but traces. Names and defaults that
// users see are in moelab/_api.py. Nothing here holds Python's lock while it simulates.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/unit_names.hpp"
#include "policies/check/policy_check.hpp"
#include "policies/load_library.hpp"
#include "python/policies/python_library.hpp"
#include "python/shared_progress.hpp"
#include "python/trace_arrays.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/run.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "sim/sweep/cluster_workers.hpp"
#include "sim/sweep/comparison_json.hpp"
#include "sim/sweep/leaderboard.hpp"
#include "sim/sweep/policy_comparison.hpp"
#include "sim/sweep/run_answer.hpp"
#include "sim/sweep/run_sweep.hpp"
#include "sim/sweep/utc_time.hpp"
#include "sim/version.hpp"
#include "traces/routing_trace.hpp"

namespace nb = nanobind;

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// Lets Python's other threads run, but for ticks, where Ctrl-C becomes KeyboardInterrupt.
class OthersRun {
 public:
  /// `progress`: a function of Python's that is told (done, all), or None.
  explicit OthersRun(nb::handle progress) : progress_(progress) {}
  void tick(double done, double all) {
    lock_.reset();
    const bool raised = PyErr_CheckSignals() != 0;
    if (raised) throw nb::python_error();
    if (!progress_.is_none() && all > 0) progress_(done, all);
    lock_.emplace();
  }
  void signals() { tick(0, 0); }

 private:
  nb::handle progress_;
  std::optional<nb::gil_scoped_release> lock_ = std::optional<nb::gil_scoped_release>(std::in_place);
};

/// A configuration by name or path, or its own text.
Scenario scenario_of(const std::string& name, const std::optional<std::string>& text,
                     const Settings& settings, const std::vector<std::string>& only) {
  return text ? scenario_of_document(name, *text, settings, only) : load_scenario(name, settings, only);
}

/// What a call does in its child, which says there how far it is.
using Work = std::function<std::string(const SharedProgress&)>;

/// Ctrl-C ends the child at once, whatever it is at.
std::string interruptibly(const Work& work, nb::handle progress) {
  const SharedProgress shared;
  OthersRun others(progress);
  ForkedWorkers child(1, {});
  child.start_work(0, [&] { return work(shared); });
  for (;;) {
    for (auto& [number, outcome] : child.wait(0.1)) {
      if (outcome.child.error) std::rethrow_exception(outcome.child.error);
      if (outcome.child.kind != ChildOutcome::Kind::done) throw std::bad_alloc();
      return std::move(outcome.child.text);
    }
    const auto [done, all] = shared.get();
    others.tick(done, all);
  }
}

/// Work in a child in which the policies of the call and of MOELAB_POLICY_PATH are there. Throws InputError
/// with the classes where one ends the child without a word.
std::string with_policies(const nb::list& policies, const Work& work, nb::handle progress = nb::none()) {
  const bool any =
      policies.size() > 0;  // without any, the child has nothing of Python's, whose lock another has
  std::optional<PythonForks> forks;
  if (any) forks.emplace();
  try {
    return interruptibly(
        [&](const SharedProgress& shared) {
          load_policy_path();
          std::optional<PythonLibrary> library;
          if (any) library.emplace(policies);
          return work(shared);
        },
        progress);
  } catch (const InputError&) {
    throw;
  } catch (const std::runtime_error& error) {
    if (policies.size() == 0) throw;
    std::string classes;
    for (const nb::handle policy : policies)
      classes += (classes.empty() ? "" : ", ") + nb::cast<std::string>(policy["origin"]);
    throw InputError(classes, "its policies ended the run: " + std::string(error.what()));
  }
}

/// Which runs of a call are done, for its progress.
struct RunsDone {
  const SharedProgress& shared;
  double done = 0, all = 0;
};

RunResult run_one(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                  RunOptions options, RunsDone& runs) {
  options.progress = [&](const SystemConfig&, std::uint64_t tokens, std::uint64_t all) {
    if (all > 0) runs.shared.set(runs.done + double(tokens) / double(all), runs.all);
  };
  const auto run_here = [&] { return run_system(scenario, system, trace, options); };
  // SimGrid runs once in the life of a process.
  RunResult result =
      options.executor == ExecutorKind::simgrid
          ? unpack_result(engine::run_in_simgrid_child([&] { return pack_result(run_here()); }))
          : run_here();
  runs.shared.set(++runs.done, runs.all);
  return result;
}

/// All systems of a scenario, in its order.
std::vector<RunResult> run_all(const Scenario& scenario, ExecutorKind executor, RunsDone& runs) {
  const RoutingTrace trace = scenario_trace(scenario);
  const std::optional<RankInclusion> statistics = check_scenario(scenario, trace);
  RunOptions options;
  options.executor = executor;
  if (statistics) options.statistics = &*statistics;
  std::vector<RunResult> results;
  for (const SystemConfig& system : scenario.systems)
    results.push_back(run_one(scenario, system, trace, options, runs));
  return results;
}

/// As `moelab run`: simgrid for a cluster where none is named.
ExecutorKind executor_of(const std::string& name, const Scenario& scenario) {
  if (!name.empty() && name != "fast" && name != "simgrid")
    throw InputError("executor " + name, "expected fast or simgrid");
  const bool simgrid = name == "simgrid" || (name.empty() && scenario.cluster);
  return simgrid ? ExecutorKind::simgrid : ExecutorKind::fast;
}

struct RunCall {
  std::string name;
  std::optional<std::string> text;
  Settings settings;
  std::vector<std::string> systems;
  std::string executor;  // "": executor_of()
  std::uint64_t seeds = 1;
  nb::list policies;
  nb::object progress;
};

/// What `moelab run --format json` prints.
std::string run(const RunCall& call) {
  const Work work = [&](const SharedProgress& shared) {
    if (!call.text) check_no_sweep(call.name, "moelab.sweep");
    const Scenario scenario = scenario_of(call.name, call.text, call.settings, call.systems);
    check_listed(scenario, call.systems, "system");
    check_seeds(scenario, call.seeds, "seeds");
    const ExecutorKind executor = executor_of(call.executor, scenario);
    RunsDone runs{shared, 0, double(scenario.systems.size()) * double(call.seeds)};
    const std::vector<RunResult> results = run_all(scenario, executor, runs);
    const auto by_seed = outcomes_by_seed(scenario, results, call.seeds, [&](std::uint64_t seed) {
      Settings settings = call.settings;
      settings.emplace_back("seed", std::to_string(seed));
      return run_all(scenario_of(call.name, call.text, settings, call.systems), executor, runs);
    });
    return answered_results_json(results, run_answer(scenario, results, by_seed));
  };
  return with_policies(call.policies, work, call.progress);
}

/// A scenario that says all itself: no model, device or system of another file.
std::string resolved(const std::string& name, const std::string& text, const Settings& settings) {
  return with_policies({},
                       [&](const SharedProgress&) { return scenario_of(name, text, settings, {}).document; });
}

std::string check_policy_of_class(const nb::list& policies, std::uint64_t instances, std::uint64_t seed) {
  const std::string family = nb::cast<std::string>(policies[0]["family"]);
  const std::string name = nb::cast<std::string>(policies[0]["name"]);
  return with_policies(policies, [&](const SharedProgress&) {
    const PolicyCheck check = check_policy(family, name, {.instances = instances, .seed = seed});
    if (!check.broken.empty()) throw InputError("", check.broken);
    return Json{{"instances", check.instances}, {"refused", check.refused}}.dump();
  });
}

struct CompareCall {
  CompareSettings settings;
  std::string leaderboard;  // a file; "": none
  nb::list policies;
  nb::object progress;
};

/// The comparison's processes are this child's: Ctrl-C ends them with it.
std::string compare(const CompareCall& call) {
  const Work work = [&](const SharedProgress& shared) {
    if (!call.settings.text) check_no_sweep(call.settings.scenario, "moelab.sweep");
    CompareSettings settings = call.settings;
    settings.settings_digests = !call.leaderboard.empty();
    std::error_code none;
    if (std::filesystem::exists(call.leaderboard, none)) read_leaderboard(call.leaderboard);
    const PolicyComparison comparison = compare_policies(
        settings, [&](std::size_t done, std::size_t all) { shared.set(double(done), double(all)); });
    if (!call.leaderboard.empty())
      append_to_leaderboard(call.leaderboard, leaderboard_lines(comparison, utc_now()));
    return compare_json(comparison);
  };
  return with_policies(call.policies, work, call.progress);
}

/// A store that another program keeps locked is waited for until Ctrl-C, whose exception is then set.
LockWait waits_for_lock() {
  return [said = false](double seconds) mutable {
    constexpr double kPatience_s = 2;
    const nb::gil_scoped_acquire held;
    if (seconds >= kPatience_s && !std::exchange(said, true))
      PySys_WriteStderr("moelab: waiting for a store that another program keeps locked\n");
    return PyErr_CheckSignals() == 0;
  };
}

struct SweepCall {
  std::string name, db;
  std::optional<std::string> text;
  Settings settings;
  std::size_t jobs = 1;
  bool fail_fast = false, again = false;
  double verify_share = 0;
  std::string cluster;  // "": on this machine
  std::vector<std::string> programs;
  std::string python;
  nb::list policies;
  nb::object progress;
};

std::string summary_json(const SweepFile& sweep, const SweepSummary& s) {
  Json failures = Json::array();
  for (const auto& [point, run] : s.failures)
    failures.push_back(
        {{"run", run.identity}, {"point", point}, {"status", to_string(run.status)}, {"error", run.error}});
  return Json{{"sweep", sweep.name},    {"points", s.points},       {"runs", s.runs},
              {"there", s.there},       {"done", s.done},           {"failed", s.failed},
              {"verified", s.verified}, {"left_out", s.left_out},   {"stopped", s.stopped},
              {"dropped", s.dropped},   {"elapsed_s", s.elapsed_s}, {"cpu_s", s.cpu_s},
              {"failures", failures}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Where two sweeps of a process go on at a time, policies of one would be in the tables of the other.
class OneSweep {
 public:
  explicit OneSweep(bool with_policies) : with_policies_(with_policies) {
    if (policies_in_use_ || (with_policies && running_ > 0))
      throw std::runtime_error(
          "another sweep of this process is at work, one of the two with policies: wait for its end");
    ++running_;
    policies_in_use_ = with_policies;
  }
  ~OneSweep() {
    const nb::gil_scoped_acquire held;
    --running_;
    if (with_policies_) policies_in_use_ = false;
  }
  OneSweep(const OneSweep&) = delete;
  OneSweep& operator=(const OneSweep&) = delete;

 private:
  static inline int running_ = 0;  // Python's lock guards these
  static inline bool policies_in_use_ = false;
  bool with_policies_;
};

std::string sweep(const SweepCall& call) {
  const OneSweep alone(call.policies.size() > 0);
  std::optional<PythonForks> forks;
  if (call.policies.size() > 0) forks.emplace();
  const PythonLibrary library(call.policies);
  OthersRun others(call.progress);
  load_policy_path();
  const SweepFile file =
      call.text ? read_sweep({call.name, *call.text}, call.settings) : load_sweep(call.name, call.settings);
  const CheckedSweep checked = check_sweep(file, call.jobs, [&](std::uint64_t) { others.signals(); });
  if (call.cluster.empty() && file.executor == "simgrid") engine::load_simgrid();
  ResultStore store(call.db, ResultStore::Access::write, waits_for_lock());
  store.check_whole();
  const ChildLimits limits{file.limit_s, file.limit_bytes};
  std::unique_ptr<PointWorkers> workers;
  if (call.cluster.empty())
    workers = std::make_unique<ForkedWorkers>(call.jobs, limits);
  else
    workers = std::make_unique<ClusterWorkers>(ClusterPlace{.address = call.cluster,
                                                            .programs = call.programs,
                                                            .python = call.python,
                                                            .meanwhile = [&] { others.signals(); }},
                                               limits);
  SweepOptions options;
  options.fail_fast = call.fail_fast;
  options.again = call.again;
  options.verify_share = call.verify_share;
  options.progress = [&](const SweepProgress& p) { others.tick(double(p.done + p.failed), double(p.all)); };
  const SweepSummary summary = run_sweep(file, checked, store, *workers, options);
  store.check_whole();
  return summary_json(file, summary);
}

Json value_json(const std::string& text) {
  const Value value = value_of_text(text);
  static constexpr const char* kUnits[] = {"", "s", "bytes", "bytes/s", "FLOP", "FLOP/s"};
  if (const auto* measure = std::get_if<Measure>(&value))
    return {{"text", text}, {"value", measure->value}, {"unit", kUnits[static_cast<int>(measure->unit)]}};
  return {{"text", text}};
}

Json outcome_json(const StoredOutcome& outcome) {
  Json axes = Json::object();
  for (const auto& [name, value] : outcome.point.axes) axes[name] = value_json(value);
  Json j{{"point", outcome.point.number},
         {"series", outcome.point.series},
         {"system", outcome.point.system},
         {"run", outcome.point.run},
         {"axes", axes}};
  j["metrics"] = Json::object();
  for (std::size_t i = 0; i < kMetricColumns.size(); ++i)
    j["metrics"][kMetricColumns[i].name] = outcome.metrics[i] ? Json(*outcome.metrics[i]) : Json(nullptr);
  j["status"] = outcome.run ? Json(to_string(outcome.run->status)) : Json(nullptr);
  if (!outcome.run) return j;
  const StoredRun& run = *outcome.run;
  j.update({{"error", run.error},
            {"scenario", run.scenario},
            {"executor", run.executor},
            {"seed", run.seed},
            {"version", run.version},
            {"started", run.started},
            {"wall_s", run.wall_s},
            {"cpu_s", run.cpu_s},
            {"peak_bytes", run.peak_bytes},
            {"host", run.host}});
  return j;
}

/// Of one sweep, or of all.
std::string outcomes(const std::string& db, const std::optional<std::string>& only) {
  const nb::gil_scoped_release others_run;
  const ResultStore store(db, ResultStore::Access::read, waits_for_lock());
  Json all = Json::object();
  std::vector<std::string> names;
  for (const StoredSweep& sweep : store.sweeps()) names.push_back(sweep.name);
  if (only && std::find(names.begin(), names.end(), *only) == names.end())
    throw InputError(db, "there is no sweep '" + *only + "'" + suggestion(*only, names));
  for (const std::string& name : names) {
    if (only && name != *only) continue;
    Json& points = all[name] = Json::array();
    for (const StoredOutcome& outcome : store.outcomes(name)) points.push_back(outcome_json(outcome));
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string result(const std::string& db, const std::string& identity) {
  const nb::gil_scoped_release others_run;
  const auto found = ResultStore(db, ResultStore::Access::read, waits_for_lock()).run(identity, true);
  if (!found) throw InputError(db, "there is no run '" + identity + "'");
  if (found->status != RunStatus::done)
    throw InputError(
        db, "run '" + identity + "' has no result (" + to_string(found->status) + "): " + found->error);
  return found->result;
}

/// moelab.InputError, made of the problems.
void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const InputError& error) {
    if (PyErr_Occurred() != nullptr) return;  // Ctrl-C came first
    const nb::object kind = nb::module_::import_("moelab._errors").attr("InputError");
    nb::list problems;
    for (const Problem& p : error.problems())
      problems.append(nb::make_tuple(p.file, p.line, p.column, p.what, to_string(p)));
    PyErr_SetObject(kind.ptr(), problems.ptr());
  }
}

}  // namespace
}  // namespace moelab

NB_MODULE(_native, module) {
  using namespace moelab;
  nb::register_exception_translator(&translate);
  module.attr("__version__") = program_version();
  module.def("run",
             [](const std::string& name, const std::optional<std::string>& text, const Settings& settings,
                const std::vector<std::string>& systems, const std::string& executor, std::uint64_t seeds,
                const nb::list& policies, const nb::object& progress) {
               return run({name, text, settings, systems, executor, seeds, policies, progress});
             });
  module.def("resolved", &resolved);
  module.def("sweep",
             [](const std::string& name, const std::optional<std::string>& text, const Settings& settings,
                const std::string& db, std::size_t jobs, bool fail_fast, bool again, double verify_share,
                const std::string& cluster, const std::vector<std::string>& programs,
                const std::string& python, const nb::list& policies, const nb::object& progress) {
               return sweep({name, db, text, settings, jobs, fail_fast, again, verify_share, cluster,
                             programs, python, policies, progress});
             });
  module.def("compare",
             [](const std::string& name, const std::optional<std::string>& text, const Settings& settings,
                const std::string& system, const std::string& family, const std::vector<std::string>& names,
                const std::vector<std::string>& traces, const std::vector<std::string>& laws,
                const std::vector<std::string>& budgets, std::uint64_t seeds, std::size_t jobs,
                const std::string& leaderboard, const nb::list& policies, const nb::object& progress) {
               return compare({{.scenario = name,
                                .text = text,
                                .settings = settings,
                                .system = system,
                                .family = family,
                                .policies = names,
                                .traces = traces,
                                .laws = laws,
                                .budgets = budgets,
                                .seeds = seeds,
                                .jobs = jobs},
                               leaderboard,
                               policies,
                               progress});
             });
  module.def("check_policy", &check_policy_of_class);
  module.def("unit_names", &unit_names);
  nb::list columns;
  for (const MetricColumn& column : kMetricColumns) columns.append(nb::make_tuple(column.name, column.path));
  module.attr("METRIC_COLUMNS") = nb::tuple(columns);
  module.def("outcomes", &outcomes);
  module.def("result", &result);
  add_trace(module);
}
