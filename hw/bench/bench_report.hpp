// Results of benchmark cases as JSON: README.md has the schema.
#pragma once

#include <string>
#include <vector>

#include "hw/bench/bench_run.hpp"
#include "hw/bench/machine_context.hpp"

namespace moelab {

struct BenchReport {
  MachineContext context;
  bool quick = false;
  std::vector<BenchResult> results;
};

std::string to_json(const BenchReport& report);

}  // namespace moelab
