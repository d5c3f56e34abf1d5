#include "sim/explain/explain.hpp"
#include "sim/simgrid_module.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "models/input_error.hpp"
#include "policies/guard/policy_error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/trace_scores.hpp"
#include "sim/version.hpp"
#include "traces/law/model_law.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// A scenario of one system with its trace, to be run in several ways.
class Subject {
 public:
  /// `file` is what messages call the document's.
  Subject(const std::string& file, const std::string& document, const std::string& executor)
      : scenario_(scenario_of_document(file, document)),
        trace_(scenario_trace(scenario_)),
        executor_(executor == "simgrid" ? ExecutorKind::simgrid : ExecutorKind::fast) {
    statistics_ = check_scenario(scenario_, trace_);
  }
  /// The same with another document, which differs in the system's cache alone: rows of routing that would be
  /// drawn alike are shared.
  Subject(const Subject& as_it_was, const std::string& file, const std::string& document)
      : scenario_(scenario_of_document(file, document)), executor_(as_it_was.executor_) {
    const bool alike = draws_all_scores(scenario_) == draws_all_scores(as_it_was.scenario_);
    trace_ = alike ? as_it_was.trace_ : scenario_trace(scenario_);
    statistics_ = check_scenario(scenario_, trace_);
  }
  const SystemConfig& system() const { return scenario_.systems.front(); }
  const Scenario& scenario() const { return scenario_; }

  /// With another law of routing in the scenario's place.
  Subject(const Subject& as_it_was, const RoutingLaw& law)
      : scenario_(as_it_was.scenario_), executor_(as_it_was.executor_) {
    scenario_.workload.law = law;
    trace_ = scenario_trace(scenario_);
    statistics_ = check_scenario(scenario_, trace_);
  }

  /// `progress`: tokens generated, all.
  using Tokens = std::function<void(std::uint64_t, std::uint64_t)>;
  RunResult run(const Tokens& progress, const std::vector<std::string>& free_resources = {}) const {
    RunOptions options;
    options.progress = [&](const SystemConfig&, std::uint64_t tokens, std::uint64_t all) {
      progress(tokens, all);
    };
    options.executor = executor_;
    options.free_resources = free_resources;
    if (statistics_) options.statistics = &*statistics_;
    if (executor_ == ExecutorKind::fast) return run_system(scenario_, system(), trace_, options);
    return unpack_result(engine::run_in_simgrid_child(
        [&] { return pack_result(run_system(scenario_, system(), trace_, options)); }));
  }

 private:
  Scenario scenario_;
  RoutingTrace trace_;
  ExecutorKind executor_;
  std::optional<RankInclusion> statistics_;  // of planning, for all runs
};

/// As its file would be read.
ResultFile as_file(const RunResult& run) {
  return results_of_text("the run", results_json({run})).front();
}

std::vector<ChangedFigure> changed_figures(const ResultFile& was, const ResultFile& is) {
  std::vector<ChangedFigure> changed;
  for (const auto& [path, value] : is.figures) {
    const auto before = std::find_if(was.figures.begin(), was.figures.end(),
                                     [&path = path](const auto& figure) { return figure.first == path; });
    const double old =
        before == was.figures.end() ? std::numeric_limits<double>::quiet_NaN() : before->second;
    if (old != value) changed.push_back({path, old, value});
  }
  return changed;
}

std::vector<std::string> changed_files(const std::vector<DataFile>& was, const std::vector<DataFile>& is) {
  std::vector<std::string> changed;
  for (const DataFile& file : is)
    if (std::none_of(was.begin(), was.end(),
                     [&](const DataFile& f) { return f.path == file.path && f.digest == file.digest; }))
      changed.push_back(file.path);
  return changed;
}

/// Kinds of resources that did anything, with how busy they were.
std::vector<FreedResource> kinds_of(const std::vector<ResourceUse>& resources) {
  std::vector<FreedResource> kinds;
  for (const ResourceUse& use : resources) {
    const std::string kind = resource_kind(use.name);
    auto found =
        std::find_if(kinds.begin(), kinds.end(), [&](const FreedResource& r) { return r.kind == kind; });
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, 0, 0, {}});
    found->slots +=
        use.slots == engine::kUnlimitedSlots ? std::numeric_limits<double>::infinity() : use.slots;
    found->busy_s += use.busy_s;
  }
  std::erase_if(kinds, [](const FreedResource& r) { return r.busy_s == 0; });
  return kinds;
}

/// `again`: the run as it was, which is the reference where the cache is that already.
CacheReference reference(const Subject& subject, const ResultFile& given, const ResultFile& again,
                         const std::string& policy, const Subject::Tokens& progress) {
  CacheReference r{policy, "", std::nullopt};
  const std::string document = document_with_cache(given.document, policy);
  if (document == given.document) {
    r.result = again;
    return r;
  }
  try {
    r.result = as_file(Subject(subject, given.file, document).run(progress));
  } catch (const PolicyError&) {  // no refusal
    throw;
  } catch (const InputError& error) {
    r.refused = error.problems().front().what;
  }
  return r;
}

/// Counts the runs of an explanation, and says how far each is.
class RunCount {
 public:
  explicit RunCount(const std::function<void(const ExplainProgress&)>& progress) : progress_(progress) {}
  void set_all(std::size_t runs) { now_.runs = runs; }
  /// The next run begins: what its tokens are told to.
  Subject::Tokens next(const std::string& what) {
    now_.what = what;
    ++now_.run;
    tell(0, 0);
    return [this](std::uint64_t tokens, std::uint64_t all) { tell(tokens, all); };
  }

 private:
  void tell(std::uint64_t tokens, std::uint64_t all) {
    now_.tokens = tokens;
    now_.all = all;
    if (progress_) progress_(now_);
  }
  const std::function<void(const ExplainProgress&)>& progress_;
  ExplainProgress now_;
};

constexpr std::array<const char*, 2> kReferences = {"belady", "none"};

/// Whether another cache policy could take the place of the system's.
bool has_references(const SystemConfig& system) {
  return !system.placed && !(system.paging && system.paging->pinned == 0);
}

/// The runs with routing at both ends of how well it is known.
RoutingRange routing_range(const Subject& subject, const std::string& routing, RunCount& runs) {
  const RoutingLaw& law = subject.scenario().workload.law;
  const auto moved = [&](double by) {
    const Subject::Tokens progress = runs.next("with routing at an end of how well it is known");
    return as_file(Subject(subject, law_moved(law, by)).run(progress));
  };
  ResultFile lower = moved(-law.points);
  return {routing, law.points, std::move(lower), moved(law.points)};
}

}  // namespace

double judged_seconds(const ResultFile& result) {
  return result.tpot_s.value_or(result.wall_s);
}

Explanation explain(const ResultFile& given, const std::function<void(const ExplainProgress&)>& progress) {
  RunCount runs(progress);
  Explanation e;
  e.given = e.again = given;
  e.version = program_version();
  e.ran = given.tokens > 0;
  if (!e.ran) return e;
  const Subject::Tokens first = runs.next("as it was");
  const Subject subject(given.file, given.document, given.executor);
  const RunResult again = subject.run(first);
  e.again = as_file(again);
  e.ran = e.again.tokens > 0;  // what the file says is not this program's
  if (!e.ran) return e;
  e.changed = changed_figures(given, e.again);
  e.changed_data = changed_files(given.data, again.data_files);
  e.freed = kinds_of(again.busy);
  const WorkloadConfig& workload = subject.scenario().workload;
  const bool routing_known = workload.has_law && workload.law.points > 0;
  const bool references = has_references(subject.system());
  runs.set_all(1 + e.freed.size() + (routing_known ? 2 : 0) + (references ? kReferences.size() : 0));
  for (FreedResource& freed : e.freed)
    freed.result = as_file(subject.run(runs.next("with " + freed.kind + " infinitely fast"), {freed.kind}));
  if (routing_known) e.routing = routing_range(subject, again.routing, runs);
  std::stable_sort(e.freed.begin(), e.freed.end(), [](const FreedResource& a, const FreedResource& b) {
    return judged_seconds(a.result) < judged_seconds(b.result);
  });
  if (!references) return e;
  e.cache = subject.system().cache.name;
  for (const char* policy : kReferences)
    e.references.push_back(
        reference(subject, given, e.again, policy, runs.next(std::string("with cache ") + policy)));
  return e;
}

}  // namespace moelab
