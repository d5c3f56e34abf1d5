// A run as the clients of serving benchmarks write theirs, for the tools that read these.
#pragma once

#include <string>

#include "sim/run_result.hpp"

namespace moelab {

/// One JSON object of the requests that statistics are of and that were answered: what `vllm bench serve
/// --save-result --save-detailed` (vllm/benchmarks/serve.py) and `sglang.bench_serving --output-details`
/// write, each under its own name where they differ. Lists in order of arrival: input_lens, output_lens
/// (tokens), start_times, ttfts (s); mean, median, std and p99 of TTFT, TPOT, ITL and E2E in ms (std of all
/// values, as NumPy has it; percentiles linear between two values); rates over the time from the first
/// arrival to the last token. Not in it: each request's gaps (`itls`), which a run does not keep one by one,
/// and texts.
std::string benchmark_json(const RunResult& result);

}  // namespace moelab
