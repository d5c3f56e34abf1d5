#include "sim/load/load_runs.hpp"

#include <algorithm>
#include <cmath>

#include "models/input_error.hpp"
#include "sim/results/request_file.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "sim/sweep/point_workers.hpp"
#include "sim/sweep/run_answer.hpp"
#include "traces/generator.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// A choice: more requests take minutes a run, and a run that is too short is said to be unsettled.
constexpr std::uint64_t kMostToSettle = 200'000;

using Settings = std::vector<std::pair<std::string, std::string>>;

void check_left_out(const Scenario& s) {
  for (const auto& part : {s.workload.left_out.warm_up, s.workload.left_out.cool_down})
    if (part && part->seconds > 0)
      throw InputError(s.name,
                       "workload.warm_up and cool_down are times, and how long requests come changes with "
                       "the rate; expected a number of requests, such as --set workload.warm_up=100");
}

std::uint64_t requests_of(const ServerLoad& users) {
  std::uint64_t all = 0;
  for (const LoadPhase& phase : users.phases) all += phase.requests;
  return all;
}
std::uint64_t requests_of(const ClusterConfig& cluster) {
  std::uint64_t all = 0;
  for (const ServerLoad& load : cluster.loads) all += requests_of(load);
  return all;
}

bool plays_logs(const ClusterConfig& cluster) {
  return std::ranges::any_of(cluster.loads, [](const ServerLoad& load) { return !load.log.empty(); });
}

/// A second, of one server's users; 0: there are none, or all requests are there from the start.
double rate_of_users(const ServerLoad& load) {
  return load.log.empty() ? load.arrivals_per_s : rate_of_log(load.log);
}
double rate_of_users(const ClusterConfig& cluster) {
  double rate = 0;
  for (const ServerLoad& load : cluster.loads) rate += rate_of_users(load);
  return rate;
}

/// Each server's users send for as long as the others': its part of the requests is that of the rate.
void set_requests(ClusterConfig& cluster, std::uint64_t asked) {
  const std::uint64_t all = requests_of(cluster);
  const std::uint64_t wanted = asked > 0 ? asked : std::max<std::uint64_t>(all, kLeastRequests);
  if (plays_logs(cluster) || all == 0) return;
  const double rate = rate_of_users(cluster);
  for (ServerLoad& load : cluster.loads) {
    const double own = static_cast<double>(requests_of(load));
    const double its = static_cast<double>(wanted) * rate_of_users(load) / rate;
    for (LoadPhase& phase : load.phases)
      phase.requests = static_cast<std::uint32_t>(std::max(1.0, std::round(phase.requests * its / own)));
  }
}

/// The scenario with requests that come at a rate, whichever: LoadRuns changes it.
Scenario load_at_rate(const LoadSettings& asked, const Scenario& as_read, std::uint64_t seed) {
  Settings settings = asked.settings;
  if (!as_read.cluster) {
    const WorkloadConfig& w = as_read.workload;
    if (w.log.empty()) settings.emplace_back("workload.arrivals_per_s", "1");
    if (const auto requests = requests_at_rate(w, asked.requests))
      settings.emplace_back("workload.requests", std::to_string(*requests));
  }
  settings.emplace_back("seed", std::to_string(seed));
  Scenario s = load_scenario(asked.scenario, settings, asked.only);
  if (s.cluster) set_requests(*s.cluster, asked.requests);
  check_left_out(s);
  return s;
}

void check_cluster_askable(const Scenario& s, const LoadSettings& asked) {
  for (std::size_t i = 0; i < s.cluster->loads.size(); ++i) {
    const ServerLoad& load = s.cluster->loads[i];
    if (!load.log.empty() && rate_of_users(load) == 0)
      throw InputError(load.request_log, "its requests all come at the same moment, which no rate changes");
    if (!load.phases.empty() && rate_of_users(load) == 0)
      throw InputError(s.name,
                       "all requests of the users of server '" + s.cluster->profile.servers[i].name +
                           "' are there from the start, which no rate changes; expected arrivals_per_s "
                           "in their entry of workload.servers");
  }
  if (rate_of_users(*s.cluster) == 0) throw InputError(s.name, "no server has users whose rate could be set");
  if (asked.requests > 0 && plays_logs(*s.cluster))
    throw InputError("--requests", "the requests of some users are a log's (workload.servers); leave it out");
}

void check_askable(const Scenario& s, const LoadSettings& asked) {
  check_listed(s, asked.only, "--system");
  if (s.cluster) {
    check_cluster_askable(s, asked);
    return;
  }
  if (s.workload.closed_loop)
    throw InputError(s.name,
                     "workload.closed_loop: its users send when they are answered, at the rate that comes of "
                     "it; expected requests that come by themselves, or 'moelab sweep' over "
                     "workload.closed_loop.users");
  if (asked.requests > 0 && !s.workload.log.empty())
    throw InputError("--requests", "the scenario's requests are its log's (workload.request_log '" +
                                       s.workload.request_log + "'); leave it out");
  if (!s.workload.log.empty() && rate_of_log(s.workload.log) == 0)
    throw InputError(s.workload.request_log,
                     "its requests all come at the same moment, which no rate changes");
}

/// All users of a cluster together: each server's keep their share of the rate.
void set_cluster_rate(Scenario& s, double rate) {
  const double times = rate / rate_of_users(*s.cluster);
  for (ServerLoad& load : s.cluster->loads) {
    load.arrivals_per_s *= times;
    stretch_log(load.log, 1 / times);
    if (!load.log.empty() && !(load.log.back().arrival_s <= kLatestArrival))
      throw InputError(load.request_log, "at so low a rate its last request would come later than 1e12 s");
  }
}

void set_rate(Scenario& s, double rate) {
  if (s.cluster) {
    set_cluster_rate(s, rate);
    return;
  }
  if (s.workload.log.empty())
    s.workload.arrivals_per_s = rate;
  else
    stretch_log(s.workload.log, rate_of_log(s.workload.log) / rate);
  if (!s.workload.log.empty() && !(s.workload.log.back().arrival_s <= kLatestArrival))
    throw InputError(s.workload.request_log,
                     "at so low a rate its last request would come later than 1e12 s");
}

/// What an InputError says; throws what is none.
std::string refusal_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InputError& refused) {
    return refused.what();
  }
}

}  // namespace

/// What all runs with one seed share; processes inherit it.
struct LoadRuns::Seed {
  explicit Seed(Scenario s) : scenario(std::move(s)), trace(scenario_trace(scenario)) {
    statistics = check_scenario(scenario, trace);
  }
  Scenario scenario;
  RoutingTrace trace;
  std::optional<RankInclusion> statistics;
};

Scenario load_as_read(const LoadSettings& asked) {
  try {
    return load_scenario(asked.scenario, asked.settings, asked.only);
  } catch (const InputError& refused) {
    Settings settings = asked.settings;
    for (const char* part : {"workload.warm_up", "workload.cool_down"}) settings.emplace_back(part, "0");
    try {
      return load_scenario(asked.scenario, settings, asked.only);
    } catch (const InputError&) {
      throw InputError(refused);  // of both it says more
    }
  }
}

LoadRuns::LoadRuns(LoadSettings settings) : settings_(std::move(settings)) {
  draw();
}

void LoadRuns::draw() {
  const Scenario as_read = load_as_read(settings_);
  check_askable(as_read, settings_);
  seeds_.clear();
  known_.clear();
  for (std::uint64_t i = 0; i < settings_.seeds; ++i)
    seeds_.push_back(std::make_unique<Seed>(load_at_rate(settings_, as_read, as_read.seed + i)));
}

LoadRuns::~LoadRuns() = default;

const Scenario& LoadRuns::scenario() const {
  return seeds_.front()->scenario;
}

std::uint64_t LoadRuns::requests() const {
  const Seed& first = *seeds_.front();
  if (first.scenario.cluster) return requests_of(*first.scenario.cluster);
  return first.scenario.workload.trace_file.empty() ? first.scenario.workload.requests
                                                    : first.trace.requests().size();
}

std::optional<double> LoadRuns::offered(double rate) const {
  if (scenario().cluster) return std::nullopt;
  return offered_rate(scenario().workload, rate);
}

LoadSample LoadRuns::one(const LoadAsk& ask) const {
  const Seed& seed = *seeds_[ask.seed];
  Scenario s = seed.scenario;
  set_rate(s, ask.rate);
  if (ask.rate >= kAtOnce) s.workload.left_out = {};
  RunOptions options;
  options.executor = settings_.executor;
  if (seed.statistics) options.statistics = &*seed.statistics;
  const RunResult result = run_system(s, s.systems[ask.system], seed.trace, options);
  LoadSample sample;
  if (result.memory.shortfall > Bytes(0))
    sample.refusal = "does not fit: it needs " + to_string(result.memory.shortfall) + " more";
  else
    sample = sample_of(result, settings_.level);
  if (!sample.refusal.empty()) return sample;
  if (settings_.keep_records && ask.rate < kAtOnce) sample.records = requests_jsonl({result});
  if (const auto bound = run_bound(s, s.systems[ask.system], result, true)) {
    sample.cause = bound->cause;
    sample.place = bound->place;
    sample.cause_share = bound->share;
  }
  return sample;
}

double LoadRuns::most_in_service(const LoadProgress& progress) {
  std::vector<LoadAsk> asks;
  for (std::size_t system = 0; system < systems(); ++system) asks.push_back({system, kAtOnce, 0});
  Failed failed;
  run_new(asks, progress, &failed);
  unsettled_.clear();
  double most = 0;
  for (const LoadAsk& ask : asks) {
    if (const auto why = failed.find(ask); why != failed.end()) {
      unsettled_.emplace(ask.system, refusal_of(why->second));
      continue;
    }
    const LoadSample& sample = known_.at(ask);
    double residence_s = 0;
    for (const Backlog& b : sample.backlogs) residence_s = std::max(residence_s, b.residence_s);
    most = std::max(most, sample.answered_per_s() * residence_s);
  }
  return most;
}

std::vector<std::string> LoadRuns::notes() const {
  std::vector<std::string> all;
  for (const auto& [system, why] : unsettled_)
    all.push_back(
        "how many requests a run of system '" + scenario().systems[system].name +
        "' needs for a steady state is not known: with all of them there at once it cannot be run (" + why +
        "); runs have " + std::to_string(requests()) + " (--requests)");
  if (const std::string& key = scenario().workload.pace_key; !key.empty())
    all.push_back("workload." + key +
                  " changes nothing here: the log is played at each of the rates, whatever its pace");
  return all;
}

void LoadRuns::settle(const LoadProgress& progress) {
  const std::optional<ClusterConfig>& cluster = scenario().cluster;
  const WorkloadConfig& w = scenario().workload;
  const bool own = cluster ? plays_logs(*cluster) : !w.log.empty() || !w.trace_file.empty();
  if (own || settings_.requests > 0) return;
  for (;;) {
    const std::uint64_t tried = requests();
    const double in_service = most_in_service(progress);
    const std::uint64_t needed = std::min(requests_to_settle(in_service), kMostToSettle);
    if (needed <= tried) return;
    settings_.requests = needed;
    draw();
    // More might have been in service had more been there.
    if (in_service < static_cast<double>(tried) / 4) return;
  }
}

std::vector<LoadSample> LoadRuns::run(const std::vector<LoadAsk>& asks, const LoadProgress& progress) {
  run_new(asks, progress, nullptr);
  std::vector<LoadSample> samples;
  for (const LoadAsk& ask : asks) samples.push_back(known_.at(ask));
  return samples;
}

void LoadRuns::run_new(const std::vector<LoadAsk>& asks, const LoadProgress& progress, Failed* failed) {
  std::vector<LoadAsk> wanted;
  for (const LoadAsk& ask : asks)
    if (!known_.contains(ask) && std::ranges::find(wanted, ask) == wanted.end()) wanted.push_back(ask);
  if (settings_.executor == ExecutorKind::simgrid) engine::load_simgrid();
  ForkedWorkers workers(settings_.jobs, {});
  for (std::size_t next = 0, done = 0; done < wanted.size();) {
    for (; next < wanted.size() && workers.room() > 0; ++next)
      workers.start_work(next, [&, ask = wanted[next]] { return pack_sample(one(ask)); });
    for (auto& [number, outcome] : workers.wait(1)) {
      ++done;
      std::exception_ptr error = outcome.child.error;
      if (!error && outcome.child.kind != ChildOutcome::Kind::done)
        error = std::make_exception_ptr(
            InputError(settings_.scenario, "a run cannot be made: " + outcome.child.text));
      if (!error)
        known_[wanted[number]] = unpack_sample(outcome.child.text);
      else if (failed != nullptr)
        failed->emplace(wanted[number], error);
      else
        std::rethrow_exception(error);
      if (progress) progress(done, wanted.size());
    }
  }
}

}  // namespace moelab
