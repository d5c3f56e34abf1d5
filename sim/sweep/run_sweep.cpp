#include "sim/sweep/run_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/store/refused_value.hpp"
#include "sim/sweep/utc_time.hpp"
#include "sim/version.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What a child says of the points [begin, end): [kept, identity, work] or [problem, ...] each.
std::string prepare_range(const SweepFile& sweep, std::uint64_t begin, std::uint64_t end) {
  PointPreparer preparer(sweep);
  Json all = Json::array();
  for (std::uint64_t number = begin; number < end; ++number) {
    const SweepPoint point = point_of(sweep, number);
    try {
      const PreparedPoint prepared = preparer.prepare(point);
      all.push_back({{"kept", prepared.kept}, {"run", prepared.identity}, {"work", prepared.work}});
    } catch (const InputError& error) {
      Json problems = Json::array();
      for (const Problem& p : error.problems()) problems.push_back(to_string(p));
      all.push_back({{"point", to_string(point)}, {"problems", problems}});
    }
  }
  return all.dump();
}

/// Problems of points, each text once, with the first point that has it.
class PointProblems {
 public:
  void add(const std::string& point, const std::string& problem) {
    auto& [first, count] = seen_[problem];
    if (count++ == 0) first = point;
    if (count == 1) order_.push_back(problem);
  }
  void throw_if_any(const SweepFile& sweep, std::uint64_t points) const {
    constexpr std::size_t kMostShown = 10;
    Problems problems;
    for (std::size_t i = 0; i < std::min(order_.size(), kMostShown); ++i) {
      const auto& [first, count] = seen_.at(order_[i]);
      problems.add(
          {"sweep " + sweep.name, 0, 0,
           "point (" + first + ")" +
               (count > 1 ? " and " + std::to_string(count - 1) + " more of " + std::to_string(points) : "") +
               ": " + order_[i]});
    }
    if (order_.size() > kMostShown)
      problems.add({"sweep " + sweep.name, 0, 0,
                    std::to_string(order_.size() - kMostShown) + " more problems of other points"});
    problems.throw_if_any();
  }

 private:
  std::map<std::string, std::pair<std::string, std::uint64_t>> seen_;
  std::vector<std::string> order_;
};

/// What is to run: identity, the first point that wants it, and how long it may take.
struct Wanted {
  std::size_t point;
  double cost;
};

/// Longest first: a long run that starts last would be waited for alone. Costs are those of earlier runs of
/// the same system and scenario where all are known, else the work.
std::vector<Wanted> wanted_runs(const CheckedSweep& checked, const ResultStore& store, bool again,
                                const std::string& scenario, SweepSummary& summary) {
  std::vector<Wanted> wanted;
  std::set<std::string> seen;
  std::map<std::string, std::optional<double>> known;
  bool all_known = true;
  for (std::size_t i = 0; i < checked.points.size(); ++i) {
    const StoredPoint& point = checked.points[i];
    if (!seen.insert(point.run).second) continue;
    if (!again && store.is_done(point.run)) {
      ++summary.there;
      continue;
    }
    if (!known.contains(point.system)) known[point.system] = store.mean_cpu_s(scenario, point.system);
    all_known &= known[point.system].has_value();
    wanted.push_back({i, checked.work[i]});
  }
  summary.runs = seen.size();
  if (all_known)  // a system's cost grows with the work
    for (Wanted& one : wanted) one.cost *= *known[checked.points[one.point].system];
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const Wanted& a, const Wanted& b) { return a.cost > b.cost; });
  return wanted;
}

StoredRun stored_run(const SweepFile& sweep, const StoredPoint& point, PointOutcome outcome,
                     const std::string& started) {
  StoredRun run;
  run.identity = point.run;
  run.system = point.system;
  run.executor = sweep.executor;
  run.version = program_version();
  run.started = started;
  run.wall_s = outcome.child.wall_s;
  run.cpu_s = outcome.child.cpu_s;
  run.peak_bytes = outcome.child.peak_bytes;
  run.host = outcome.host;
  switch (outcome.child.kind) {
    case ChildOutcome::Kind::done: {
      const Json result = Json::parse(outcome.child.text);
      run.scenario = result.at("scenario").get<std::string>();
      run.seed = result.at("seed").get<std::uint64_t>();
      run.result = std::move(outcome.child.text);
      return run;
    }
    case ChildOutcome::Kind::failed:
      run.status = RunStatus::failed;
      break;
    case ChildOutcome::Kind::timeout:
      run.status = RunStatus::timeout;
      break;
    case ChildOutcome::Kind::memory:
      run.status = RunStatus::memory;
      break;
  }
  run.error = outcome.child.text;
  return run;
}

/// What is left of a run that the store refuses: nothing that it may have been refused for.
StoredRun refused_run(const StoredRun& run, const std::string& why) {
  StoredRun refused;
  refused.identity = run.identity;
  refused.status = RunStatus::failed;
  refused.error = why;
  refused.system = run.system;
  refused.executor = run.executor;
  refused.version = run.version;
  refused.started = run.started;
  return refused;
}

/// What the store has of a sweep of this name: points whose runs are none of the new one's.
void find_dropped(const std::string& name, const CheckedSweep& checked, const ResultStore& store,
                  SweepSummary& summary) {
  const std::vector<StoredSweep> sweeps = store.sweeps();
  const auto earlier = std::ranges::find(sweeps, name, &StoredSweep::name);
  if (earlier == sweeps.end()) return;
  if (earlier->version != program_version()) summary.earlier_version = earlier->version;
  std::set<std::string> runs;
  for (const StoredPoint& point : checked.points) runs.insert(point.run);
  for (const StoredPoint& point : store.points(name)) summary.dropped += runs.contains(point.run) ? 0 : 1;
}

/// That share of the runs, chosen by chance, rounded up: a worker cannot know which.
std::set<std::size_t> chosen_by_chance(const std::vector<Wanted>& wanted, double share) {
  std::vector<std::size_t> points;
  for (const Wanted& one : wanted) points.push_back(one.point);
  std::random_device chance;
  std::shuffle(points.begin(), points.end(), chance);
  points.resize(static_cast<std::size_t>(std::ceil(share * static_cast<double>(points.size()))));
  return {points.begin(), points.end()};
}

std::string place_of(const PointOutcome& outcome) {
  return outcome.host + (outcome.worker.empty() ? "" : " (" + outcome.worker + ")");
}

/// The first outcome, failed where the second is another.
PointOutcome confirmed(PointOutcome first, const PointOutcome& second) {
  if (second.child.kind == ChildOutcome::Kind::done && second.child.text == first.child.text) return first;
  const bool ended = second.child.kind == ChildOutcome::Kind::done;
  first.child.text = "two runs of this point differ, on " + place_of(first) + " and on " + place_of(second) +
                     (ended ? ": their results are not the same bytes" : ": " + second.child.text);
  first.child.kind = ChildOutcome::Kind::failed;
  return first;
}

/// The loop: fills the workers, enters what comes back.
class Run {
 public:
  Run(const SweepFile& sweep, const CheckedSweep& checked, ResultStore& store, PointWorkers& workers,
      const SweepOptions& options, SweepSummary summary)
      : sweep_(sweep),
        checked_(checked),
        store_(store),
        workers_(workers),
        options_(options),
        summary_(std::move(summary)) {}

  SweepSummary go() {
    summary_.points = checked_.points.size();
    wanted_ = wanted_runs(checked_, store_, options_.again, sweep_.scenario_name, summary_);
    to_verify_ = chosen_by_chance(wanted_, options_.verify_share);
    for (const Wanted& one : wanted_) cost_all_ += one.cost;
    say();
    while (!stopping() && (next_ < wanted_.size() || !started_.empty())) {
      fill();
      auto ended = workers_.wait(0.5);
      if (!stopping()) fill();  // workers do not wait for the disk
      for (auto& [number, outcome] : ended) take(number, std::move(outcome));
      say();
    }
    summary_.stopped = next_ < wanted_.size() || !started_.empty();
    summary_.left_out = workers_.left_out();
    summary_.elapsed_s = since(begin_);
    return std::move(summary_);
  }

 private:
  bool stopping() const {
    return (options_.stop != nullptr && options_.stop->load()) || (options_.fail_fast && summary_.failed > 0);
  }

  void fill() {
    while (workers_.room() > 0 && (!second_runs_.empty() || next_ < wanted_.size())) {
      if (second_runs_.empty()) {
        start(wanted_[next_++]);
        continue;
      }
      const std::uint64_t point = second_runs_.front();
      second_runs_.pop_front();
      give_out(point, unconfirmed_.at(point).worker);
    }
  }

  void start(const Wanted& one) {
    started_[one.point] = {utc_now(), one.cost};
    give_out(one.point, "");
  }

  void give_out(std::uint64_t point, const std::string& elsewhere_than) {
    const std::uint64_t combination = checked_.combination[point];
    workers_.start(
        point, [this, combination] { return job_of(sweep_, point_of(sweep_, combination)); }, elsewhere_than);
  }

  /// Enters it, or has it run a second time first.
  void take(std::uint64_t number, PointOutcome outcome) {
    if (const auto first = unconfirmed_.find(number); first != unconfirmed_.end()) {
      outcome = confirmed(std::move(first->second), outcome);
      unconfirmed_.erase(first);
      summary_.verified += outcome.child.kind == ChildOutcome::Kind::done ? 1 : 0;
    } else if (to_verify_.erase(number) > 0 && outcome.child.kind == ChildOutcome::Kind::done) {
      unconfirmed_.emplace(number, std::move(outcome));
      second_runs_.push_back(number);
      return;
    }
    enter(number, std::move(outcome));
  }

  void enter(std::uint64_t number, PointOutcome outcome) {
    summary_.cpu_s += outcome.child.cpu_s;
    summary_.points_s += outcome.child.wall_s;
    StoredRun run = stored_run(sweep_, checked_.points[number], std::move(outcome), started_.at(number).when);
    cost_behind_ += started_.at(number).cost;
    started_.erase(number);
    try {
      store_.put_run(run);
    } catch (const RefusedValue& error) {
      run = refused_run(run, error.what());
      store_.put_run(run);
    }
    if (run.status == RunStatus::done) {
      ++summary_.done;
      return;
    }
    ++summary_.failed;
    summary_.failures.push_back({to_string(point_of(sweep_, checked_.combination[number])), std::move(run)});
  }

  void say() const {
    if (!options_.progress) return;
    SweepProgress p;
    p.ran = summary_.done + summary_.failed;
    p.done = summary_.there + summary_.done;
    p.failed = summary_.failed;
    p.all = summary_.runs;
    p.elapsed_s = since(begin_);
    if (cost_behind_ > 0) p.left_s = p.elapsed_s * (cost_all_ - cost_behind_) / cost_behind_;
    options_.progress(p);
  }

  const SweepFile& sweep_;
  const CheckedSweep& checked_;
  ResultStore& store_;
  PointWorkers& workers_;
  const SweepOptions& options_;
  SweepSummary summary_;
  std::vector<Wanted> wanted_;
  std::size_t next_ = 0;
  std::set<std::size_t> to_verify_;                    // points that are to run a second time
  std::map<std::uint64_t, PointOutcome> unconfirmed_;  // first outcomes of points that run a second time
  std::deque<std::uint64_t> second_runs_;              // of these: that have not begun
  struct Started {
    std::string when;
    double cost;
  };
  std::map<std::uint64_t, Started> started_;  // by point
  double cost_all_ = 0, cost_behind_ = 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

CheckedSweep check_sweep(const SweepFile& sweep, std::size_t jobs,
                         const std::function<void(std::uint64_t)>& progress) {
  constexpr std::uint64_t kChunk = 64;  // points of one process
  const std::uint64_t all = sweep.combinations();
  ForkedWorkers workers(jobs, {});
  std::map<std::uint64_t, Json> answers;  // by first point
  std::uint64_t next = 0, looked = 0, waiting = 0;
  while (next < all || waiting > 0) {
    for (; next < all && workers.room() > 0; next += std::min(kChunk, all - next), ++waiting)
      workers.start_work(next,
                         [&, next] { return prepare_range(sweep, next, std::min(next + kChunk, all)); });
    for (auto& [first, outcome] : workers.wait(1)) {
      --waiting;
      if (outcome.child.kind != ChildOutcome::Kind::done)
        throw InputError("sweep " + sweep.name, "points from " + to_string(point_of(sweep, first)) +
                                                    " on cannot be checked: " + outcome.child.text);
      answers[first] = Json::parse(outcome.child.text);
      looked += answers[first].size();
    }
    if (progress) progress(looked);
  }

  CheckedSweep checked;
  PointProblems problems;
  for (const auto& [first, answer] : answers) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const Json& one = answer[i];
      if (one.contains("problems")) {
        for (const Json& problem : one["problems"]) problems.add(one["point"], problem);
        continue;
      }
      if (!one["kept"].get<bool>()) continue;
      SweepPoint point = point_of(sweep, first + i);
      std::erase_if(point.axes, [](const auto& axis) { return axis.first == "system"; });  // beside them
      checked.points.push_back(
          {checked.points.size(), point.axes, point.series, point.system, point.settings, one["run"]});
      checked.work.push_back(one["work"]);
      checked.combination.push_back(first + i);
    }
  }
  problems.throw_if_any(sweep, all);
  if (checked.points.empty())
    throw InputError("sweep " + sweep.name,
                     "no point is left: 'where' holds for none of " + std::to_string(all) + " combinations");
  return checked;
}

SweepSummary run_sweep(const SweepFile& sweep, const CheckedSweep& checked, ResultStore& store,
                       PointWorkers& workers, const SweepOptions& options) {
  StoredSweep entry{sweep.name, sweep.question,    sweep.text,
                    utc_now(),  program_version(), checked.points.size()};
  SweepSummary summary;
  find_dropped(sweep.name, checked, store, summary);
  store.put_sweep(entry, checked.points);
  return Run(sweep, checked, store, workers, options, std::move(summary)).go();
}

}  // namespace moelab
