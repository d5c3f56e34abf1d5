// How many tokens are drafted for a decode step of a request, and which of them its target accepts.
//
// A drafted token is accepted with a stated probability, given that those before it in the step were; the
// first refusal ends that, and the target's own token stands in its place. So a step of k drafts produces
// (1 - a^(k+1)) / (1 - a) tokens in the mean (Leviathan and others, ICML 2023, arXiv 2211.17192, equation 1).
// Whether the token at a place of a request would be accepted is drawn once, from the seed, the request and
// the place: another policy, rate, executor or number of drafts meets the same draws. (A step asks of each
// place at most once: what is behind a refusal is drafted anew, and only then verified.)
//
// Which experts a refused row chose no trace knows. It has those of the token that stands there in the
// request: drafts route as the true tokens do.
#pragma once

#include <cstdint>

#include "traces/random.hpp"

namespace moelab {

struct Scenario;

struct Drafts {
  std::uint32_t tokens = 0;  // for each decode step of a request, at most; 0: none
  double acceptance = 0;     // probability
  std::uint64_t seed = 0;

  /// Of `drafted` tokens behind the first `context` + 1 of request number `request`, how many are accepted.
  std::uint32_t accepted(std::uint32_t request, std::uint32_t context, std::uint32_t drafted) const {
    constexpr std::uint64_t kStream = 0x9b05688c2b3e6c1f;
    std::uint32_t count = 0;
    for (; count < drafted; ++count) {
      const std::uint64_t place = std::uint64_t{request} << 32 | (context + 1 + count);
      if (!(Random(seed, kStream, place).uniform() < acceptance)) break;
    }
    return count;
  }
};

/// Of a scenario; of server number `server` of a cluster whose servers number their requests by themselves.
Drafts drafts_of(const Scenario& scenario, std::uint32_t server = 0);

}  // namespace moelab
