#include "traces/law/law_generator.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

#include "traces/law/best_experts.hpp"
#include "traces/law/normal.hpp"
#include "traces/law/token_logits.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

/// What a stream of random numbers is for; the other half of its name is a number of that kind.
enum Stream : std::uint64_t { kOrder = 1, kDomain, kPrompt, kTokens, kDomainOfRequest, kEncoderTokens };

struct LayerRange {
  std::uint32_t begin, end;
};

}  // namespace

struct LawGenerator::Impl {
  RoutingLaw law;
  std::uint64_t seed;
  TraceDescription description;
  std::uint32_t experts, encoder_layers = 0;
  std::vector<std::uint16_t> expert_of;  // [layers, popularity rank]
  std::vector<float> base;               // [layers, experts] bias, domain and prompt of the request
  std::vector<float> domain_mean;        // [layers, experts] of the domains' terms, weighted by their shares
  double domain_scale = 1;               // makes the variance of their deviations from it 1
  std::vector<float> drawn;              // [layers, experts]
  std::vector<TokenLogits> tokens;       // of each stack
  std::vector<RowOfBest> rows;           // of each layer
  std::vector<std::uint32_t> ranks;      // one layer's best, by popularity rank
  std::vector<float> gaps;  // [layers, experts]: LayerLaw::gate_gaps above each rank; 0 above the first
  std::vector<std::uint16_t> ids;
  std::vector<float> gates, router_scores;

  Impl(const RoutingLaw& l, std::uint64_t s, bool with_router_scores);
  LayerRange layers_of(Phase phase) const;
  std::span<float> layer(std::vector<float>& values, std::uint32_t l) const {
    return std::span(values).subspan(std::size_t{l} * experts, experts);
  }
  void draw(Random& from, LayerRange range);
  void add_drawn(const std::function<double(const LayerLaw&)>& scale_of);
  void centre_domains();
  void draw_domain(std::uint16_t domain);
  std::vector<LayerRange> stacks() const;
  void choose(std::uint32_t l, std::span<const float> logit);
  void finish_gates(LayerRange range);
};

LawGenerator::Impl::Impl(const RoutingLaw& l, std::uint64_t s, bool with_router_scores)
    : law(l), seed(s), experts(l.experts) {
  const auto layers = static_cast<std::uint32_t>(law.layers.size());
  description = {
      .model = law.model,
      .provenance = "synthetic: drawn with seed " + std::to_string(seed) + " from a law " + law.provenance,
      .synthetic = true,
      .layers = layers,
      .experts = experts,
      .top_k = law.top_k,
      .gate_scores = law.has_gates(),
      .router_scores = with_router_scores ? RouterScores::logits : RouterScores::none,
      .candidates = 0,
      .lookahead = false,
      .domains = law.domains};
  assert(!with_router_scores || law.has_gates());
  for (std::uint32_t i = 0; i < layers; ++i) {
    encoder_layers += law.layers[i].encoder;
    std::vector<std::uint16_t> order(experts);
    std::iota(order.begin(), order.end(), std::uint16_t{0});
    Random(seed, kOrder, i).shuffle(std::span(order));
    expert_of.insert(expert_of.end(), order.begin(), order.end());
  }
  const std::size_t all = std::size_t{layers} * experts;
  base.resize(all);
  drawn.resize(all);
  rows.resize(layers);
  for (const LayerRange stack : stacks()) tokens.emplace_back(law, stack.begin, stack.end);
  ids.resize(std::size_t{layers} * law.top_k);
  if (law.has_gates()) {
    gates.resize(ids.size());
    for (const LayerLaw& layer : law.layers)
      for (std::uint32_t r = 0; r < experts; ++r)
        gaps.push_back(r == 0 ? 0
                              : static_cast<float>(
                                    layer.gate_gaps[std::min<std::size_t>(r, layer.gate_gaps.size()) - 1]));
  }
  if (with_router_scores) router_scores.resize(all);
  ranks.resize(with_router_scores ? experts : law.top_k);
  centre_domains();
}

LayerRange LawGenerator::Impl::layers_of(Phase phase) const {
  const auto all = static_cast<std::uint32_t>(law.layers.size());
  if (encoder_layers == 0) return {0, all};
  return phase == Phase::encoder ? LayerRange{0, encoder_layers} : LayerRange{encoder_layers, all};
}

std::vector<LayerRange> LawGenerator::Impl::stacks() const {
  if (encoder_layers == 0) return {layers_of(Phase::decode)};
  return {layers_of(Phase::encoder), layers_of(Phase::decode)};
}

/// Standard normal numbers for the layers, each layer's correlated with those of the layer before.
void LawGenerator::Impl::draw(Random& from, LayerRange range) {
  const Normal& normal = Normal::instance();
  for (std::uint32_t l = range.begin; l < range.end; ++l) {
    const std::span<float> now = layer(drawn, l);
    for (float& z : now) z = static_cast<float>(normal.draw(from));
    if (l == range.begin) continue;
    const auto kept = static_cast<float>(law.layers[l].coupling);
    const float added = std::sqrt(1 - kept * kept);
    const std::span<const float> before = layer(drawn, l - 1);
    for (std::uint32_t r = 0; r < experts; ++r) now[r] = kept * before[r] + added * now[r];
  }
}

void LawGenerator::Impl::add_drawn(const std::function<double(const LayerLaw&)>& scale_of) {
  for (std::uint32_t l = 0; l < law.layers.size(); ++l) {
    const auto scale = static_cast<float>(scale_of(law.layers[l]));
    const std::span<float> sum = layer(base, l);
    const std::span<const float> term = layer(drawn, l);
    for (std::uint32_t r = 0; r < experts; ++r) sum[r] += scale * term[r];
  }
}

/// The bias is the popularity over all domains: what they have in common is not theirs.
void LawGenerator::Impl::centre_domains() {
  domain_mean.assign(base.size(), 0);
  double squares = 0;
  for (std::size_t d = 0; d < law.domains.size(); ++d) {
    draw_domain(static_cast<std::uint16_t>(d));
    const auto share = static_cast<float>(law.domain_shares[d]);
    for (std::size_t i = 0; i < drawn.size(); ++i) domain_mean[i] += share * drawn[i];
    squares += law.domain_shares[d] * law.domain_shares[d];
  }
  if (squares < 1) domain_scale = 1 / std::sqrt(1 - squares);
}

void LawGenerator::Impl::draw_domain(std::uint16_t domain) {
  Random of_domain(seed, kDomain, domain);
  for (const LayerRange stack : stacks()) draw(of_domain, stack);
}

/// The layer's experts and scores from its logits: the gates' logarithms.
void LawGenerator::Impl::choose(std::uint32_t l, std::span<const float> logit) {
  const std::uint32_t k = law.top_k;
  const std::uint16_t* order = expert_of.data() + std::size_t{l} * experts;
  if (router_scores.empty()) {
    rows[l].choose(logit, ranks);
  } else {
    std::iota(ranks.begin(), ranks.end(), 0u);
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return logit[a] > logit[b]; });
  }
  for (std::uint32_t i = 0; i < k; ++i) ids[std::size_t{l} * k + i] = order[ranks[i]];
  if (gates.empty()) return;
  const float* const gap = gaps.data() + std::size_t{l} * experts;
  float* const gate = gates.data() + std::size_t{l} * k;
  float score = 0, before = logit[ranks[0]];
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const float now = logit[ranks[i]];
    score -= gap[i] * (before - now);
    before = now;
    if (i < k) gate[i] = score;
    if (!router_scores.empty()) layer(router_scores, l)[order[ranks[i]]] = score;
  }
}

/// From logarithms to gates of the sums that the law has.
void LawGenerator::Impl::finish_gates(LayerRange range) {
  const std::size_t k = law.top_k;
  portable_exp(std::span(gates).subspan(range.begin * k, (range.end - range.begin) * k));
  for (std::uint32_t l = range.begin; l < range.end; ++l) {
    const std::span<float> gate = std::span(gates).subspan(l * k, k);
    float sum = 0;
    for (const float g : gate) sum += g;
    const float scale = static_cast<float>(law.layers[l].gate_sum) / sum;
    for (float& g : gate) g *= scale;
  }
}

LawGenerator::LawGenerator(const RoutingLaw& law, std::uint64_t seed, bool router_scores)
    : impl_(std::make_unique<Impl>(law, seed, router_scores)) {}
LawGenerator::LawGenerator(LawGenerator&&) noexcept = default;
LawGenerator::~LawGenerator() = default;

const TraceDescription& LawGenerator::description() const {
  return impl_->description;
}

std::uint16_t LawGenerator::domain_of(std::uint64_t number) const {
  const std::vector<double>& shares = impl_->law.domain_shares;
  double left = Random(impl_->seed, kDomainOfRequest, number).uniform();
  for (std::size_t d = 0; d + 1 < shares.size(); ++d) {
    if (left < shares[d]) return static_cast<std::uint16_t>(d);
    left -= shares[d];
  }
  return static_cast<std::uint16_t>(shares.empty() ? 0 : shares.size() - 1);
}

void LawGenerator::begin_request(std::uint64_t number, std::uint16_t domain) {
  Impl& g = *impl_;
  for (std::uint32_t l = 0; l < g.law.layers.size(); ++l) {
    const std::vector<double>& bias = g.law.layers[l].bias;
    std::transform(bias.begin(), bias.end(), g.layer(g.base, l).begin(),
                   [](double b) { return static_cast<float>(b); });
  }
  if (!g.law.domains.empty()) {
    g.draw_domain(domain);
    for (std::size_t i = 0; i < g.drawn.size(); ++i) g.drawn[i] -= g.domain_mean[i];
    g.add_drawn([&](const LayerLaw& l) { return g.domain_scale * std::sqrt(l.domain); });
  }
  Random of_prompt(g.seed, kPrompt, number);
  for (const LayerRange stack : g.stacks()) g.draw(of_prompt, stack);
  g.add_drawn([](const LayerLaw& l) { return std::sqrt(l.prompt); });
  const std::vector<LayerRange> stacks = g.stacks();
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const bool encoder = i + 1 < stacks.size();
    g.tokens[i].begin_request(
        std::span(g.base).subspan(std::size_t{stacks[i].begin} * g.experts,
                                  std::size_t{stacks[i].end - stacks[i].begin} * g.experts),
        Random(g.seed, encoder ? kEncoderTokens : kTokens, number));
  }
}

TraceRow LawGenerator::next(Phase phase) {
  Impl& g = *impl_;
  const LayerRange range = g.layers_of(phase);
  if (g.encoder_layers > 0) {  // the other stack's rows
    std::fill(g.ids.begin(), g.ids.end(), kNoExpert);
    std::fill(g.gates.begin(), g.gates.end(), 0.0f);
    std::fill(g.router_scores.begin(), g.router_scores.end(), 0.0f);
  }
  TokenLogits& stack = range.begin == 0 ? g.tokens.front() : g.tokens.back();
  stack.next();
  for (std::uint32_t l = range.begin; l < range.end; ++l) g.choose(l, stack.of_layer(l - range.begin));
  if (!g.gates.empty()) g.finish_gates(range);
  return {.phase = phase,
          .ids = g.ids,
          .gate_scores = g.gates,
          .router_scores = g.router_scores,
          .candidate_ids = {},
          .lookahead_ids = {}};
}

}  // namespace moelab
