// requests-yield: experts come first. The KV cache has room for the longest request at its end, without which
// it could never be answered, and no more; experts keep all else. Requests beyond that wait, or give way to
// earlier ones when the cache is full. So offloading systems plan that serve one request at a time.
#include "policies/pressure/pressure.hpp"

namespace moelab {

PressurePolicyEntry requests_yield_entry() {
  return {.info = {.name = "requests-yield",
                   .help = "experts get what the KV cache of the longest request leaves",
                   .source = "MoE-Infinity, ZipMoE: all memory beside one request's is the expert cache's"},
          .requests = [](const PressureTerms&, const PolicyParameters&) { return std::size_t{1}; }};
}

}  // namespace moelab
