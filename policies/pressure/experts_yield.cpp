// experts-yield: the KV cache comes first. It has room for the longest requests at their ends, as many as may
// run at once, so none ever gives way; experts get what is left. So engines plan that hold all weights, for
// which a KV cache that is too small is the worst that can happen (vLLM, Kwon et al. 2023, section 4.5: the
// requests that give way are run again or swapped).
#include "policies/pressure/pressure.hpp"

namespace moelab {

PressurePolicyEntry experts_yield_entry() {
  return {
      .info = {.name = "experts-yield",
               .help = "experts get what the KV cache of all requests that run at once leaves",
               .source = "no request ever gives way; vLLM (SOSP 2023), section 4.5, on what it costs one"},
      .requests = [](const PressureTerms& terms, const PolicyParameters&) { return terms.kv_bytes.size(); }};
}

}  // namespace moelab
