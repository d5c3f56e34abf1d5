#include "traces/counts_routing.hpp"

#include <algorithm>
#include <utility>

#include "models/input_error.hpp"
#include "models/units.hpp"
#include "traces/random.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kMostRoutingBytes = std::uint64_t{16} << 30;

// So that no sum or multiple of a layer's weights overflows.
constexpr double kMostWeight = 1e300;

// Apart from the generator's streams of requests and of its model.
constexpr std::uint64_t kStream = 0x3c6ef372fe94f82b;

Problem problem(std::string what) {
  return {"routing by counts", 0, 0, std::move(what)};
}

bool fits_memory(const CountsRouting& p) {
  std::uint64_t bytes = 0;
  return !__builtin_mul_overflow(std::uint64_t{p.layers} * p.top_k, p.tokens, &bytes) &&
         bytes < kMostRoutingBytes / sizeof(std::uint16_t);
}

void check(const CountsRouting& p) {
  Problems problems;
  const auto need = [&](bool good, const char* name, const std::string& value, const std::string& range) {
    if (!good) problems.add(problem(std::string(name) + " is " + value + ", but must be " + range));
  };
  need(p.layers >= 1, "layers", std::to_string(p.layers), "at least 1");
  need(p.experts >= 1 && p.experts <= kNoExpert, "experts", std::to_string(p.experts), "between 1 and 65535");
  need(p.top_k >= 1 && p.top_k <= std::max(p.experts, 1U), "top_k", std::to_string(p.top_k),
       "between 1 and the number of experts, " + std::to_string(p.experts));
  need(p.tokens >= 1, "tokens", std::to_string(p.tokens), "at least 1");
  need(p.reuse >= 0 && p.reuse <= 1, "reuse", shortest_text(p.reuse), "between 0 and 1");
  problems.throw_if_any();
  need(fits_memory(p), "the trace's size (tokens * layers * top_k)", "too large", "below 16 GiB in all");
  problems.throw_if_any();
}

/// What is wrong with a layer's weights; "" where nothing is.
std::string weights_problem(std::span<const double> weights, std::uint32_t top_k) {
  std::size_t some = 0;
  for (std::size_t expert = 0; expert < weights.size(); ++expert) {
    if (!(weights[expert] >= 0 && weights[expert] <= kMostWeight))
      return "the weight of expert " + std::to_string(expert) + " is " + shortest_text(weights[expert]) +
             ", but must be between 0 and " + shortest_text(kMostWeight);
    some += weights[expert] > 0;
  }
  if (some >= top_k) return "";
  return std::to_string(some) + " of " + std::to_string(weights.size()) +
         " experts have a weight above 0, but a token takes " + std::to_string(top_k) +
         " different ones: weights must be counts of at least one token of a model with this top-k";
}

void check_weights(const CountsRouting& p, std::span<const double> weights) {
  const std::uint64_t due = std::uint64_t{p.layers} * p.experts;
  if (weights.size() != due)
    throw InputError(
        {problem("there are " + std::to_string(weights.size()) + " weights, but " + std::to_string(p.layers) +
                 " layers of " + std::to_string(p.experts) + " experts need " + std::to_string(due))});
  Problems problems;
  for (std::uint32_t layer = 0; layer < p.layers; ++layer) {
    const std::string what =
        weights_problem(weights.subspan(std::size_t{layer} * p.experts, p.experts), p.top_k);
    if (!what.empty()) problems.add(problem("layer " + std::to_string(layer) + ": " + what));
  }
  problems.throw_if_any();
}

/// The rows of one layer.
class CountedRows {
 public:
  CountedRows(std::span<const double> weights, const CountsRouting& p, std::uint32_t layer)
      : reuse_(p.reuse), row_(p.top_k), random_(p.seed, layer, kStream) {
    const std::vector<double> chances = inclusion_probabilities(weights, p.top_k);
    for (std::uint32_t expert = 0; expert < chances.size(); ++expert) {
      if (chances[expert] == 1)
        row_[always_++] = static_cast<std::uint16_t>(expert);
      else if (chances[expert] > 0)
        others_.push_back({chances[expert], static_cast<std::uint16_t>(expert)});
    }
  }

  /// The next token's experts.
  std::span<const std::uint16_t> next() {
    const bool again = random_.uniform() < reuse_ && !first_;
    if (!again) draw();
    first_ = false;
    return row_;
  }

 private:
  struct Other {
    double chance = 0;
    std::uint16_t expert = 0;
  };

  // The lengths add up to a whole number but for rounding, which must not cost a place or give one too many:
  // an expert is hit once at most, and when as many are left as places, they are taken.
  void draw() {
    random_.shuffle(std::span(others_));
    const std::size_t due = row_.size() - always_;
    double step = random_.uniform();
    double end = 0;
    std::size_t taken = 0;
    for (std::size_t i = 0; taken < due; ++i) {
      end += others_[i].chance;
      if (end <= step && others_.size() - i > due - taken) continue;
      row_[always_ + taken++] = others_[i].expert;
      step += 1;
    }
  }

  double reuse_;
  std::vector<std::uint16_t> row_;
  std::size_t always_ = 0;     // places of the row that are the same for all tokens, the first ones
  std::vector<Other> others_;  // the experts that take the rest of the places, in the order of the row
  Random random_;
  bool first_ = true;
};

std::string provenance(const CountsRouting& p) {
  return "synthetic: moelab routing by counts 1, seed " + std::to_string(p.seed) + ", reuse " +
         shortest_text(p.reuse) + (p.source.empty() ? "" : ", weights: " + p.source);
}

std::string name_of(const CountsTrace& counts) {
  return counts.model().empty() ? "counts" : "counts of " + counts.model();
}

}  // namespace

std::vector<double> inclusion_probabilities(std::span<const double> weights, std::uint32_t top_k) {
  if (const std::string what = weights_problem(weights, top_k); !what.empty())
    throw InputError({problem(what)});
  std::vector<std::pair<double, std::size_t>> heaviest;
  for (std::size_t expert = 0; expert < weights.size(); ++expert)
    heaviest.push_back({weights[expert], expert});
  std::sort(heaviest.rbegin(), heaviest.rend());
  std::vector<double> tail(heaviest.size() + 1);  // [i]: sum of the weights from place i on, smallest first
  for (std::size_t i = heaviest.size(); i-- > 0;) tail[i] = tail[i + 1] + heaviest[i].first;
  std::vector<double> chances(weights.size());
  std::uint32_t places = top_k;  // that are not taken by experts of chance 1
  std::size_t i = 0;
  for (; places > 0 && places * heaviest[i].first >= tail[i]; ++i, --places) chances[heaviest[i].second] = 1;
  const double rest = tail[i];
  for (; places > 0 && i < heaviest.size(); ++i)
    chances[heaviest[i].second] = places * heaviest[i].first / rest;
  return chances;
}

RoutingTrace draw_routing(const CountsRouting& parameters, std::span<const double> weights) {
  const CountsRouting& p = parameters;
  check(p);
  check_weights(p, weights);
  std::vector<CountedRows> layers;
  layers.reserve(p.layers);
  for (std::uint32_t layer = 0; layer < p.layers; ++layer)
    layers.emplace_back(weights.subspan(std::size_t{layer} * p.experts, p.experts), p, layer);
  RoutingTraceBuilder builder(p.model, provenance(p), true, p.layers, p.experts, p.top_k, false);
  builder.reserve(p.tokens);
  builder.begin_request();
  std::vector<std::uint16_t> ids(std::size_t{p.layers} * p.top_k);
  for (std::uint64_t token = 0; token < p.tokens; ++token) {
    auto place = ids.begin();
    for (CountedRows& layer : layers) place = std::ranges::copy(layer.next(), place).out;
    builder.add_token(Phase::prefill, ids, {});
  }
  return builder.finish();
}

RoutingTrace draw_routing(const CountsRouting& parameters, const CountsTrace& counts,
                          std::string_view domain) {
  if (counts.layers() != parameters.layers || counts.experts() != parameters.experts)
    throw InputError(name_of(counts), "they are of " + std::to_string(counts.layers()) + " layers of " +
                                          std::to_string(counts.experts()) + " experts, but the model has " +
                                          std::to_string(parameters.layers) + " MoE layers of " +
                                          std::to_string(parameters.experts) +
                                          ": expected counts of this model");
  CountsRouting p = parameters;
  p.source = name_of(counts) + (domain.empty() ? "" : ", domain ") + std::string(domain);
  return draw_routing(p, domain_weights(counts, domain));
}

std::vector<double> domain_weights(const CountsTrace& counts, std::string_view domain) {
  const std::vector<std::string>& domains = counts.domains();
  const auto found = std::find(domains.begin(), domains.end(), domain);
  if (!domain.empty() && found == domains.end())
    throw InputError(name_of(counts),
                     "no domain '" + std::string(domain) + "'" + suggestion(domain, domains));
  std::vector<double> weights(std::size_t{counts.layers()} * counts.experts());
  for (std::uint64_t prompt = 0; prompt < counts.prompts(); ++prompt) {
    if (!domain.empty() && counts.domain_of(prompt) != found - domains.begin()) continue;
    auto weight = weights.begin();
    for (std::uint32_t layer = 0; layer < counts.layers(); ++layer)
      for (const std::uint64_t count : counts.counts(prompt, layer)) *weight++ += static_cast<double>(count);
  }
  return weights;
}

}  // namespace moelab
