#include "sim/run_result.hpp"

namespace moelab {

RunResult::RunResult() = default;
RunResult::RunResult(const RunResult&) = default;
RunResult::RunResult(RunResult&&) noexcept = default;
RunResult& RunResult::operator=(const RunResult&) = default;
RunResult& RunResult::operator=(RunResult&&) noexcept = default;
RunResult::~RunResult() = default;

std::string lacking_text(const RunResult& r) {
  if (!(r.memory.shortfall > Bytes(0))) return "";
  return r.cluster.lacking.empty() ? shortfall_text(r.system, r.memory) : r.cluster.lacking;
}

}  // namespace moelab
