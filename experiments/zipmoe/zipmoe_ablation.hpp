// Rows Z16 to Z19 and Z21: what the cache and its plan bring.
#pragma once

#include <vector>

#include "experiments/claims/claim.hpp"
#include "experiments/claims/runtime_rows.hpp"

namespace moelab::zipmoe {

/// Prints tokens/s and seconds of every step at batch 1 and 16, for both states of the page cache.
void print_ablation();
/// Prints what each reading of the published code does.
void print_readings();
/// Prints the plans under each reading of the statistics, and what they come to.
void print_plans();
/// Prints what host time a layer does to the figures.
void print_host();

std::vector<claims::Claim> ablation_claims();
/// Z16 to Z19 with what software costs as today and by runtimes; one seed.
std::vector<claims::RuntimeFigure> ablation_figures();

}  // namespace moelab::zipmoe
