#include "traces/request_cut.hpp"

#include <algorithm>
#include <span>

#include "traces/random.hpp"

namespace moelab {

namespace {

/// Where the longest part of each request is that others may go on from: by the number that it had.
class Holders {
 public:
  explicit Holders(std::size_t all) : longest_(all) {}

  /// What a request made of these parts has in common with those noted before.
  void connect(std::span<const SharedPart> parts, RequestRecord& request) const {
    request.shared_tokens = request.shared_with = 0;
    for (const SharedPart& part : parts) {
      const SharedPart& there = longest_[part.of];
      if (there.end == 0 || request.shared_tokens == request.prompt_tokens) return;
      request.shared_tokens = std::min({part.end, there.end, request.prompt_tokens});
      request.shared_with = there.of;
    }
  }
  void note(std::span<const SharedPart> parts, std::size_t number) {
    for (const SharedPart& part : parts)
      if (part.end > longest_[part.of].end)
        longest_[part.of] = {static_cast<std::uint32_t>(number), part.end};
  }

 private:
  std::vector<SharedPart> longest_;
};

/// `kept` are requests of `all`, by their numbers there, with other requests before them.
void connect_anew(std::span<const RequestRecord> all, std::span<const std::size_t> numbers,
                  std::vector<RequestRecord>& kept) {
  const bool as_it_was = kept.size() == all.size() && std::ranges::is_sorted(numbers);
  if (as_it_was || !shares_tokens(all)) return;
  const std::vector<std::vector<SharedPart>> parts = request_parts(all);
  Holders holders(all.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    holders.connect(parts[numbers[i]], kept[i]);
    holders.note(parts[numbers[i]], i);
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
