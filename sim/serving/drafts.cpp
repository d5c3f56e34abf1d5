#include "sim/serving/drafts.hpp"

#include "sim/scenario.hpp"

namespace moelab {

Drafts drafts_of(const Scenario& s, std::uint32_t server) {
  return {s.speculation.tokens, s.speculation.acceptance, s.seed ^ (std::uint64_t{server} << 32)};
}

}  // namespace moelab
