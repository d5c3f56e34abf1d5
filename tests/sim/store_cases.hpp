// Sweeps and runs to put into a store.
#pragma once

#include <string>
#include <vector>

#include "sim/store/result_store.hpp"

namespace moelab::test {

inline StoredPoint stored_point(std::uint64_t number, const std::string& budget, const std::string& system,
                                const std::string& run) {
  return {number, {{"budget", budget}, {"batch", "1"}}, "small", system, {{"budget", budget}}, run};
}

inline StoredSweep stored_sweep(const std::string& name) {
  return {name, "which budget?", "name: " + name + "\n", "2026-11-22T05:00:00Z", "0.1.0", 0};
}

/// A result as `moelab run` writes it, as far as the store looks, with a time per token in seconds.
inline std::string result_text(const std::string& tpot, const std::string& padding = "") {
  return "{\n  \"metrics\": {\"ttft_s\": 1.5, \"tpot_s\": {\"mean\": " + tpot +
         ", \"p50\": 0.25, \"p90\": 0.5, \"p99\": 1e-7}, \"end_to_end_s\": 12, "
         "\"throughput_tokens_per_s\": 9.98, \"tokens\": 1000, \"requests\": 5, \"wall_s\": 64.0},\n  "
         "\"padding\": \"" +
         padding + "\"\n}\n";
}

inline StoredRun stored_run(const std::string& identity, const std::string& tpot = "0.125") {
  StoredRun run;
  run.identity = identity;
  run.scenario = "zipmoe-orin";
  run.system = "zipmoe";
  run.executor = "fast";
  run.version = "0.1.0";
  run.seed = 18446744073709551615U;  // the largest: more than SQLite's whole numbers hold
  run.started = "2026-11-22T05:01:00Z";
  run.wall_s = 1.25;
  run.cpu_s = 0.1;  // no finite binary fraction: must come back to the bit
  run.peak_bytes = 123456789;
  run.host = "here";
  run.result = result_text(tpot);
  return run;
}

}  // namespace moelab::test
