#include "traces/request_cut.hpp"

#include <algorithm>
#include <numeric>

#include "traces/random.hpp"

namespace moelab {

std::vector<RequestRecord> cut_requests(std::vector<RequestRecord> requests, const RequestCut& cut) {
  std::erase_if(requests, [&](const RequestRecord& r) {
    return r.arrival_s < cut.from_s || r.arrival_s >= cut.until_s;
  });
  const auto skipped = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(cut.skip, requests.size()));
  requests.erase(requests.begin(), requests.begin() + skipped);
  if (cut.count > 0 && cut.count < requests.size()) requests.resize(cut.count);
  const double begin_s = cut.skip > 0 && !requests.empty() ? requests.front().arrival_s : cut.from_s;
  for (RequestRecord& request : requests) request.arrival_s -= begin_s;
  if (!cut.shuffle_seed) return requests;
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Random random(*cut.shuffle_seed);
  random.shuffle(std::span(order));
  std::vector<RequestRecord> shuffled = requests;
  for (std::size_t i = 0; i < order.size(); ++i) {
    shuffled[i].prompt_tokens = requests[order[i]].prompt_tokens;
    shuffled[i].output_tokens = requests[order[i]].output_tokens;
  }
  return shuffled;
}

}  // namespace moelab
