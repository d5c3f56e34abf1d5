#include "policies/check/trial.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "policies/guard/policy_error.hpp"

namespace moelab {
namespace {

/// Another seed for each instance, so that one can be played alone.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t instance) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15 * (instance + 1);  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double draw_parameter(Draws& draws, const PolicyParameter& p) {
  const std::uint32_t kind = draws.below(6);
  if (kind == 0 && std::isfinite(p.low)) return p.low;
  if (kind == 1 && std::isfinite(p.high)) return p.high;
  if (kind > 3 || !std::isfinite(p.low) || !std::isfinite(p.high)) return p.default_value;
  // Near the default where the range is wide: what lies between there and a far bound is all the same.
  const double high = std::min(p.high, std::max(2 * p.default_value, p.low + 1));
  const double value = draws.uniform(p.low, high);
  const bool count = p.low == std::floor(p.low) && p.default_value == std::floor(p.default_value);
  return count ? std::clamp(std::round(value), p.low, p.high) : value;
}

PolicyParameters draw_parameters(Draws& draws, const PolicyInfo& info) {
  PolicyParameters parameters;
  for (const PolicyParameter& p : info.parameters)
    if (const double value = draw_parameter(draws, p); value != p.default_value)
      parameters.emplace(p.name, value);
  return parameters;
}

/// Nothing where the policy refused the instance, which `why` then says.
std::optional<AnswerDigest> play_once(const PolicyInfo& info, const CheckOptions& options,
                                      std::uint64_t instance, const std::function<void(Trial&)>& play,
                                      std::string& why) {
  Draws draws(mixed(options.seed, instance));
  Trial trial{.draws = draws, .smallest = instance < 2, .usual = instance % 3 == 0};
  if (!trial.usual) trial.parameters = draw_parameters(draws, info);
  try {
    play(trial);
  } catch (const PolicyError&) {
    throw;
  } catch (const InputError& error) {
    why = error.what();
    return std::nullopt;
  }
  return trial.answers;
}

}  // namespace

std::vector<std::uint32_t> Draws::subset(std::uint32_t n, std::uint32_t count) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < n; ++i)
    if (below(n - i) < count - numbers.size()) numbers.push_back(i);
  return numbers;
}

void AnswerDigest::add(std::uint64_t answer) {
  value_ = (value_ ^ answer) * 0x100000001b3;
  value_ ^= value_ >> 29;
}

void AnswerDigest::add(double answer) {
  add(std::bit_cast<std::uint64_t>(answer));
}

PolicyCheck play_trials(const char* family, const PolicyInfo& info, const CheckOptions& options,
                        const std::function<void(Trial&)>& play) {
  PolicyCheck check{.policy = std::string(info.name), .family = family};
  std::string why;
  for (std::uint64_t instance = 0; instance < options.instances; ++instance) {
    if (options.begins) options.begins(instance);
    ++check.instances;
    const std::string which = "instance " + std::to_string(instance) + ": ";
    try {
      const std::optional<AnswerDigest> first = play_once(info, options, instance, play, why);
      const std::optional<AnswerDigest> second = play_once(info, options, instance, play, why);
      if (!first) ++check.refused;
      if (first != second) check.broken = which + "answers otherwise when it is asked the same again";
    } catch (const PolicyError& error) {
      check.broken = which + error.what();
    }
    if (!check.broken.empty()) return check;
  }
  if (check.refused == check.instances && check.instances > 0)
    check.broken = "it refuses every instance, the last one so: " + why;
  return check;
}

std::vector<float> draw_scores(Draws& draws, std::uint32_t experts) {
  std::vector<double> weights(experts);
  const double spread = draws.uniform(0, 4);
  for (double& weight : weights) weight = std::exp(spread * draws.uniform(-1, 1));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<float> scores;
  for (const double weight : weights) scores.push_back(static_cast<float>(weight / sum));
  return scores;
}

std::vector<std::uint16_t> best_scored(std::span<const float> scores, std::uint32_t k) {
  std::vector<std::uint16_t> experts(scores.size());
  std::iota(experts.begin(), experts.end(), std::uint16_t{0});
  std::stable_sort(experts.begin(), experts.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
  experts.resize(k);
  return experts;
}

}  // namespace moelab
