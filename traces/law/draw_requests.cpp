// Requests are independent of each other: each core draws its own.
#include <algorithm>
#include <thread>

#include "traces/law/law_generator.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostBuffered = std::size_t{64}
                                      << 20;  // bytes of rows that wait for their turn, a core

/// The rows of one request, kept.
struct Rows {
  std::vector<std::uint16_t> ids;
  std::vector<float> gates, router_scores;

  void draw(LawGenerator& generator, const DrawnRequest& request) {
    ids.clear();
    gates.clear();
    router_scores.clear();
    generator.begin_request(request.number, request.domain);
    for (const Phase phase : request.phases) {
      const TraceRow row = generator.next(phase);
      ids.insert(ids.end(), row.ids.begin(), row.ids.end());
      gates.insert(gates.end(), row.gate_scores.begin(), row.gate_scores.end());
      router_scores.insert(router_scores.end(), row.router_scores.begin(), row.router_scores.end());
    }
  }

  void hand_over(const DrawnRequest& request, const std::function<void(const TraceRow&)>& take) const {
    const auto part = [&](const auto& values, std::size_t i) {
      const std::size_t width = values.size() / request.phases.size();
      return std::span(values).subspan(i * width, width);
    };
    for (std::size_t i = 0; i < request.phases.size(); ++i)
      take({.phase = request.phases[i],
            .ids = part(ids, i),
            .gate_scores = part(gates, i),
            .router_scores = part(router_scores, i),
            .candidate_ids = {},
            .lookahead_ids = {}});
  }
};

std::size_t row_bytes(const TraceDescription& about) {
  return std::size_t{about.layers} *
         (about.top_k * (sizeof(std::uint16_t) + sizeof(float)) + about.router_width() * sizeof(float));
}

}  // namespace

void draw_requests(const RoutingLaw& law, std::uint64_t seed, bool router_scores,
                   std::span<const DrawnRequest> requests,
                   const std::function<void(const DrawnRequest&)>& begin,
                   const std::function<void(const TraceRow&)>& row) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<LawGenerator> generators;
  for (std::size_t i = 0; i < std::min(cores, requests.size()); ++i)
    generators.emplace_back(law, seed, router_scores);
  std::vector<Rows> rows(generators.size());
  const auto small = [&](const DrawnRequest& r) {
    return r.phases.size() * row_bytes(generators[0].description()) <= kMostBuffered;
  };
  for (std::size_t next = 0; next < requests.size();) {
    std::size_t together = 0;
    while (together < rows.size() && next + together < requests.size() && small(requests[next + together]))
      ++together;
    if (together == 0) {
      begin(requests[next]);
      generators[0].begin_request(requests[next].number, requests[next].domain);
      for (const Phase phase : requests[next].phases) row(generators[0].next(phase));
      ++next;
      continue;
    }
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < together; ++i)
        others.emplace_back([&, i] { rows[i].draw(generators[i], requests[next + i]); });
      rows[0].draw(generators[0], requests[next]);
    }
    for (std::size_t i = 0; i < together; ++i) {
      begin(requests[next + i]);
      rows[i].hand_over(requests[next + i], row);
    }
    next += together;
  }
}

}  // namespace moelab
