#include "experiments/serving/front_end.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace moelab::published {
namespace {

/// A request's next token in the engine.
struct NextToken {
  double at_s;
  std::size_t request;
  std::uint32_t number;
};

double engine_time(const RequestTimes& r, std::uint32_t number) {
  if (r.output_tokens < 2) return r.first_token_s;
  return r.first_token_s + number * (r.end_s - r.first_token_s) / (r.output_tokens - 1);
}

}  // namespace

std::vector<double> taken_in(const std::vector<double>& sent_s, const FrontEnd& front_end) {
  const std::size_t all = sent_s.size();
  // `had`: what a request has had of the process that was there from the start; one is in when that is `due`.
  std::vector<double> come(all), due(all);
  double now = 0, had = 0;
  for (std::size_t first = 0, next = 0; first < all; ++first) {
    if (next == first) {
      now = std::max(now, sent_s[next]);
      due[next++] = had + front_end.request_s;
    }
    const auto under_way = [&] { return static_cast<double>(next - first); };
    while (next < all && sent_s[next] < now + (due[first] - had) * under_way()) {
      had += (sent_s[next] - now) / under_way();
      now = sent_s[next];
      due[next++] = had + front_end.request_s;
    }
    now += (due[first] - had) * under_way();
    had = due[first];
    come[first] = now;
  }
  return come;
}

std::vector<HandedOut> handed_out(const std::vector<RequestTimes>& requests, const FrontEnd& front_end) {
  std::vector<NextToken> tokens;
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (std::uint32_t n = 0; n < requests[i].output_tokens; ++n)
      tokens.push_back({engine_time(requests[i], n), i, n});
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const NextToken& a, const NextToken& b) { return a.at_s < b.at_s; });
  std::vector<HandedOut> out(requests.size());
  double free = 0;
  for (const NextToken& token : tokens) {
    free = std::max(free, token.at_s) + front_end.token_s;
    if (token.number == 0) out[token.request].first_s = free;
    out[token.request].last_s = std::max(out[token.request].last_s, free);
  }
  return out;
}

}  // namespace moelab::published
