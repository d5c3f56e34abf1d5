// cheapest-yields: one request more at once, or the experts in whose place its keys and values lie, whichever
// costs less. For each number n of requests that the KV cache could hold:
//
//   kept(n)  = (room - kv(n)) / (experts * bytes of one), at most 1: the share of experts that is there
//   token(n) = (step(n) + used(n) * (1 - kept(n)) * load) / n: seconds of a step, for each token that it
//              makes
//   the n of the least token(n); of equal ones the greatest
//
// So a request gives way exactly where what it adds to the step, and the loads of the experts that it takes
// the room of, come to more than the step's time shared by one request more.
//
// What it leaves out: every expert counts as likely as any other, so a cache that holds the popular ones does
// better than it thinks; loads count as if no kernel ran beside them; a request that gives way costs nothing
// but its wait.
#include <algorithm>
#include <limits>

#include "policies/pressure/pressure.hpp"

namespace moelab {
namespace {

double token_seconds(const PressureTerms& terms, std::size_t n) {
  const double left = terms.room_bytes - terms.kv_bytes[n - 1];
  if (left < 0) return std::numeric_limits<double>::infinity();
  const double kept = std::min(1.0, left / (terms.experts * terms.expert_bytes));
  return (terms.step_s[n - 1] + terms.used[n - 1] * (1 - kept) * terms.load_s) / static_cast<double>(n);
}

std::size_t cheapest(const PressureTerms& terms, const PolicyParameters&) {
  std::size_t best = 1;
  for (std::size_t n = 2; n <= terms.kv_bytes.size(); ++n)
    if (token_seconds(terms, n) <= token_seconds(terms, best) && terms.kv_bytes[n - 1] <= terms.room_bytes)
      best = n;
  return best;
}

}  // namespace

PressurePolicyEntry cheapest_yields_entry() {
  return {.info = {.name = "cheapest-yields",
                   .help = "a request waits where its keys and values would cost more loads than it is worth",
                   .source = "moelab: the least time of a step for each token that it makes"},
          .needs_costs = true,
          .requests = cheapest};
}

}  // namespace moelab
