// The runs of a load curve: a scenario's systems at request rates, each with several seeds, in processes of
// their own.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/load/load_sample.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"

namespace moelab {

/// Requests a second, more than any machine answers: all are there at once, and the run is as fast as it can
/// be. Nothing is left out of its statistics.
inline constexpr double kAtOnce = 1e9;

struct LoadSettings {
  std::string scenario;
  std::vector<std::pair<std::string, std::string>> settings;  // as `moelab run --set`
  std::vector<std::string> only;                              // systems; empty: all
  ExecutorKind executor = ExecutorKind::fast;
  /// Of a run; 0: as the scenario says, where it draws fewer kLeastRequests, or what settle() finds. Of a
  /// cluster, of all users, by their rates; each phase keeps its share of its server's, one at least.
  std::uint64_t requests = 0;
  std::uint64_t seeds = 1;  // from the scenario's on
  std::size_t jobs = 1;     // processes at a time
  ServiceLevel level;
  bool keep_records = false;  // of each run those of its requests
};

/// The scenario as it is read before the requests of a run are known: where it leaves out of its statistics
/// as many as it has itself, and would be refused for that, it is without a warm-up and a cool-down.
Scenario load_as_read(const LoadSettings& settings);

/// A run: a system by its place in the scenario, a rate in requests a second, a seed by its place.
struct LoadAsk {
  std::size_t system = 0;
  double rate = 0;
  std::size_t seed = 0;
  auto operator<=>(const LoadAsk&) const = default;
};

using LoadProgress = std::function<void(std::size_t done, std::size_t all)>;

class LoadRuns {
 public:
  /// Reads and checks the scenario. Of a cluster a rate is that of all its users, each server's keeping their
  /// share of it. Throws InputError with all that is wrong: also for requests that come all at once, from a
  /// log or on a cluster, a closed loop, and what is left out of statistics by seconds.
  explicit LoadRuns(LoadSettings settings);
  ~LoadRuns();

  /// Of the first seed.
  const Scenario& scenario() const;
  std::size_t systems() const { return scenario().systems.size(); }
  std::size_t seeds() const { return seeds_.size(); }
  /// Of a run.
  std::uint64_t requests() const;
  /// `rate` where requests are drawn, nothing where a log says when they come, or on a cluster, where what is
  /// offered is each server's (verdict_of, verdict_of_servers).
  std::optional<double> offered(double rate) const;
  const ServiceLevel& level() const { return settings_.level; }

  /// Makes runs long enough for a steady state at any rate that the systems can take (requests_to_settle), by
  /// what each has in service when all requests are there at once; for that each runs once. Nothing where
  /// a number of requests was asked for, or a log or a trace has its own. A system that cannot be run so says
  /// nothing of that, and notes() does: at the rates that are asked for it may run.
  void settle(const LoadProgress& progress);
  /// What a reader of its runs should know: of which systems it is not known how many requests a run needs,
  /// and what the scenario says of a log's pace in vain.
  std::vector<std::string> notes() const;

  /// Samples in the order of `asks`. Each is run once in the life of this object. `progress` hears how many
  /// of those that are to be run have ended. Throws InputError where a run fails otherwise than for want of
  /// memory.
  std::vector<LoadSample> run(const std::vector<LoadAsk>& asks, const LoadProgress& progress);

 private:
  struct Seed;
  void draw();
  using Failed = std::map<LoadAsk, std::exception_ptr>;
  /// Runs those that were not run before. What fails goes to `failed`, or is thrown where that is nullptr.
  void run_new(const std::vector<LoadAsk>& asks, const LoadProgress& progress, Failed* failed);
  /// Requests that a system has in service at once, of the one that has most, when all are there from the
  /// start; fills unsettled_.
  double most_in_service(const LoadProgress& progress);
  LoadSample one(const LoadAsk& ask) const;

  LoadSettings settings_;
  std::vector<std::unique_ptr<Seed>> seeds_;
  std::map<LoadAsk, LoadSample> known_;
  std::map<std::size_t, std::string> unsettled_;  // systems that cannot be run so, and why
};

}  // namespace moelab
