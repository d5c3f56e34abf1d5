// Requests are independent of each other: each core draws its own, many small ones at a time.
#include <algorithm>
#include <future>
#include <thread>

#include "traces/law/law_generator.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostBuffered = std::size_t{64}
                                      << 20;          // bytes of rows that wait for their turn, a core
constexpr std::size_t kShare = std::size_t{1} << 20;  // bytes that are worth a thread's start

/// A core's share: requests that follow each other, and their rows, kept.
struct Share {
  std::vector<DrawnRequest> requests;
  std::size_t rows = 0;
  std::vector<std::uint16_t> ids;
  std::vector<float> gates, router_scores;

  /// Takes requests of at most `most` rows each until it has `enough` rows.
  void fill(std::optional<DrawnRequest>& request, const std::function<std::optional<DrawnRequest>()>& next,
            std::size_t most, std::size_t enough) {
    requests.clear();
    rows = 0;
    for (; rows < enough && request && request->tokens() <= most; request = next()) {
      requests.push_back(*request);
      rows += request->tokens();
    }
  }

  void draw(LawGenerator& generator) {
    ids.clear();
    gates.clear();
    router_scores.clear();
    for (const DrawnRequest& request : requests) {
      generator.begin_request(request.number, request.domain);
      request.each_row([&](Phase phase) {
        const TraceRow row = generator.next(phase);
        ids.insert(ids.end(), row.ids.begin(), row.ids.end());
        gates.insert(gates.end(), row.gate_scores.begin(), row.gate_scores.end());
        router_scores.insert(router_scores.end(), row.router_scores.begin(), row.router_scores.end());
      });
    }
  }

  void hand_over(const std::function<void(const DrawnRequest&)>& begin,
                 const std::function<void(const TraceRow&)>& take) const {
    std::size_t i = 0;
    const auto part = [&](const auto& values) {
      const std::size_t width = values.size() / rows;
      return std::span(values).subspan(i * width, width);
    };
    for (const DrawnRequest& request : requests) {
      begin(request);
      request.each_row([&](Phase phase) {
        take({.phase = phase,
              .ids = part(ids),
              .gate_scores = part(gates),
              .router_scores = part(router_scores),
              .candidate_ids = {},
              .lookahead_ids = {}});
        ++i;
      });
    }
  }
};

std::size_t row_bytes(const TraceDescription& about) {
  return std::size_t{about.layers} *
         (about.top_k * (sizeof(std::uint16_t) + sizeof(float)) + about.router_width() * sizeof(float));
}

}  // namespace

void draw_requests(const RoutingLaw& law, std::uint64_t seed, bool router_scores,
                   const std::function<std::optional<DrawnRequest>()>& next,
                   const std::function<void(const DrawnRequest&)>& begin,
                   const std::function<void(const TraceRow&)>& row) {
  std::vector<LawGenerator> generators;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    generators.emplace_back(law, seed, router_scores);
  const std::size_t most_rows = kMostBuffered / row_bytes(generators[0].description());
  const std::size_t enough_rows = 1 + kShare / row_bytes(generators[0].description());
  std::vector<Share> shares(generators.size());
  std::optional<DrawnRequest> request = next();
  while (request) {
    std::size_t together = 0;
    while (together < shares.size() && request && request->tokens() <= most_rows)
      shares[together++].fill(request, next, most_rows, enough_rows);
    {
      std::vector<std::future<void>> others;  // which wait for their ends, and hand on what went wrong
      for (std::size_t i = 1; i < together; ++i)
        others.push_back(std::async(std::launch::async, [&, i] { shares[i].draw(generators[i]); }));
      if (together > 0) shares[0].draw(generators[0]);
      for (std::future<void>& other : others) other.get();
    }
    for (std::size_t i = 0; i < together; ++i) shares[i].hand_over(begin, row);
    if (together > 0 || !request) continue;
    begin(*request);  // a large one is not kept but handed over row by row
    generators[0].begin_request(request->number, request->domain);
    request->each_row([&](Phase phase) { row(generators[0].next(phase)); });
    request = next();
  }
}

}  // namespace moelab
