// One run at one rate: what its requests met, and whether the system kept up with them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/load/service_level.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run_result.hpp"
#include "sim/sweep/request_rate.hpp"

namespace moelab {

/// What the requests of one class met, of a run at a rate; as LoadSample has it of all.
struct ClassSample {
  std::uint64_t requests = 0;  // measured
  std::uint64_t answered = 0;  // in the measured seconds
  std::uint64_t met = 0;       // measured requests that meet the level's limits for their class and for all
  std::uint64_t good = 0;      // of `answered`, those that do
  std::array<Summary, kLatencies> latencies{};
  std::array<bool, kLatencies> known{};  // some request of the class has that latency

  /// Of no requests: nothing.
  std::optional<double> met_share() const {
    if (requests == 0) return std::nullopt;
    return static_cast<double>(met) / static_cast<double>(requests);
  }
  const Summary* of(Latency latency) const {
    const auto i = static_cast<std::size_t>(latency);
    return known[i] ? &latencies[i] : nullptr;
  }
};

/// A run at a rate; with a warm-up or a cool-down, the measured part of it: values of measured requests, and
/// rates of what was answered in the measured seconds, whenever it came. Of no request: no values.
struct LoadSample {
  std::uint64_t requests = 0;     // measured
  std::uint64_t answered = 0;     // in the measured seconds
  std::uint64_t preemptions = 0;  // of measured requests
  double wall_s = 0;              // the measured seconds
  double tokens_per_s = 0, input_tokens_per_s = 0;
  std::array<Summary, kLatencies> latencies{};
  std::array<bool, kLatencies> known{};  // some request has that latency
  ServiceRates service;                  // of the run
  std::vector<ClassSample> classes;      // in the workload's order; empty: it has none
  std::vector<Backlog> backlogs;         // of each server that served some
  std::uint64_t met = 0;                 // measured requests that meet all limits of the level
  std::uint64_t good = 0;                // of `answered`, those that do
  std::vector<bool> holding;             // by clause of the level
  std::vector<double> level_values;  // likewise, in s: what the clause is about; below 0: no request has one
  /// What most of the time went to, and where, as RunAnswer has them, waiting for requests left out; "":
  /// nothing was answered, or took time.
  std::string cause, place;
  double cause_share = 0;  // of the time, waiting for requests included
  std::string refusal;     // why it could not run: then nothing else is filled
  std::string records;     // where they are kept (LoadSettings): requests_jsonl() of the run

  /// 0 where no time passed.
  double a_second(std::uint64_t count) const { return wall_s > 0 ? static_cast<double>(count) / wall_s : 0; }
  TokenCost token_cost() const { return moelab::token_cost(service, tokens_per_s, input_tokens_per_s); }
  double answered_per_s() const { return a_second(answered); }
  /// Of the requests answered a second: those that meet the level.
  double goodput() const { return a_second(good); }
  double met_share() const {
    return requests > 0 ? static_cast<double>(met) / static_cast<double>(requests) : 0;
  }
  LoadVerdict verdict(std::optional<double> rate) const { return verdict_of_servers(backlogs, rate); }
  const Summary* of(Latency latency) const {
    const auto i = static_cast<std::size_t>(latency);
    return known[i] ? &latencies[i] : nullptr;
  }
};
LoadSample sample_of(const RunResult& result, const ServiceLevel& level);

// Between processes.
std::string pack_sample(const LoadSample& sample);
LoadSample unpack_sample(const std::string& text);

}  // namespace moelab
