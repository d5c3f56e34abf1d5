#include "traces/generator.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "tests/traces/trace_files.hpp"
#include "traces/default_trace.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"

namespace moelab::generator_test {
namespace {

using test::error_of;

GeneratorParameters small(std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k) {
  GeneratorParameters p;
  p.model = "test";
  p.layers = layers;
  p.experts = experts;
  p.top_k = top_k;
  return p;
}

std::vector<std::uint16_t> sorted_row(const RoutingTrace& trace, std::uint64_t token, std::uint32_t layer) {
  const auto row = trace.experts_of(token, layer);
  std::vector<std::uint16_t> ids(row.begin(), row.end());
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// How often each expert of a layer is chosen, by falling frequency, as a share of tokens.
std::vector<double> inclusion(const RoutingTrace& trace, std::uint32_t layer) {
  std::vector<double> share(trace.experts());
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (const std::uint16_t id : trace.experts_of(token, layer))
      share[id] += 1.0 / static_cast<double>(trace.tokens());
  }
  std::sort(share.rbegin(), share.rend());
  return share;
}

/// Probability that each item is among k drawn by weight without replacement: the sum over all ordered draws.
std::vector<double> exact_inclusion(const std::vector<double>& weights, std::uint32_t k) {
  std::vector<double> chance(weights.size());
  std::vector<bool> taken(weights.size());
  const std::function<void(std::uint32_t, double)> draw = [&](std::uint32_t drawn, double probability) {
    if (drawn == k) {
      for (std::size_t i = 0; i < weights.size(); ++i) chance[i] += taken[i] ? probability : 0;
      return;
    }
    double left = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) left += taken[i] ? 0 : weights[i];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (taken[i]) continue;
      taken[i] = true;
      draw(drawn + 1, probability * weights[i] / left);
      taken[i] = false;
    }
  };
  draw(0, 1);
  return chance;
}

TEST_CASE("random: SplitMix64 and xoshiro256** give their published sequences") {
  // SplitMix64 from seed 1234567: https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
  std::uint64_t state = 1234567;
  for (const std::uint64_t due : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                  4593380528125082431U, 16408922859458223821U}) {
    CHECK(splitmix64(state) == due);
  }
  // The algorithm told again, checked on the first outputs from state {1, 2, 3, 4} of the authors' C code.
  std::array<std::uint64_t, 4> s{1, 2, 3, 4};
  const auto rotate = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
  const auto reference = [&] {
    const std::uint64_t result = rotate(s[1] * 5, 7) * 9;
    const std::uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
  };
  for (const std::uint64_t due : {11520U, 0U, 1509978240U}) CHECK(reference() == due);
  CHECK(reference() == 1215971899390074240U);
  std::uint64_t seed = 42;
  for (std::uint64_t& word : s) word = splitmix64(seed);
  Random random(42);
  for (int i = 0; i < 1000; ++i) REQUIRE(random.next() == reference());
}

TEST_CASE("random: below and shuffle are uniform") {
  Random random(1);
  std::array<int, 5> counts{};
  std::array<std::array<int, 4>, 4> places{};
  constexpr int kRounds = 100000;
  for (int i = 0; i < kRounds; ++i) {
    ++counts[random.below(5)];
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    random.shuffle(std::span<std::size_t>(order));
    for (std::size_t place = 0; place < 4; ++place) ++places[place][order[place]];
  }
  CHECK(random.below(1) == 0);
  // five standard deviations of a binomial count
  for (const int count : counts) CHECK(std::abs(count - kRounds * 0.2) < 5 * std::sqrt(kRounds * 0.2 * 0.8));
  for (const auto& place : places) {
    for (const int count : place)
      CHECK(std::abs(count - kRounds * 0.25) < 5 * std::sqrt(kRounds * 0.25 * 0.75));
  }
}

TEST_CASE("portable exp and log agree with the C library's") {
  Random random(2);
  double worst_exp = 0;
  double worst_log = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = random.uniform() * 1390 - 695;
    worst_exp = std::max(worst_exp, std::abs(portable_exp(x) / std::exp(x) - 1));
    const double y = std::exp(x);
    worst_log =
        std::max(worst_log, std::abs(portable_log(y) - std::log(y)) / std::max(1.0, std::abs(std::log(y))));
  }
  CHECK(worst_exp < 6e-16);
  CHECK(worst_log < 6e-16);
  CHECK(portable_exp(0) == 1);
  CHECK(portable_log(1) == 0);
  CHECK(portable_exp(-701) == 0);
}

TEST_CASE("generator: drawing is by weight without replacement", "[long]") {
  struct Case {
    std::uint32_t top_k;
    double skew;
  };
  // The last two make draws of experts already taken so frequent that rows are completed by the race.
  const Case cases[] = {{1, 1}, {2, 1}, {3, 0.5}, {2, 0}, {4, 3}, {4, 6}};
  for (const auto& [top_k, skew] : cases) {
    GeneratorParameters p = small(2, 5, top_k);
    p.skew = skew;
    p.reuse = 0;
    p.drift = 0;
    p.requests = 400;
    p.prompt_tokens = 100;
    p.output_tokens = 151;
    const RoutingTrace trace = generate_routing_trace(p);
    std::vector<double> weights;
    for (int rank = 0; rank < 5; ++rank) weights.push_back(std::pow(rank + 1, -skew));
    std::vector<double> due = exact_inclusion(weights, top_k);
    std::sort(due.rbegin(), due.rend());
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      const std::vector<double> found = inclusion(trace, layer);
      for (std::size_t i = 0; i < 5; ++i) {
        CAPTURE(top_k, skew, layer, i);
        // five standard deviations of a binomial share, and a little where it is (nearly) certain
        const double spread = std::sqrt(due[i] * (1 - due[i]) / static_cast<double>(trace.tokens()));
        CHECK(std::abs(found[i] - due[i]) < 5 * spread + 1e-9);
      }
    }
  }
}

TEST_CASE("generator: drift mixes the model's popularity with the request's own") {
  // One expert a token, and skew 10 so that one expert in 8 has nearly all the weight w = 1 / sum (r+1)^-10.
  // The busiest expert of the model has a share of w (1 - drift) + drift / 8 over many requests.
  GeneratorParameters p = small(1, 8, 1);
  p.skew = 10;
  p.reuse = 0;
  p.requests = 40000;
  p.prompt_tokens = 1;
  p.output_tokens = 1;
  double sum = 0;
  for (int rank = 0; rank < 8; ++rank) sum += std::pow(rank + 1, -10);
  for (const double drift : {0.0, 0.25, 0.5}) {
    p.drift = drift;
    const double due = (1 - drift) / sum + drift / 8;
    const double found = inclusion(generate_routing_trace(p), 0).front();
    CHECK(std::abs(found - due) < 5 * std::sqrt(due * (1 - due) / 40000));
  }
  p.drift = 1;  // no expert is the model's: the shares are those of a fair die
  const std::vector<double> shares = inclusion(generate_routing_trace(p), 0);
  CHECK(shares.front() - shares.back() < 10 * std::sqrt(0.125 * 0.875 / 40000));
}

TEST_CASE("generator: a request keeps its own popularity") {
  GeneratorParameters p = small(1, 8, 1);
  p.skew = 10;
  p.reuse = 0;
  p.drift = 1;
  p.requests = 50;
  p.prompt_tokens = 100;
  p.output_tokens = 1;
  const RoutingTrace trace = generate_routing_trace(p);
  for (const TraceRequest& request : trace.requests()) {
    std::array<int, 8> counts{};
    for (std::uint64_t token = request.begin; token < request.end; ++token)
      ++counts[trace.experts_of(token, 0)[0]];
    // The first has 0.999 of the weight: 5 misses of 100 would be a chance of 1e-7.
    CHECK(*std::max_element(counts.begin(), counts.end()) > 95);
  }
}

TEST_CASE("generator: reuse adds to chance as the law says") {
  GeneratorParameters p = small(1, 16, 4);
  p.skew = 0;
  p.requests = 20;
  p.prompt_tokens = 1;
  p.output_tokens = 2000;
  for (const double reuse : {0.0, 0.3, 0.8, 1.0}) {
    p.reuse = reuse;
    const RoutingTrace trace = generate_routing_trace(p);
    double overlap = 0;
    double rows = 0;
    for (const TraceRequest& request : trace.requests()) {
      for (std::uint64_t token = request.begin + 1; token < request.end; ++token) {
        const auto a = sorted_row(trace, token - 1, 0);
        const auto b = sorted_row(trace, token, 0);
        std::vector<std::uint16_t> both;
        std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
        overlap += static_cast<double>(both.size());
        ++rows;
      }
    }
    // m of 4 are kept (binomial); the other 4 - m places fall evenly on 16 - m, of which 4 - m were there.
    double due = 0;
    const double choose[] = {1, 4, 6, 4, 1};
    for (int m = 0; m <= 4; ++m) {
      due +=
          choose[m] * std::pow(reuse, m) * std::pow(1 - reuse, 4 - m) * (m + (4.0 - m) * (4 - m) / (16 - m));
    }
    CHECK(std::abs(overlap / rows - due) <= 5 * 1.0 / std::sqrt(rows));  // an overlap spreads by less than 1
    if (reuse == 1.0) CHECK(overlap == 4 * rows);
  }
}

TEST_CASE("generator: scores fall, sum to one, and decay as asked") {
  for (const double decay : {0.0, 0.24, 2.0, 20.0}) {
    GeneratorParameters p = small(3, 16, 6);
    p.gate_decay = decay;
    p.requests = 20;
    const RoutingTrace trace = generate_routing_trace(p);
    double logarithms = 0;
    double pairs = 0;
    bool sound = true;
    for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
      for (std::uint32_t layer = 0; layer < 3; ++layer) {
        const auto scores = trace.scores_of(token, layer);
        sound = sound && std::is_sorted(scores.rbegin(), scores.rend()) &&
                std::abs(std::accumulate(scores.begin(), scores.end(), 0.0) - 1) < 1e-6;
        if (scores[1] > 0) {
          logarithms += std::log(scores[0] / scores[1]);
          ++pairs;
        }
      }
    }
    CAPTURE(decay);
    CHECK(sound);
    // The gap is exponential, whose standard deviation is its mean; its 1024 steps lose under 0.001 of it.
    if (decay < 20)
      CHECK(std::abs(logarithms / pairs - decay) <= 5 * decay / std::sqrt(pairs) + 0.001 * decay + 1e-6);
  }
}

TEST_CASE("generator: the same seed gives the same trace, another one another") {
  const test::ScratchFolder scratch;
  GeneratorParameters p = small(3, 16, 4);
  p.requests = 5;
  write_routing_trace(generate_routing_trace(p), scratch / "a");
  write_routing_trace(generate_routing_trace(p), scratch / "b");
  CHECK(test::read_bytes(scratch / "a") == test::read_bytes(scratch / "b"));
  const RoutingTrace first = generate_routing_trace(p);
  p.seed = 2;
  const RoutingTrace other = generate_routing_trace(p);
  p.seed = 1;
  p.requests = 9;  // more requests leave the first ones as they were
  const RoutingTrace longer = generate_routing_trace(p);
  int differing = 0;
  bool prefix = true;
  for (std::uint64_t token = 0; token < first.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
      const auto row = first.experts_of(token, layer);
      const auto same_as = [&](std::span<const std::uint16_t> o) {
        return std::equal(row.begin(), row.end(), o.begin());
      };
      differing += same_as(other.experts_of(token, layer)) ? 0 : 1;
      const auto a = first.scores_of(token, layer);
      const auto b = longer.scores_of(token, layer);
      prefix =
          prefix && same_as(longer.experts_of(token, layer)) && std::equal(a.begin(), a.end(), b.begin());
    }
  }
  CHECK(differing > 1000);  // of 3825 rows
  CHECK(prefix);
  CHECK(first.synthetic());
  CHECK(first.provenance().find("synthetic: ") == 0);
  CHECK(first.provenance().find("seed 1,") != std::string::npos);
}

TEST_CASE("generator: rows of decoders and of encoder-decoders") {
  GeneratorParameters p = small(5, 8, 2);
  p.requests = 3;
  p.prompt_tokens = 7;
  p.output_tokens = 4;
  SECTION("decoder: the prompt's pass gives the first generated token") {
    const RoutingTrace trace = generate_routing_trace(p);
    REQUIRE(trace.requests().size() == 3);
    for (const TraceRequest& request : trace.requests()) {
      CHECK(request.decode_begin - request.begin == 7);
      CHECK(request.end - request.decode_begin == 3);
      CHECK(trace.phase_of(request.begin) == Phase::prefill);
    }
    for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
      for (std::uint32_t layer = 0; layer < 5; ++layer) CHECK(trace.experts_of(token, layer)[0] != kNoExpert);
    }
  }
  SECTION("encoder-decoder: each token runs in its half of the layers") {
    p.encoder_layers = 2;
    const RoutingTrace trace = generate_routing_trace(p);
    for (const TraceRequest& request : trace.requests()) {
      CHECK(request.decode_begin - request.begin == 7);
      CHECK(request.end - request.decode_begin == 4);
    }
    for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
      const bool prompt = trace.phase_of(token) == Phase::encoder;
      for (std::uint32_t layer = 0; layer < 5; ++layer) {
        const bool runs = trace.experts_of(token, layer)[0] != kNoExpert;
        CHECK(runs == (prompt == (layer < 2)));
        if (!runs) CHECK(trace.scores_of(token, layer)[0] == 0.0F);
      }
    }
  }
  SECTION("all experts of a large row") {  // the race has to fill rows of any length
    p = small(1, 65535, 65535);
    p.prompt_tokens = 1;
    p.output_tokens = 1;
    const auto row = sorted_row(generate_routing_trace(p), 0, 0);
    CHECK(std::adjacent_find(row.begin(), row.end()) == row.end());
  }
}

/// The n experts of the highest scores, best first; equal scores by number.
std::vector<std::uint16_t> best_of(std::span<const float> scores, std::size_t n) {
  std::vector<std::uint16_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint16_t a, std::uint16_t b) { return scores[a] > scores[b]; });
  order.resize(n);
  return order;
}

TEST_CASE("generator: scores of all experts are asked for, and leave what is chosen as it is") {
  GeneratorParameters p = small(5, 16, 4);
  p.requests = 4;
  p.encoder_layers = 2;
  const RoutingTrace without = generate_routing_trace(p);
  CHECK(without.description().router_scores == RouterScores::none);
  p.all_scores = true;
  const RoutingTrace with = generate_routing_trace(p);
  REQUIRE(with.description().router_scores == RouterScores::softmax);
  REQUIRE(with.description().router_width() == 16);
  REQUIRE(with.tokens() == without.tokens());
  std::vector<float> scores(16);
  bool same = true, sums = true, first = true, ratios = true, idle = true;
  for (std::uint64_t token = 0; token < with.tokens(); ++token)
    for (std::uint32_t layer = 0; layer < 5; ++layer) {
      const auto ids = with.experts_of(token, layer);
      const auto gates = with.scores_of(token, layer);
      same = same && std::ranges::equal(ids, without.experts_of(token, layer)) &&
             std::ranges::equal(gates, without.scores_of(token, layer));
      with.router_scores_of(token, layer, scores);
      if (ids[0] == kNoExpert) {
        idle = idle && std::ranges::all_of(scores, [](float score) { return score == 0; });
        continue;
      }
      sums = sums && std::abs(std::accumulate(scores.begin(), scores.end(), 0.0) - 1) < 1e-6;
      // The chosen ones are the best, in their order, and their gates are their scores over their sum.
      first = first && std::ranges::equal(best_of(scores, 4), ids);
      double chosen = 0;
      for (const std::uint16_t id : ids) chosen += scores[id];
      for (std::size_t i = 0; i < 4; ++i)
        ratios = ratios && std::abs(scores[ids[i]] / chosen - gates[i]) < 1e-6;
    }
  CHECK(same);
  CHECK(sums);
  CHECK(first);
  CHECK(ratios);
  CHECK(idle);
}

TEST_CASE("generator: scores below the chosen ones fall as sorted logistic numbers do", "[long]") {
  for (const auto& [experts, top_k] : {std::pair{32U, 4U}, {64U, 6U}, {8U, 1U}}) {
    GeneratorParameters p = small(4, experts, top_k);
    p.requests = 40;
    p.all_scores = true;
    const RoutingTrace trace = generate_routing_trace(p);
    // Means of the gaps of sorted logistic numbers, by drawing them: quantiles are log(u / (1 - u)).
    std::mt19937_64 random(1);
    std::vector<double> due(experts - 1, 0), got(experts - 1, 0), squares(experts - 1, 0);
    constexpr int kDraws = 40000;
    std::vector<double> draw(experts);
    for (int i = 0; i < kDraws; ++i) {
      for (double& x : draw) {
        const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
        x = std::log(u / (1 - u));
      }
      std::sort(draw.rbegin(), draw.rend());
      for (std::size_t r = 0; r + 1 < experts; ++r) due[r] += (draw[r] - draw[r + 1]) / kDraws;
    }
    // Scaled so that the chosen ones' gaps have the mean gate_decay.
    const std::uint32_t gaps = std::max(1U, top_k - 1);
    const double scale = p.gate_decay * gaps / std::accumulate(due.begin(), due.begin() + gaps, 0.0);
    std::vector<float> scores(experts);
    double rows = 0;
    for (std::uint64_t token = 0; token < trace.tokens(); ++token)
      for (std::uint32_t layer = 0; layer < 4; ++layer) {
        trace.router_scores_of(token, layer, scores);
        std::sort(scores.rbegin(), scores.rend());
        for (std::size_t r = 0; r + 1 < experts; ++r) {
          const double gap = std::log(scores[r] / scores[r + 1]);
          got[r] += gap;
          squares[r] += gap * gap;
        }
        ++rows;
      }
    for (std::size_t r = top_k - 1; r + 1 < experts; ++r) {
      CAPTURE(experts, r);
      const double mean = got[r] / rows;
      CHECK(mean == Approx(due[r] * scale).epsilon(0.04));
      // Exponential: the standard deviation is the mean.
      CHECK(std::sqrt(squares[r] / rows - mean * mean) == Approx(mean).epsilon(0.05));
    }
  }
}

TEST_CASE("generator: the best of the others are those that would have been drawn next") {
  // Without reuse the order of all experts is that of draws by weight without replacement: the expert in
  // place k + 1 is the one that k + 1 draws have and k draws do not, in distribution.
  GeneratorParameters p = small(1, 6, 2);
  p.skew = 1;
  p.reuse = 0;
  p.drift = 0;
  p.requests = 1;
  p.prompt_tokens = 60000;
  p.all_scores = true;
  const RoutingTrace trace = generate_routing_trace(p);
  std::vector<double> third(6);
  std::vector<float> scores(6);
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    trace.router_scores_of(token, 0, scores);
    third[best_of(scores, 3)[2]] += 1.0 / static_cast<double>(trace.tokens());
  }
  std::vector<double> weights;
  for (int rank = 0; rank < 6; ++rank) weights.push_back(1.0 / (rank + 1));
  const std::vector<double> two = exact_inclusion(weights, 2), three = exact_inclusion(weights, 3);
  std::vector<double> due;
  for (std::size_t i = 0; i < 6; ++i) due.push_back(three[i] - two[i]);
  std::sort(due.begin(), due.end());
  std::sort(third.begin(), third.end());
  for (std::size_t i = 0; i < 6; ++i) CHECK(third[i] == Approx(due[i]).margin(0.01));
}

/// By rank: how often the expert of that rank is among those that the next token of the request chooses.
std::vector<double> chosen_next(const RoutingTrace& trace) {
  std::vector<double> chosen(trace.experts());
  std::vector<float> scores(trace.experts());
  double rows = 0;
  for (const TraceRequest& request : trace.requests())
    for (std::uint64_t token = request.begin; token + 1 < request.end; ++token)
      for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
        trace.router_scores_of(token, layer, scores);
        const std::vector<std::uint16_t> order = best_of(scores, trace.experts());
        const auto next = trace.experts_of(token + 1, layer);
        for (std::size_t rank = 0; rank < order.size(); ++rank)
          chosen[rank] += std::find(next.begin(), next.end(), order[rank]) != next.end() ? 1 : 0;
        ++rows;
      }
  for (double& share : chosen) share /= rows;
  return chosen;
}

TEST_CASE("generator: scores of inactive experts foretell as much as those of a recorded router", "[long]") {
  const RoutingTrace recorded = open_routing_trace(kDefaultTrace);
  GeneratorParameters p = small(8, 32, 4);
  p.requests = 20;
  p.all_scores = true;
  const std::vector<double> due = chosen_next(recorded), got = chosen_next(generate_routing_trace(p));
  for (std::size_t rank = 4; rank < 32; ++rank) {
    CAPTURE(rank);
    CHECK(got[rank] == Approx(due[rank]).margin(0.03));
  }
}

TEST_CASE("generator: a trace may begin with a later request of the same model") {
  GeneratorParameters p = small(3, 16, 4);
  p.requests = 7;
  p.all_scores = true;
  const RoutingTrace all = generate_routing_trace(p);
  p.first_request = 5;
  p.requests = 2;
  const RoutingTrace last = generate_routing_trace(p);
  CHECK(last.provenance().find("requests from number 5") != std::string::npos);
  const std::uint64_t from = all.requests()[5].begin;
  REQUIRE(last.tokens() == all.tokens() - from);
  std::vector<float> a(16), b(16);
  bool same = true;
  for (std::uint64_t token = 0; token < last.tokens(); ++token)
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
      all.router_scores_of(from + token, layer, a);
      last.router_scores_of(token, layer, b);
      same = same && a == b &&
             std::ranges::equal(all.experts_of(from + token, layer), last.experts_of(token, layer));
    }
  CHECK(same);
}

TEST_CASE("generator: parameters out of range are all named") {
  struct Case {
    void (*spoil)(GeneratorParameters&);
    const char* message;
  };
  const Case cases[] = {
      {[](GeneratorParameters& p) { p.layers = 0; }, "layers is 0, but must be at least 1"},
      {[](GeneratorParameters& p) { p.encoder_layers = 4; },
       "encoder_layers is 4, but must be less than the 4 layers"},
      {[](GeneratorParameters& p) { p.experts = 0; }, "experts is 0, but must be between 1 and 65535"},
      {[](GeneratorParameters& p) { p.experts = 65536; }, "experts is 65536"},
      {[](GeneratorParameters& p) { p.top_k = 0; }, "top_k is 0"},
      {[](GeneratorParameters& p) { p.top_k = 9; },
       "top_k is 9, but must be between 1 and the number of experts, 8"},
      {[](GeneratorParameters& p) { p.requests = 0; }, "requests is 0"},
      {[](GeneratorParameters& p) { p.prompt_tokens = 0; }, "prompt_tokens is 0"},
      {[](GeneratorParameters& p) { p.output_tokens = 0; }, "output_tokens is 0"},
      {[](GeneratorParameters& p) { p.skew = -0.1; }, "skew is -0.1, but must be between 0 and 10"},
      {[](GeneratorParameters& p) { p.reuse = 1.5; }, "reuse is 1.5, but must be between 0 and 1"},
      {[](GeneratorParameters& p) { p.drift = std::numeric_limits<double>::quiet_NaN(); }, "drift is nan"},
      {[](GeneratorParameters& p) { p.gate_decay = INFINITY; }, "gate_decay is inf"},
      {[](GeneratorParameters& p) { p.requests = p.prompt_tokens = p.output_tokens = 0xffffffff; },
       "below 16 GiB"},
      {[](GeneratorParameters& p) { p.layers = 0xffffffff; }, "below 16 GiB"},
      {[](GeneratorParameters& p) { p.requests = 5'000'000; }, "below 16 GiB"},
      {[](GeneratorParameters& p) {
         p.requests = 1'000'000;  // 3.3 GB of choices, and 16.3 more of scores
         p.prompt_tokens = p.output_tokens = 128;
         p.layers = 1;
         p.experts = 16;
         p.all_scores = true;
       },
       "below 16 GiB"},
      {[](GeneratorParameters& p) { p.first_request = 0xffffffff; },
       "first_request is 4294967295, but must be at most 4294967294 before"},
  };
  for (const Case& bad : cases) {
    GeneratorParameters p = small(4, 8, 2);
    bad.spoil(p);
    const std::string error = error_of([&] { generate_routing_trace(p); });
    CAPTURE(error);
    CHECK(error.find(bad.message) != std::string::npos);
  }
  GeneratorParameters p = small(0, 8, 2);
  p.skew = 11;
  const std::string both = error_of([&] { generate_routing_trace(p); });
  CHECK(both.find("layers is 0") != std::string::npos);
  CHECK(both.find("skew is 11") != std::string::npos);
}

struct LruCounter {
  std::vector<std::uint16_t> order;  // most recent first
  std::array<double, 4> hits{};      // with 4, 8, 16, 24 of 32 experts cached
  double uses = 0;

  void use(std::uint16_t id) {
    constexpr std::array<std::size_t, 4> kSizes{4, 8, 16, 24};
    const auto found = std::find(order.begin(), order.end(), id);
    if (found != order.end()) {
      const auto depth = static_cast<std::size_t>(found - order.begin());
      for (std::size_t i = 0; i < 4; ++i) hits[i] += depth < kSizes[i] ? 1 : 0;
      order.erase(found);
    }
    order.insert(order.begin(), id);
    ++uses;
  }
};

TEST_CASE("generator: the defaults are like the decoder that they were fitted to", "[long]") {
  GeneratorParameters p = small(24, 32, 4);
  p.requests = 60;
  p.prompt_tokens = 1;
  p.output_tokens = 363;  // the mean answer of the recorded set
  const RoutingTrace trace = generate_routing_trace(p);
  LruCounter lru;
  double top_quarter = 0;
  double used_before = 0;
  double uses_after_first = 0;
  for (std::uint32_t layer = 0; layer < 24; ++layer) {
    const std::vector<double> shares = inclusion(trace, layer);
    top_quarter += std::accumulate(shares.begin(), shares.begin() + 8, 0.0) / 4 / 24;
    for (const TraceRequest& request : trace.requests()) {
      lru.order.clear();
      for (std::uint64_t token = request.begin; token < request.end; ++token) {
        for (const std::uint16_t id : trace.experts_of(token, layer)) {
          lru.use(id);
          if (token == request.begin) continue;
          const auto before = trace.experts_of(token - 1, layer);
          used_before += std::find(before.begin(), before.end(), id) != before.end() ? 1 : 0;
          ++uses_after_first;
        }
      }
    }
  }
  // gpt-oss-20b, 360 recorded answers: busiest quarter 0.49, used by the token before 0.44, LRU hit rates
  // 0.35, 0.62, 0.87 and 0.97 with 12.5, 25, 50 and 75 % of a layer's experts cached.
  CHECK(top_quarter == Approx(0.49).margin(0.04));
  CHECK(used_before / uses_after_first == Approx(0.44).margin(0.03));
  CHECK(lru.hits[0] / lru.uses == Approx(0.35).margin(0.03));
  CHECK(lru.hits[1] / lru.uses == Approx(0.62).margin(0.03));
  CHECK(lru.hits[2] / lru.uses == Approx(0.87).margin(0.06));
  CHECK(lru.hits[3] / lru.uses == Approx(0.97).margin(0.05));
}

}  // namespace

TEST_CASE("generator: a trace too large for memory is the same, row for row", "[long]") {
  GeneratorParameters p;
  p.layers = 26;
  p.experts = 64;
  p.top_k = 6;
  p.prompt_tokens = 100;
  p.output_tokens = 901;
  p.requests = 75;  // 936 bytes a row: 70 MB, in temporary files
  const RoutingTrace large = generate_routing_trace(p);
  p.requests = 3;
  const RoutingTrace small = generate_routing_trace(p);
  REQUIRE(large.tokens() == 75'000);
  large.release_rows(0, large.tokens());  // and what was given back is read again
  bool same = true;
  for (std::uint64_t row = 0; row < small.tokens(); ++row)
    for (std::uint32_t layer = 0; layer < p.layers; ++layer)
      same = same && std::ranges::equal(large.experts_of(row, layer), small.experts_of(row, layer)) &&
             std::ranges::equal(large.scores_of(row, layer), small.scores_of(row, layer)) &&
             large.phase_of(row) == small.phase_of(row);
  CHECK(same);
}

}  // namespace moelab::generator_test
