#include "traces/generator.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "models/input_error.hpp"
#include "models/units.hpp"
#include "traces/alias_table.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 30;

// Stream of the draws that belong to the model, not to a request (requests are numbered from 0, in 32 bits).
constexpr std::uint64_t kModelStream = ~std::uint64_t{0};

// Added to a layer's number: the stream of the experts that are not chosen (layers are numbered in 32 bits).
constexpr std::uint64_t kOthersStream = std::uint64_t{1} << 32;

// How far chance moves an expert from its place in the order of scores, in rows' lengths: kept experts come
// before drawn ones, but not by much. 3 gives the mild preference of gpt-oss-20b, whose share of experts
// kept from the token before falls from 0.52 at the first place to 0.34 at the fourth.
constexpr double kOrderNoise = 3;

// After so many draws of experts that the row already has, the row is completed by a race, which takes time
// in all experts but cannot last. Both draw from the same distribution.
constexpr int kMaxRedraws = 32;

using Lengths = GeneratorParameters::Lengths;

std::uint32_t number_of_requests(const GeneratorParameters& p) {
  return p.lengths.empty() ? p.requests : static_cast<std::uint32_t>(p.lengths.size());
}

Lengths lengths_of(const GeneratorParameters& p, std::uint32_t request) {
  return p.lengths.empty() ? Lengths{p.prompt_tokens, p.output_tokens} : p.lengths[request];
}

std::uint64_t rows_of(const GeneratorParameters& p, const Lengths& lengths) {
  return lengths.prompt_tokens + std::uint64_t{lengths.output_tokens} - (p.encoder_layers > 0 ? 0 : 1);
}

// Of the longest request.
std::uint64_t most_rows(const GeneratorParameters& p) {
  std::uint64_t most = rows_of(p, lengths_of(p, 0));
  for (const Lengths& lengths : p.lengths) most = std::max(most, rows_of(p, lengths));
  return most;
}

// Of all requests; beyond any limit where they cannot be counted.
std::uint64_t all_rows(const GeneratorParameters& p) {
  std::uint64_t rows = 0;
  bool beyond = p.lengths.empty() && __builtin_mul_overflow(most_rows(p), std::uint64_t{p.requests}, &rows);
  for (const Lengths& lengths : p.lengths)
    beyond = beyond || __builtin_add_overflow(rows, rows_of(p, lengths), &rows);
  return beyond ? ~std::uint64_t{0} : rows;
}

// Whether the trace and one request more (the one being made) fit the limit.
bool fits_memory(const GeneratorParameters& p) {
  const std::uint64_t layer =
      p.top_k * (sizeof(std::uint16_t) + sizeof(float)) + (p.all_scores ? p.experts * sizeof(float) : 0);
  std::uint64_t row = 0, rows = 0, bytes = 0;
  return !__builtin_mul_overflow(std::uint64_t{p.layers}, layer, &row) &&
         !__builtin_add_overflow(all_rows(p), most_rows(p), &rows) &&
         !__builtin_mul_overflow(rows, row + 1, &bytes) && bytes < kMaxBytes &&
         !__builtin_add_overflow(bytes, (std::uint64_t{number_of_requests(p)} + 1) * sizeof(TraceRequest),
                                 &bytes) &&
         bytes < kMaxBytes;
}

void check(const GeneratorParameters& p) {
  Problems problems;
  const auto need = [&](bool good, const char* name, const std::string& value, const std::string& range) {
    if (good) return;
    std::string what = name;
    what += " is " + value + ", but must be " + range;
    problems.add({"trace generator", 0, 0, std::move(what)});
  };
  const auto need_between = [&](double value, const char* name, double most) {
    need(value >= 0 && value <= most, name, shortest_text(value), "between 0 and " + shortest_text(most));
  };
  const auto need_some = [&](std::uint32_t value, const char* name) {
    need(value >= 1, name, std::to_string(value), "at least 1");
  };
  need_some(p.layers, "layers");
  need(p.encoder_layers < p.layers || p.layers == 0, "encoder_layers", std::to_string(p.encoder_layers),
       "less than the " + std::to_string(p.layers) + " layers");
  need(p.experts >= 1 && p.experts <= kNoExpert, "experts", std::to_string(p.experts), "between 1 and 65535");
  need(p.top_k >= 1 && p.top_k <= std::max(p.experts, 1U), "top_k", std::to_string(p.top_k),
       "between 1 and the number of experts, " + std::to_string(p.experts));
  const std::uint32_t requests = number_of_requests(p), most_before = ~std::uint32_t{0} - requests;
  need_some(requests, "requests");
  need(p.first_request <= most_before, "first_request", std::to_string(p.first_request),
       "at most " + std::to_string(most_before) + " before that many requests");
  Lengths least = lengths_of(p, 0);
  for (const Lengths& lengths : p.lengths) {
    least.prompt_tokens = std::min(least.prompt_tokens, lengths.prompt_tokens);
    least.output_tokens = std::min(least.output_tokens, lengths.output_tokens);
  }
  need_some(least.prompt_tokens, "prompt_tokens");
  need_some(least.output_tokens, "output_tokens");
  need_between(p.skew, "skew", 10);
  need_between(p.reuse, "reuse", 1);
  need_between(p.drift, "drift", 1);
  need_between(p.gate_decay, "gate_decay", 20);
  problems.throw_if_any();
  need(fits_memory(p), "the trace's size (requests * tokens * layers * top_k)", "too large",
       "below 16 GiB in all");
  problems.throw_if_any();
}

/// Scores of a row: 1, then each lower than the one before by a factor exp(-gate_decay * E), E exponential of
/// mean 1, then scaled to sum 1. In gpt-oss-20b the logarithms of the ratios of neighbours have a standard
/// deviation of 0.89 to 0.96 of their mean, as an exponential law (1) has within its measure.
class GateShape {
 public:
  GateShape(double decay, std::uint32_t experts, std::uint32_t top_k) : gaps_(experts - top_k) {
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      logs_[i] = portable_log((static_cast<double>(i) + 0.5) / static_cast<double>(factors_.size()));
      factors_[i] = portable_exp(decay * logs_[i]);
    }
    const double n = experts;
    const auto logistic = [n](std::uint32_t above) { return n / (above * (n - above)); };
    double chosen = 0;  // mean gap of the chosen experts; of one alone that to the next
    const std::uint32_t gaps = top_k > 1 ? top_k - 1 : 1;
    for (std::uint32_t above = 1; above <= gaps && above < experts; ++above) chosen += logistic(above) / gaps;
    for (std::size_t i = 0; i < gaps_.size(); ++i)
      gaps_[i] = decay * logistic(top_k + static_cast<std::uint32_t>(i)) / chosen;
  }

  void fill(std::span<float> scores, Random& random) {
    raw_.resize(scores.size());
    double score = 1;
    double sum = 0;
    for (double& raw : raw_) {
      raw = score;
      sum += score;
      score *= factors_[random.next() >> (64 - kQuantileBits)];
    }
    const double scale = 1 / sum;
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(raw_[i] * scale);
  }

  /// Of all experts, after fill(): `order` has the others, best first, `ids` the chosen ones.
  void fill_all(std::span<const std::uint16_t> ids, std::span<const std::uint32_t> order,
                std::span<float> scores, Random& random) {
    double sum = 0;
    for (const double raw : raw_) sum += raw;
    others_.resize(order.size());
    double score = raw_.back();
    for (std::size_t i = 0; i < others_.size(); ++i) {
      score *= portable_exp(gaps_[i] * logs_[random.next() >> (64 - kQuantileBits)]);
      others_[i] = score;
      sum += score;
    }
    const double scale = 1 / sum;
    for (std::size_t i = 0; i < ids.size(); ++i) scores[ids[i]] = static_cast<float>(raw_[i] * scale);
    for (std::size_t i = 0; i < order.size(); ++i) scores[order[i]] = static_cast<float>(others_[i] * scale);
  }

 private:
  static constexpr int kQuantileBits = 10;
  std::array<double, std::size_t{1} << kQuantileBits> logs_{};     // of quantiles
  std::array<double, std::size_t{1} << kQuantileBits> factors_{};  // of neighbours among the chosen
  std::vector<double> gaps_;  // mean gap of logarithms above each of the others
  std::vector<double> raw_, others_;
};

/// The rows of one layer, one request after the other.
class LayerRows {
 public:
  explicit LayerRows(const GeneratorParameters& p)
      : parameters_(p),
        law_(p.experts),
        weights_(p.experts),
        order_(p.experts),
        row_of_(p.experts),
        gate_(p.gate_decay, p.experts, p.top_k) {
    double sum = 0;
    for (std::uint32_t rank = 0; rank < p.experts; ++rank) {
      law_[rank] = portable_exp(-p.skew * portable_log(rank + 1.0));
      sum += law_[rank];
    }
    for (double& share : law_) share /= sum;
  }

  void begin(std::uint32_t layer, std::uint32_t request) {
    std::fill(weights_.begin(), weights_.end(), 0.0);
    Random model(parameters_.seed, layer, kModelStream);
    add_popularity(1 - parameters_.drift, model);
    random_ = Random(parameters_.seed, layer, request);
    add_popularity(parameters_.drift, random_);
    others_random_ = Random(parameters_.seed, layer + kOthersStream, request);
    table_.build(weights_);
    row_.clear();
  }

  /// The next token's experts and scores.
  void next(std::span<std::uint16_t> ids, std::span<float> scores) {
    std::swap(row_, before_);
    row_.clear();
    ++number_;
    for (const Place& place : before_) {
      if (random_.uniform() < parameters_.reuse) take(place.expert);
    }
    int redraws = 0;
    while (row_.size() < parameters_.top_k) {
      const std::uint32_t expert = table_.draw(random_);
      if (row_of_[expert] != number_) {
        take(expert);
      } else if (++redraws == kMaxRedraws) {
        race();
      }
    }
    std::sort(row_.begin(), row_.end());
    for (std::size_t i = 0; i < row_.size(); ++i) ids[i] = static_cast<std::uint16_t>(row_[i].expert);
    gate_.fill(scores, random_);
  }

  /// The scores of all experts for that token.
  void all_scores(std::span<const std::uint16_t> ids, std::span<float> scores) {
    arrivals(others_random_);
    std::sort(arrivals_.begin(), arrivals_.end());
    others_.clear();
    for (const Place& place : arrivals_) others_.push_back(place.expert);
    gate_.fill_all(ids, others_, scores, others_random_);
  }

 private:
  struct Place {
    double key = 0;
    std::uint32_t expert = 0;
    auto operator<=>(const Place&) const = default;
  };

  // Popularity (rank + 1)^-skew over a random order of the experts.
  void add_popularity(double share, Random& random) {
    for (std::uint32_t expert = 0; expert < order_.size(); ++expert) order_[expert] = expert;
    random.shuffle(std::span(order_));
    for (std::size_t rank = 0; rank < order_.size(); ++rank) weights_[order_[rank]] += share * law_[rank];
  }

  void take(std::uint32_t expert) {
    row_of_[expert] = number_;
    const double noise = kOrderNoise * static_cast<double>(parameters_.top_k) * random_.uniform();
    row_.push_back({static_cast<double>(row_.size()) + noise, expert});
  }

  // Of the experts that the row does not have. Drawing by weight without replacement orders experts as the
  // arrivals of independent exponential clocks whose rates are the weights (Efraimidis and Spirakis, IPL
  // 97(5), 2006).
  void arrivals(Random& random) {
    arrivals_.clear();
    for (std::uint32_t expert = 0; expert < weights_.size(); ++expert) {
      if (row_of_[expert] == number_) continue;
      arrivals_.push_back({-portable_log(1 - random.uniform()) / weights_[expert], expert});
    }
  }

  // Completes the row.
  void race() {
    arrivals(random_);
    const auto missing = static_cast<std::ptrdiff_t>(parameters_.top_k - row_.size());
    std::partial_sort(arrivals_.begin(), arrivals_.begin() + missing, arrivals_.end());
    for (std::ptrdiff_t i = 0; i < missing; ++i) take(arrivals_[static_cast<std::size_t>(i)].expert);
  }

  const GeneratorParameters& parameters_;
  std::vector<double> law_;            // [rank]: popularity, of sum 1
  std::vector<double> weights_;        // [expert]
  std::vector<std::uint32_t> order_;   // [rank]: expert, while weights are made
  std::vector<std::uint64_t> row_of_;  // [expert]: number of the last row that took it
  std::uint64_t number_ = 0;           // of this row, over all requests
  std::vector<Place> row_;
  std::vector<Place> before_;  // the row of the token before
  std::vector<Place> arrivals_;
  std::vector<std::uint32_t> others_;
  Random random_{0}, others_random_{0};
  AliasTable table_;
  GateShape gate_;
};

/// One request's rows, [rows, layers, top_k].
struct RequestRows {
  std::vector<std::uint16_t> ids;
  std::vector<float> scores;
  std::vector<float> all_scores;  // [rows, layers, experts], or empty

  /// Places of layers that do not run for a token stay as they are made here.
  void make(std::uint64_t number, const GeneratorParameters& p) {
    const std::size_t stride = std::size_t{p.layers} * p.top_k;
    ids.assign(number * stride, kNoExpert);
    scores.assign(number * stride, 0.0F);
    all_scores.assign(p.all_scores ? number * p.layers * p.experts : 0, 0.0F);
  }
};

// Layer by layer, so that one layer's tables stay in the first cache.
void fill_request(const GeneratorParameters& p, std::uint32_t request, const Lengths& lengths,
                  LayerRows& layer_rows, RequestRows& rows) {
  const std::size_t stride = std::size_t{p.layers} * p.top_k;
  for (std::uint32_t layer = 0; layer < p.layers; ++layer) {
    const bool in_prompt = p.encoder_layers == 0 || layer < p.encoder_layers;
    const bool in_decode = layer >= p.encoder_layers;
    const std::uint64_t begin = in_prompt ? 0 : lengths.prompt_tokens;
    const std::uint64_t end = in_decode ? rows_of(p, lengths) : lengths.prompt_tokens;
    layer_rows.begin(layer, request);
    for (std::uint64_t row = begin; row < end; ++row) {
      const std::size_t place = row * stride + std::size_t{layer} * p.top_k;
      const std::span<std::uint16_t> ids = std::span(rows.ids).subspan(place, p.top_k);
      layer_rows.next(ids, std::span(rows.scores).subspan(place, p.top_k));
      if (p.all_scores)
        layer_rows.all_scores(
            ids, std::span(rows.all_scores).subspan((row * p.layers + layer) * p.experts, p.experts));
    }
  }
}

std::string provenance(const GeneratorParameters& p) {
  return "synthetic: moelab trace generator 1, seed " + std::to_string(p.seed) + ", skew " +
         shortest_text(p.skew) + ", reuse " + shortest_text(p.reuse) + ", drift " + shortest_text(p.drift) +
         ", gate_decay " + shortest_text(p.gate_decay) +
         (p.first_request > 0 ? ", requests from number " + std::to_string(p.first_request) : "");
}

}  // namespace

RoutingTrace generate_routing_trace(const GeneratorParameters& parameters) {
  const GeneratorParameters& p = parameters;
  check(p);
  TraceDescription about;
  about.model = p.model;
  about.provenance = provenance(p);
  about.synthetic = true;
  about.layers = p.layers;
  about.experts = p.experts;
  about.top_k = p.top_k;
  about.gate_scores = true;
  if (p.all_scores) about.router_scores = RouterScores::softmax;
  RoutingTraceBuilder builder(about);
  builder.reserve(all_rows(p));
  LayerRows layer_rows(p);
  const std::size_t stride = std::size_t{p.layers} * p.top_k;
  const std::size_t all_stride = p.all_scores ? std::size_t{p.layers} * p.experts : 0;
  const std::uint64_t most = most_rows(p);
  RequestRows rows;
  const Phase prompt = p.encoder_layers > 0 ? Phase::encoder : Phase::prefill;
  for (std::uint32_t request = 0; request < number_of_requests(p); ++request) {
    const Lengths lengths = lengths_of(p, request);
    if (request == 0 || !p.lengths.empty()) rows.make(most, p);
    fill_request(p, p.first_request + request, lengths, layer_rows, rows);
    builder.begin_request();
    for (std::uint64_t row = 0; row < rows_of(p, lengths); ++row) {
      builder.add_token({.phase = row < lengths.prompt_tokens ? prompt : Phase::decode,
                         .ids = std::span(rows.ids).subspan(row * stride, stride),
                         .gate_scores = std::span(rows.scores).subspan(row * stride, stride),
                         .router_scores = std::span(rows.all_scores).subspan(row * all_stride, all_stride),
                         .candidate_ids = {},
                         .lookahead_ids = {}});
    }
  }
  return builder.finish();
}

}  // namespace moelab
