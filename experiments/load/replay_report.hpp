// Measured beside predicted: statistics, as JSON and as tables.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/load/replay_loop.hpp"

namespace moelab::replay {

/// One figure, of the real server and of the replay; `measured` is none where the folder does not have it.
struct Compared {
  std::optional<double> measured;
  double predicted = 0;
};

/// A metric over all requests.
struct ComparedSample {
  Compared mean, p50, p90, p95, p99;
};

/// A second (or what the folder's samples are apart) of both.
struct ComparedMoment {
  double time_s = 0;
  Compared tokens_per_s, prompt_tokens_per_s, running, waiting, kv_use;
};

/// TTFT: from being queued to the first token. TPOT: a request's mean time between tokens; requests of one
/// token have none. End to end: from being queued to the last token. All in seconds.
struct Comparison {
  ComparedSample ttft, tpot, end_to_end;
  Compared kv_blocks, tokens_per_s, duration_s;
  std::vector<ComparedMoment> over_time;
};

Comparison compare(const ServingFolder& folder, const Setup& setup, const Replay& replayed);

/// {"ttft_s": {"mean": {"measured":, "predicted":}, "p50", "p90", "p95", "p99"}, "tpot_s", "end_to_end_s",
///  "kv_blocks": {"measured", "predicted"}}
nlohmann::ordered_json comparison_json(const Comparison& c);

/// What people read.
std::string comparison_text(const ServingFolder& folder, const Setup& setup, const Replay& replayed,
                            const Comparison& c, const std::string& times);

/// Values of requests, by metric; of TPOT without those that have none.
struct RequestTimes {
  std::vector<double> ttft, tpot, end_to_end;
};
RequestTimes measured_times(const ServingFolder& folder);
RequestTimes replayed_times(const ServingFolder& folder, const Replay& replayed);

}  // namespace moelab::replay
