#include "traces/law/law_generator.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

#include "traces/law/best_experts.hpp"
#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

/// What a stream of random numbers is for; the other half of its name is a number of that kind.
enum Stream : std::uint64_t { kOrder = 1, kDomain, kPrompt, kTokens, kDomainOfRequest };

constexpr std::uint32_t kNoStack = ~std::uint32_t{0};

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
  std::vector<float> weight;        // [layers, spans + 1]: square roots of the spans' and the noise's share
  std::vector<float> carry, fresh;  // by span: what stays from token to token, and what comes
  std::vector<float> base;          // [layers, experts] bias, domain and prompt of the request
  std::vector<float> domain_mean;   // [layers, experts] of the domains' terms, weighted by their shares
  double domain_scale = 1;          // makes the variance of their deviations from it 1
  std::vector<std::vector<float>> spans;  // their terms now, [layers, experts]
  std::vector<float> drawn, logits;       // [layers, experts]
  Random random{0};
  std::uint32_t running = kNoStack;  // first layer of the stack that the token before ran through
  std::vector<std::uint32_t> ranks;  // one layer's best, by popularity rank
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
  void step_spans(LayerRange range);
  void choose(std::uint32_t l);
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
  for (const double tokens : law.span_tokens) {
    const double rho = portable_exp(-1 / tokens);
    carry.push_back(static_cast<float>(rho));
    fresh.push_back(static_cast<float>(std::sqrt(1 - rho * rho)));
  }
  for (std::uint32_t i = 0; i < layers; ++i) {
    const LayerLaw& layer = law.layers[i];
    encoder_layers += layer.encoder;
    double rest = 1 - layer.domain - layer.prompt;
    for (const double span : layer.spans) {
      weight.push_back(static_cast<float>(std::sqrt(span)));
      rest -= span;
    }
    weight.push_back(static_cast<float>(std::sqrt(std::max(0.0, rest))));
    std::vector<std::uint16_t> order(experts);
    std::iota(order.begin(), order.end(), std::uint16_t{0});
    Random(seed, kOrder, i).shuffle(std::span(order));
    expert_of.insert(expert_of.end(), order.begin(), order.end());
  }
  const std::size_t all = std::size_t{layers} * experts;
  base.resize(all);
  drawn.resize(all);
  logits.resize(all);
  spans.assign(law.span_tokens.size(), std::vector<float>(all));
  ids.resize(std::size_t{layers} * law.top_k);
  if (law.has_gates()) gates.resize(ids.size());
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

void LawGenerator::Impl::step_spans(LayerRange range) {
  const bool first = running != range.begin;
  running = range.begin;
  const std::size_t begin = std::size_t{range.begin} * experts, end = std::size_t{range.end} * experts;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    draw(random, range);
    const float keep = first ? 0 : carry[i], add = first ? 1 : fresh[i];
    for (std::size_t j = begin; j < end; ++j) spans[i][j] = keep * spans[i][j] + add * drawn[j];
  }
  draw(random, range);  // the noise
}

/// The layer's experts and scores from its logits.
void LawGenerator::Impl::choose(std::uint32_t l) {
  const std::uint32_t k = law.top_k;
  const std::span<const float> logit = layer(logits, l);
  const std::uint16_t* order = expert_of.data() + std::size_t{l} * experts;
  if (router_scores.empty()) {
    best_experts(logit, ranks);
  } else {
    std::iota(ranks.begin(), ranks.end(), 0u);
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return logit[a] > logit[b]; });
  }
  for (std::uint32_t i = 0; i < k; ++i) ids[std::size_t{l} * k + i] = order[ranks[i]];
  const LayerLaw& layer_law = law.layers[l];
  if (layer_law.gate_gaps.empty()) return;
  double score = 0, sum = 0;
  float* gate = gates.data() + std::size_t{l} * k;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) {
      const double gap = layer_law.gate_gaps[std::min(i, layer_law.gate_gaps.size()) - 1];
      score -= gap * static_cast<double>(logit[ranks[i - 1]] - logit[ranks[i]]);
    }
    if (!router_scores.empty()) layer(router_scores, l)[order[ranks[i]]] = static_cast<float>(score);
    if (i < k) sum += gate[i] = static_cast<float>(portable_exp(score));
  }
  for (std::uint32_t i = 0; i < k; ++i)
    gate[i] = static_cast<float>(static_cast<double>(gate[i]) / sum * layer_law.gate_sum);
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
  g.random = Random(g.seed, kTokens, number);
  g.running = kNoStack;
}

TraceRow LawGenerator::next(Phase phase) {
  Impl& g = *impl_;
  const LayerRange range = g.layers_of(phase);
  std::fill(g.ids.begin(), g.ids.end(), kNoExpert);
  std::fill(g.gates.begin(), g.gates.end(), 0.0f);
  std::fill(g.router_scores.begin(), g.router_scores.end(), 0.0f);
  g.step_spans(range);
  for (std::uint32_t l = range.begin; l < range.end; ++l) {
    const float* weight = g.weight.data() + std::size_t{l} * (g.spans.size() + 1);
    const std::span<float> sum = g.layer(g.logits, l);
    const std::span<const float> base = g.layer(g.base, l), noise = g.layer(g.drawn, l);
    for (std::uint32_t r = 0; r < g.experts; ++r) sum[r] = base[r] + weight[g.spans.size()] * noise[r];
    for (std::size_t i = 0; i < g.spans.size(); ++i) {
      const std::span<const float> term = g.layer(g.spans[i], l);
      for (std::uint32_t r = 0; r < g.experts; ++r) sum[r] += weight[i] * term[r];
    }
    g.choose(l);
  }
  return {.phase = phase,
          .ids = g.ids,
          .gate_scores = g.gates,
          .router_scores = g.router_scores,
          .candidate_ids = {},
          .lookahead_ids = {}};
}

}  // namespace moelab
