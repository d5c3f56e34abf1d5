// Rows Z9 to Z15: ZipMoE against its rivals, in latency, throughput and time to the end.
#pragma once

#include <vector>

#include "experiments/claims/claim.hpp"
#include "experiments/claims/runtime_rows.hpp"

namespace moelab::zipmoe {

/// Prints TPOT and TTFT reductions for every rival, its readings and the page cache's.
void print_latency();
/// Prints gains in throughput and end-to-end time.
void print_gains();

/// Z9 to Z12.
std::vector<claims::Claim> latency_claims();
/// Z13 to Z15.
std::vector<claims::Claim> gain_claims();
/// Their ends, with what software costs as today and by runtimes; one seed.
std::vector<claims::RuntimeFigure> gain_figures();

}  // namespace moelab::zipmoe
