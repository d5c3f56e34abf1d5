#include "traces/request_cut.hpp"

#include <algorithm>
#include <span>

#include "traces/random.hpp"
#include "traces/request_parts.hpp"

namespace moelab {

namespace {

/// Where the longest part of each request is that others may go on from: by the number that it had. What
/// holds a part holds those before it, so that a walk from a request's last part stops at the first that is
/// held.
class Holders {
 public:
  explicit Holders(const RequestParts& parts, std::size_t all) : parts_(parts), longest_(all) {}

  /// What the request that had number `was` has in common with those noted before.
  void connect(std::size_t was, RequestRecord& request) const {
    request.shared_tokens = request.shared_with = 0;
    std::uint32_t node = parts_.part_at(parts_.last(was), request.prompt_tokens);
    while (node != RequestParts::kNone && longest_[part(node).of].end == 0)
      node = parts_.nodes()[node].before;
    if (node == RequestParts::kNone) return;
    const SharedPart& there = longest_[part(node).of];
    request.shared_tokens = std::min({part(node).end, there.end, request.prompt_tokens});
    request.shared_with = there.of;
  }
  void note(std::size_t was, std::size_t number) {
    for (std::uint32_t node = parts_.last(was);
         node != RequestParts::kNone && part(node).end > longest_[part(node).of].end;
         node = parts_.nodes()[node].before)
      longest_[part(node).of] = {static_cast<std::uint32_t>(number), part(node).end};
  }

 private:
  const SharedPart& part(std::uint32_t node) const { return parts_.nodes()[node].part; }

  const RequestParts& parts_;
  std::vector<SharedPart> longest_;
};

/// `kept` are requests of `all`, by their numbers there, with other requests before them.
void connect_anew(std::span<const RequestRecord> all, std::span<const std::size_t> numbers,
                  std::vector<RequestRecord>& kept) {
  const bool as_it_was = kept.size() == all.size() && std::ranges::is_sorted(numbers);
  if (as_it_was || !shares_tokens(all)) return;
  const RequestParts parts(all);
  Holders holders(parts, all.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    holders.connect(numbers[i], kept[i]);
    holders.note(numbers[i], i);
  }
}

/// Numbers of the requests that are kept.
std::vector<std::size_t> kept_numbers(std::span<const RequestRecord> requests, const RequestCut& cut) {
  std::vector<std::size_t> numbers;
  std::uint64_t left_out = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].arrival_s < cut.from_s || requests[i].arrival_s >= cut.until_s) continue;
    if (cut.count > 0 && numbers.size() == cut.count) break;
    if (left_out < cut.skip)
      ++left_out;
    else
      numbers.push_back(i);
  }
  return numbers;
}

}  // namespace

std::vector<RequestRecord> cut_requests(const std::vector<RequestRecord>& requests, const RequestCut& cut) {
  const std::vector<std::size_t> numbers = kept_numbers(requests, cut);
  std::vector<std::size_t> lengths = numbers;  // whose lengths each has
  if (cut.shuffle_seed) {
    Random random(*cut.shuffle_seed);
    random.shuffle(std::span(lengths));
  }
  std::vector<RequestRecord> kept;
  kept.reserve(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    kept.push_back(requests[lengths[i]]);
    kept.back().arrival_s = requests[numbers[i]].arrival_s;
  }
  const double begin_s = cut.skip > 0 && !kept.empty() ? kept.front().arrival_s : cut.from_s;
  for (RequestRecord& request : kept) request.arrival_s -= begin_s;
  connect_anew(requests, lengths, kept);
  return kept;
}

}  // namespace moelab
