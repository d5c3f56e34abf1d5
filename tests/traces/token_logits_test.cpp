// The parts of drawing from a law that are written for wide instructions, each against a plain program; and
// what is drawn against the law drawn as its header states it, with normal numbers of another making.
#include "traces/law/token_logits.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <vector>

#include "tests/random_runs.hpp"
#include "tests/traces/known_laws.hpp"
#include "tests/traces/random_laws.hpp"
#include "traces/law/best_experts.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"
#include "traces/statistics/routing_statistics.hpp"

namespace moelab::token_logits_test {
namespace {

using namespace test;

/// xoshiro256++ 1.0 as its authors wrote it.
struct PlainGenerator {
  std::uint64_t s[4];
  std::uint64_t next() {
    const auto rotl = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    const std::uint64_t result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
  }
};

/// WalshNormals by its definition: sums with the signs of the Walsh-Hadamard matrix, (-1)^(number of ones
/// that i and j have in common), over bytes less their mean.
class PlainNormals {
 public:
  explicit PlainNormals(Random seeds) {
    for (int word = 0; word < 4; ++word)
      for (PlainGenerator& g : generators_) g.s[word] = seeds.next();
  }
  std::vector<int> block() {
    std::array<std::array<int, 16>, 64> bytes;
    for (std::size_t row = 0; row < 64; row += 2)
      for (std::size_t g = 0; g < 4; ++g) {
        const std::uint64_t bits = generators_[g].next();
        for (std::size_t i = 0; i < 4; ++i) {
          bytes[row][4 * g + i] = static_cast<int>(bits >> 16 * i & 255);
          bytes[row + 1][4 * g + i] = static_cast<int>(bits >> (16 * i + 8) & 255);
        }
      }
    std::vector<int> sums(1024);
    for (unsigned i = 0; i < 64; ++i)
      for (unsigned lane = 0; lane < 16; ++lane) {
        for (unsigned j = 0; j < 64; ++j)
          sums[16 * i + lane] += (std::popcount(i & j) % 2 ? -1 : 1) * bytes[j][lane];
        if (i == 0) sums[lane] -= 64 * 255 / 2;
      }
    return sums;
  }
  int next() {
    if (left_.empty()) {
      const std::vector<int> more = block();
      left_.assign(more.begin(), more.end());
    }
    const int value = left_.front();
    left_.pop_front();
    return value;
  }

 private:
  std::array<PlainGenerator, 4> generators_;
  std::deque<int> left_;
};

/// The header's recurrences, one number at a time, in the order in which TokenLogits takes its normal
/// numbers: for each eight experts and layer, pairs of terms, of which each expert has two neighbours.
struct PlainLogits {
  const RoutingLaw& law;
  std::vector<std::size_t> spans;  // that weigh something
  PlainNormals normals;
  std::map<std::array<std::size_t, 3>, float> terms;  // [layer, expert, span]
  bool first = true;

  PlainLogits(const RoutingLaw& l, const Random& random) : law(l), normals(random) {
    for (std::size_t i = 0; i < law.span_tokens.size(); ++i)
      if (std::any_of(law.layers.begin(), law.layers.end(),
                      [&](const LayerLaw& layer) { return layer.spans[i] > 0; }))
        spans.push_back(i);
  }
  /// [layer][expert], without what the tokens of a request have in common.
  std::vector<std::vector<float>> next(const std::vector<std::vector<float>>& common) {
    std::vector<std::vector<float>> logits = common;
    for (std::size_t begin = 0; begin < law.experts; begin += 8) {
      std::vector<std::array<float, 8>> fresh(spans.size() + 1, std::array<float, 8>{});
      for (std::size_t l = 0; l < law.layers.size(); ++l) step(l, begin, fresh, logits[l]);
    }
    first = false;
    return logits;
  }
  void step(std::size_t l, std::size_t begin, std::vector<std::array<float, 8>>& fresh,
            std::vector<float>& logits) {
    const LayerLaw& layer = law.layers[l];
    const double kept = l == 0 ? 0 : layer.coupling;
    const auto come = static_cast<float>(std::sqrt(1 - kept * kept) / (65536 * WalshNormals::kDeviation));
    std::vector<std::array<int, 8>> drawn((spans.size() + 2) / 2 * 2);
    for (std::size_t pair = 0; pair < drawn.size(); pair += 2)
      for (std::size_t e = 0; e < 8; ++e)
        for (std::size_t i = 0; i < 2; ++i) drawn[pair + i][e] = normals.next();
    double rest = 1 - layer.domain - layer.prompt;
    for (const double span : layer.spans) rest -= span;
    for (std::size_t e = 0; e < 8 && begin + e < law.experts; ++e)
      for (std::size_t i = 0; i <= spans.size(); ++i) {
        float& z = fresh[i][e];
        z = static_cast<float>(kept) * z + come * (65536 * static_cast<float>(drawn[i][e]));
        float value = z;
        auto weight = static_cast<float>(std::sqrt(std::max(0.0, rest)));
        if (i < spans.size()) {
          const double rho = portable_exp(-1 / law.span_tokens[spans[i]]),
                       new_part = std::sqrt(1 - rho * rho);
          float& term = terms[{l, begin + e, i}];
          term = value = first ? static_cast<float>(1 / new_part) * z : static_cast<float>(rho) * term + z;
          weight = static_cast<float>(std::sqrt(layer.spans[spans[i]]) * new_part);
        }
        logits[begin + e] += weight * value;
      }
  }
};

}  // namespace

TEST_CASE("normal numbers of a block are the Walsh-Hadamard transforms of its bytes") {
  for (std::uint64_t seed = 0; seed < random_runs(40u); ++seed) {
    WalshNormals normals{Random(seed)};
    PlainNormals plain{Random(seed)};
    for (int block = 0; block < 5; ++block) {
      std::array<std::int16_t, WalshNormals::kBlock> got;
      normals.draw(got.data());
      REQUIRE(std::vector<int>(got.begin(), got.end()) == plain.block());
    }
  }
}

TEST_CASE("normal numbers of blocks have the moments and the correlations that their making gives them") {
  WalshNormals normals{Random(7)};
  constexpr int kBlocks = 2000;
  constexpr double kNumbers = kBlocks * double{WalshNormals::kBlock};
  double mean = 0, square = 0, cube = 0, fourth = 0, next = 0, squares = 0, beyond = 0;
  for (int block = 0; block < kBlocks; ++block) {
    std::array<std::int16_t, WalshNormals::kBlock> drawn;
    normals.draw(drawn.data());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const double x = drawn[i] / WalshNormals::kDeviation;
      const double y = drawn[(i + 16) % drawn.size()] / WalshNormals::kDeviation;  // of the same transform
      mean += x / kNumbers;
      square += x * x / kNumbers;
      cube += x * x * x / kNumbers;
      fourth += x * x * x * x / kNumbers;
      next += x * y / kNumbers;
      squares += (x * x - 1) * (y * y - 1) / kNumbers;
      beyond += (std::abs(x) > 2) / kNumbers;
    }
  }
  const double error = 5 / std::sqrt(kNumbers);  // five standard errors, as in normal_test.cpp
  CHECK(std::abs(mean) < error);
  CHECK(std::abs(square - 1) < error * std::sqrt(2.0));
  CHECK(std::abs(cube) < error * std::sqrt(15.0));
  const double kurtosis = -1.2 * (65536.0 + 1) / (65536 - 1) / 64;  // of a uniform whole number, n^2 = 65536
  CHECK(std::abs(fourth - 3 - kurtosis) < error * std::sqrt(96.0));
  CHECK(std::abs(next) < error);
  CHECK(std::abs(squares - kurtosis) < error * 2);
  CHECK(std::abs(beyond - std::erfc(std::sqrt(2.0))) < 0.001);
}

TEST_CASE("a token's logits are the recurrences of the law, bit by bit") {
  for (std::uint64_t seed = 0; seed < random_runs(100u); ++seed) {
    Random random(seed, 77, 0);
    RoutingLaw law = random_law(random);
    law.span_tokens.resize(random.below(7), 3.0);  // more than there are kernels for, too
    for (LayerLaw& layer : law.layers) {
      layer.encoder = false;
      layer.spans.assign(law.span_tokens.size(), 0);
      for (double& span : layer.spans) span = random.below(3) == 0 ? 0 : 0.1 * random.uniform();
      layer.domain = layer.prompt = 0.1;
    }
    std::vector<float> common;
    std::vector<std::vector<float>> by_layer;
    for (const LayerLaw& layer : law.layers) {
      by_layer.emplace_back(layer.bias.begin(), layer.bias.end());
      common.insert(common.end(), layer.bias.begin(), layer.bias.end());
    }
    TokenLogits logits(law, 0, static_cast<std::uint32_t>(law.layers.size()));
    for (std::uint64_t request = 0; request < 2; ++request) {
      logits.begin_request(common, Random(seed, request, 1));
      PlainLogits plain(law, Random(seed, request, 1));
      for (int token = 0; token < 5; ++token) {
        logits.next();
        const std::vector<std::vector<float>> due = plain.next(by_layer);
        for (std::uint32_t l = 0; l < law.layers.size(); ++l) {
          const std::span<const float> got = logits.of_layer(l);
          REQUIRE(got.size() % TokenLogits::kTogether == 0);
          REQUIRE(std::equal(due[l].begin(), due[l].end(), got.begin()));
          for (std::size_t e = law.experts; e < got.size(); ++e)
            REQUIRE(got[e] == -std::numeric_limits<float>::infinity());
        }
      }
    }
  }
}

TEST_CASE("the best of rows are found whatever the rows before were") {
  for (std::uint64_t seed = 0; seed < random_runs(400u); ++seed) {
    Random random(seed, 78, 0);
    const std::size_t width = 8 * (1 + random.below(20));
    const std::size_t k = 1 + random.below(std::min<std::size_t>(width, 30));
    const std::uint64_t values = random.below(2) ? 1 << 20 : 10;  // few: many of them equal
    RowOfBest rows;
    std::vector<std::uint32_t> got(k), due(k);
    double level = 0;
    for (int row = 0; row < 50; ++row) {
      if (random.below(10) == 0) level = 20 * (random.uniform() - 0.5);  // nothing like the rows before
      std::vector<float> logits(width);
      for (float& value : logits)
        value = static_cast<float>(level + 4 * static_cast<double>(random.below(values)) /
                                               static_cast<double>(values));
      rows.choose(logits, got);
      best_experts(logits, due);
      REQUIRE(got == due);
    }
  }
}

TEST_CASE("exponentials of many values are those of one") {
  std::vector<float> values, powers;
  for (int i = 0; i <= 17500; ++i) values.push_back(static_cast<float>(-87 + i * 0.01));
  powers = values;
  portable_exp(powers);
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    most = std::max(most, std::abs(double{powers[i]} / std::exp(double{values[i]}) - 1));
  CHECK(most < 2e-7);
  std::vector<float> small{-88.0f, -1e30f, -std::numeric_limits<float>::infinity()};
  portable_exp(small);
  for (const float power : small) CHECK(double{power} == Approx(std::exp(-87.0)).epsilon(1e-6));
}

namespace {

/// The law's header in plain loops of doubles, on ziggurat's normal numbers; no domains.
RoutingTrace drawn_plainly(const RoutingLaw& law, std::uint64_t seed, std::uint32_t requests,
                           std::uint32_t tokens) {
  const std::size_t layers = law.layers.size(), experts = law.experts, terms = law.span_tokens.size() + 2;
  TraceDescription about = LawGenerator(law, seed).description();
  about.gate_scores = false;
  RoutingTraceBuilder builder(about);
  Random random(seed, 1234, 0);
  using Terms = std::vector<std::vector<double>>;  // [layer, expert]
  const auto fresh = [&] {
    Terms now(layers, std::vector<double>(experts));
    for (std::size_t l = 0; l < layers; ++l)
      for (std::size_t e = 0; e < experts; ++e) {
        const double kept = l == 0 ? 0 : law.layers[l].coupling;
        now[l][e] = (l == 0 ? 0 : kept * now[l - 1][e]) +
                    std::sqrt(1 - kept * kept) * Normal::instance().draw(random);
      }
    return now;
  };
  for (std::uint32_t r = 0; r < requests; ++r) {
    builder.begin_request(0);
    std::vector<Terms> value(terms);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      std::vector<std::uint16_t> ids;
      for (std::size_t i = 0; i < terms; ++i) {  // prompt, spans, noise
        if (i == 0 && t > 0) continue;
        const Terms now = fresh();
        const bool span = i > 0 && i + 1 < terms && t > 0;
        const double rho = span ? std::exp(-1 / law.span_tokens[i - 1]) : 0;
        if (!span) value[i] = now;
        for (std::size_t l = 0; span && l < layers; ++l)
          for (std::size_t e = 0; e < experts; ++e)
            value[i][l][e] = rho * value[i][l][e] + std::sqrt(1 - rho * rho) * now[l][e];
      }
      for (std::size_t l = 0; l < layers; ++l) {
        const LayerLaw& layer = law.layers[l];
        std::vector<double> weights{layer.prompt};
        weights.insert(weights.end(), layer.spans.begin(), layer.spans.end());
        double rest = 1 - layer.domain;
        for (const double w : weights) rest -= w;
        weights.push_back(rest);
        std::vector<std::pair<double, std::uint16_t>> order;
        for (std::uint16_t e = 0; e < experts; ++e) {
          double logit = layer.bias[e];
          for (std::size_t i = 0; i < terms; ++i) logit += std::sqrt(weights[i]) * value[i][l][e];
          order.emplace_back(-logit, e);
        }
        std::sort(order.begin(), order.end());
        for (std::uint32_t i = 0; i < law.top_k; ++i) ids.push_back(order[i].second);
      }
      builder.add_token({.phase = Phase::decode,
                         .ids = ids,
                         .gate_scores = {},
                         .router_scores = {},
                         .candidate_ids = {},
                         .lookahead_ids = {}});
    }
  }
  return builder.finish();
}

/// Figures of a trace: of each layer hit rates of four caches at three or four capacities, the busiest
/// quarter's share, reuse, and the recall of its experts from the layer before.
std::vector<double> figures(const RoutingTrace& trace) {
  const RoutingStatistics statistics =
      routing_statistics(trace, {.curves = true, .threads = 1, .progress = {}});
  std::vector<double> all;
  for (const LayerStatistics& layer : statistics.layers) {
    for (const std::size_t part : {8u, 4u, 2u}) {
      all.push_back(layer.lru[trace.experts() / part - 1]);
      all.push_back(layer.belady[trace.experts() / part - 1]);
    }
    all.insert(all.end(), layer.lfu.begin(), layer.lfu.end());
    all.insert(all.end(), layer.fifo.begin(), layer.fifo.end());
    all.push_back(layer.top_quarter);
    all.push_back(layer.reuse);
    if (&layer != &statistics.layers[0]) all.push_back(layer.transition_recall);
  }
  return all;
}

}  // namespace

TEST_CASE("what is drawn has the figures of the law drawn plainly", "[long]") {
  RoutingLaw law = known(1.2, 0, 0.2, {0.15, 0.2, 0.15}, 0.6);
  law.domains.clear();
  law.domain_shares.clear();
  constexpr std::uint32_t kSamples = 120, kRequests = 6, kTokens = 150;
  std::vector<double> sum, squares;
  for (std::uint64_t seed = 0; seed < kSamples; ++seed) {
    const std::vector<double> a = figures(drawn(law, seed, kRequests, kTokens));
    const std::vector<double> b = figures(drawn_plainly(law, seed, kRequests, kTokens));
    sum.resize(a.size());
    squares.resize(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum[i] += a[i] - b[i];
      squares[i] += (a[i] - b[i]) * (a[i] - b[i]);
    }
  }
  for (std::size_t i = 0; i < sum.size();
       ++i) {  // Student's test of equal means, at four and a half standard errors
    INFO("figure " << i);
    const double mean = sum[i] / kSamples;
    const double variance = (squares[i] - kSamples * mean * mean) / (kSamples - 1);
    CHECK(std::abs(mean) < 4.5 * std::sqrt(variance / kSamples));
  }
}

}  // namespace moelab::token_logits_test
