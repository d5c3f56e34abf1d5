#include "traces/law/layer_measures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "models/input_error.hpp"
#include "traces/model_title.hpp"

namespace moelab {
namespace {

constexpr double kLeastGate = 1e-9;  // what recorded as 0 is taken for

std::uint32_t common(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  std::uint32_t found = 0;
  for (const std::uint16_t x : a) found += std::find(b.begin(), b.end(), x) != b.end();
  return found;
}

/// Sums of the requests' mean uses, of one domain.
struct DomainUses {
  std::uint64_t requests = 0;
  double own = 0;           // sum of the requests' products with themselves
  std::vector<double> sum;  // of their mean uses, by expert
};

double mean_overlap(std::span<const DomainUses> domains, std::uint32_t k, bool& any) {
  double overlaps = 0, pairs = 0;
  for (const DomainUses& d : domains) {
    double all = 0;
    for (const double s : d.sum) all += s * s;
    overlaps += all - d.own;
    pairs += static_cast<double>(d.requests) * (static_cast<double>(d.requests) - 1);
  }
  any = pairs > 0;
  return any ? overlaps / (pairs * k) : 0;
}

/// Logits of any kind of router score, up to a constant of the row.
double logit_of(double score, RouterScores kind) {
  if (kind == RouterScores::logits) return score;
  const double p = std::clamp(score, kLeastGate, 1.0);
  return kind == RouterScores::softmax ? std::log(p) : std::log(p / std::max(1 - p, kLeastGate));
}

}  // namespace

LayerMeasures measure_layer(const RoutingTrace& trace, std::uint32_t layer) {
  LayerMeasures m;
  const std::uint32_t experts = trace.experts(), k = trace.top_k();
  std::vector<std::uint64_t> uses(experts), in_request(experts);
  std::array<std::uint64_t, kLags.size()> same{};
  std::vector<DomainUses> domains(std::max<std::size_t>(1, trace.description().domains.size()));
  for (DomainUses& d : domains) d.sum.resize(experts);
  for (std::size_t r = 0; r < trace.requests().size(); ++r) {
    const TraceRequest& request = trace.requests()[r];
    std::fill(in_request.begin(), in_request.end(), 0);
    std::uint64_t tokens = 0;
    for (std::uint64_t t = request.begin; t < request.end; ++t) {
      const auto ids = trace.experts_of(t, layer);
      if (ids[0] == kNoExpert) continue;
      ++tokens;
      for (const std::uint16_t e : ids) ++in_request[e];
      for (std::size_t i = 0; i < kLags.size() && t + kLags[i] < request.end; ++i) {
        const auto later = trace.experts_of(t + kLags[i], layer);
        if (later[0] == kNoExpert) continue;
        ++m.pairs[i];
        same[i] += common(ids, later);
      }
    }
    if (tokens == 0) continue;
    m.tokens += tokens;
    DomainUses& domain = domains[trace.domain_of(r)];
    ++domain.requests;
    for (std::uint32_t e = 0; e < experts; ++e) {
      uses[e] += in_request[e];
      const double mean = static_cast<double>(in_request[e]) / static_cast<double>(tokens);
      domain.sum[e] += mean;
      domain.own += mean * mean;
    }
  }
  for (const std::uint64_t n : uses)
    m.shares.push_back(m.tokens == 0 ? 0 : static_cast<double>(n) / static_cast<double>(m.tokens));
  for (std::size_t i = 0; i < kLags.size(); ++i)
    m.overlap[i] = m.pairs[i] == 0 ? 0 : static_cast<double>(same[i]) / (static_cast<double>(m.pairs[i]) * k);
  m.domain_overlap = mean_overlap(domains, k, m.has_domains);
  m.has_domains = m.has_domains && !trace.description().domains.empty();
  return m;
}

GateMeasures measure_gates(const RoutingTrace& trace, std::uint32_t layer) {
  const std::uint32_t k = trace.top_k(), width = trace.description().router_width();
  const RouterScores kind = trace.description().router_scores;
  GateMeasures m;
  m.log_ratios.resize((width == 0 ? k : std::max(k, width)) - 1);
  std::uint64_t tokens = 0;
  double sum = 0;
  std::vector<float> gates, scores(width);
  for (std::uint64_t t = 0; t < trace.tokens(); ++t) {
    if (trace.experts_of(t, layer)[0] == kNoExpert) continue;
    const auto recorded = trace.scores_of(t, layer);
    gates.assign(recorded.begin(), recorded.end());
    std::sort(gates.begin(), gates.end(), std::greater<>());
    if (gates.back() < 0)
      throw InputError("gates of " + model_title(trace),
                       "token " + std::to_string(t) + ", layer " + std::to_string(layer) + ": the score " +
                           std::to_string(gates.back()) + " is negative; a fit needs gates' weights");
    ++tokens;
    for (std::uint32_t r = 0; r < k; ++r) {
      sum += gates[r];
      if (r + 1 < k)
        m.log_ratios[r] +=
            std::log(std::max<double>(gates[r], kLeastGate) / std::max<double>(gates[r + 1], kLeastGate));
    }
    if (width <= k) continue;
    trace.router_scores_of(t, layer, scores);
    std::sort(scores.begin(), scores.end(), std::greater<>());
    for (std::uint32_t r = k - 1; r + 1 < width; ++r)
      m.log_ratios[r] += logit_of(scores[r], kind) - logit_of(scores[r + 1], kind);
  }
  for (double& ratio : m.log_ratios) ratio /= static_cast<double>(std::max<std::uint64_t>(1, tokens));
  if (tokens > 0) m.sum = sum / static_cast<double>(tokens);
  return m;
}

}  // namespace moelab
