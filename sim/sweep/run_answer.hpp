// What a run of a scenario's systems says in two or three sentences: which is the fastest, by how much and
// whether that is more than noise; what bounds it; and which of the figures that it rests on is known least.
//
// Systems are compared by their time per output token where requests are served in turn, else by the mean
// latency of a request. One that knows the future (Belady's cache) or tries every order is a bound, never the
// fastest. Nor is one in which more requests fail, on a cluster whose servers leave, than in another.
// Differences are paired: seed by seed where there are several, else request by request where one request is
// served at a time, so that no two share a step. The interval is Student's t (statistics.hpp). Of a single
// seed it says what the requests leave open, not what another draw of them would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/results/statistics.hpp"
#include "sim/run_result.hpp"

namespace moelab {

struct Scenario;

/// What "fast" is said of: seconds, mean over requests.
enum class JudgedBy : std::uint8_t { tpot, end_to_end };
JudgedBy judged_by(const Scenario& scenario, const std::vector<RunResult>& results);
/// The same, where it is known whether each run that fitted has a time per output token.
JudgedBy judged_by(const Scenario& scenario, bool all_have_tpot);

/// What it is called in files and tables, and the unit that people read it in.
struct JudgedWords {
  std::string_view key, name, title;  // "tpot_s", "TPOT", "time per output token"
  std::string_view unit, of;          // "ms", "a token"
  double per_second;                  // of the unit
};
const JudgedWords& judged_words(JudgedBy by);
/// Of a run; nothing where it did not fit, or no request has such a time.
std::optional<double> judged_latency(const RunResult& result, JudgedBy by);

/// Whether two systems' difference could be chance.
enum class NoiseVerdict : std::uint8_t { more_than_noise, may_be_noise, the_same, unknown };
std::string to_string(NoiseVerdict verdict);

/// The second system's seconds less the first's, over pairs.
struct PairedDifference {
  Interval apart;  // s; half of the 95 % interval
  std::size_t pairs = 0;
  bool by_seed = false;  // else by request
};

struct TimedSystem {
  std::string system;
  double seconds = 0;        // judged_latency(), mean over seeds
  std::string why_no_rival;  // "which knows the future"; "": it is one
};

/// Of a system that serves requests in turn: the first one's TTFT, with its caches as the run begins, and the
/// mean of those begun once it was answered; s.
struct FirstRequest {
  std::string system;
  double ttft_s = 0, later_ttft_s = 0;
  std::size_t later = 0;  // requests, at least one
};

/// The figure behind a good part of the time of which least is known, as provenance has it.
struct UncertainFigure {
  std::string figure;  // "device ssd.read"
  std::string kind;    // "assumed"; "measured" where there is no worse one
  double share = 0;    // of the time
};

/// Of a system on a cluster.
struct SystemRequests {
  std::string system;
  RequestCounts counts;  // under all seeds
};

/// A system that was run and is not ranked, since more requests fail in it than in others.
struct UnrankedSystem {
  std::string system;
  std::optional<double> seconds;  // judged_latency(), mean over seeds; nothing where it answers no request
};

/// What an instance's time goes to: that of the whole run.
struct InstanceCauses {
  std::string name, words;                             // "decode0", InstancesResult::busiest_words()
  std::vector<std::pair<std::string, double>> causes;  // and their shares, most first
};

struct RunAnswer {
  JudgedBy by = JudgedBy::tpot;
  std::vector<TimedSystem> rivals;             // that ran, the fastest first
  std::vector<TimedSystem> bounds;             // no rivals
  std::vector<UnrankedSystem> unranked;        // on a cluster, as are all of the next
  std::vector<SystemRequests> requests;        // that ran, in the order of results
  std::optional<PairedDifference> difference;  // of the first two
  NoiseVerdict noise = NoiseVerdict::unknown;
  std::size_t seeds = 1;
  std::vector<std::pair<std::string, double>> causes;  // of the fastest's time and their shares, most first
  std::string bound_by;                                // "CPU", "disk", "link", ...: where the first one is
  /// Whose time these are shares of, where the fastest has several instances: the busiest of each kind
  /// (InstancesResult::busiest()), the first of them that of `causes`.
  std::vector<InstanceCauses> instances;
  std::optional<UncertainFigure> least_certain;
  std::string routing;  // how the routing is known, where it decides; "" where it was recorded or does not
  std::string text;     // sentences, each a line
  std::vector<FirstRequest> first_requests;  // of the first seed, in the order of results
};

/// A line for each system whose first request's TTFT and the later ones' are more than a tenth apart.
std::string first_requests_text(const RunAnswer& answer);

/// What a run of one seed comes to for the answer.
struct SeedOutcome {
  std::optional<double> seconds;  // judged_latency()
  RequestCounts requests;         // on a cluster
};
SeedOutcome seed_outcome(const RunResult& result, JudgedBy by);

/// What the scenario's results say under further seeds, from its own on: run_answer()'s `by_seed`. `results`
/// are those of the first; `run_with` gives those of another, of the same systems in their order. Empty where
/// `seeds` is 1.
std::vector<std::vector<SeedOutcome>> outcomes_by_seed(
    const Scenario& scenario, const std::vector<RunResult>& results, std::uint64_t seeds,
    const std::function<std::vector<RunResult>(std::uint64_t seed)>& run_with);

/// Throws InputError, about `what`, where from the scenario's seed on there are not so many.
void check_seeds(const Scenario& scenario, std::uint64_t seeds, const std::string& what);

/// `by_seed`: of each result, in their order, its outcome under each seed, the first that of the result
/// itself; empty where there is one seed. Only seeds under which both of two systems ran are compared.
RunAnswer run_answer(const Scenario& scenario, const std::vector<RunResult>& results,
                     const std::vector<std::vector<SeedOutcome>>& by_seed = {});

/// Where most of a run's time goes, and where that is: place_of_cause(), of several instances with the one
/// whose time it is, "GPU of decode0, the busiest of 3 instances".
struct RunBound {
  std::string cause, place;
  double share = 0;  // of the time
};
/// Of one run by itself; `at_work`: waiting (is_waiting()) left out. Nothing where nothing took time.
std::optional<RunBound> run_bound(const Scenario& scenario, const SystemConfig& system,
                                  const RunResult& result, bool at_work);

/// "answer" of what `moelab run --format json` prints: the fields above, seconds and shares.
nlohmann::ordered_json answer_json(const RunAnswer& answer);

/// What `moelab run --format json` prints and --out stores: results_json(), each result with the "answer" of
/// all of them.
std::string answered_results_json(const std::vector<RunResult>& results, const RunAnswer& answer);

}  // namespace moelab
