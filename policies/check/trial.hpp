// What the checks of all families share: draws, a digest of answers, and how instances are played.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "policies/check/policy_check.hpp"

namespace moelab {

/// The same on every machine, which the standard's distributions are not.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  std::uint64_t bits() { return random_(); }
  /// 0 .. n - 1
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  /// low .. high
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  /// Different numbers below n, ascending; `count` of them, at most n.
  std::vector<std::uint32_t> subset(std::uint32_t n, std::uint32_t count);

 private:
  std::mt19937_64 random_;
};

/// Of the answers of a policy: equal where they are.
class AnswerDigest {
 public:
  void add(std::uint64_t answer);
  void add(double answer);
  template <class Answers>
  void add_all(const Answers& answers) {
    add(std::uint64_t{answers.size()});
    for (const auto answer : answers) add(static_cast<std::uint64_t>(answer));
  }
  bool operator==(const AnswerDigest&) const = default;

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// One instance.
struct Trial {
  Draws& draws;
  bool smallest = false;  // as small as can be
  bool usual = false;     // the parameters are the defaults
  PolicyParameters parameters = {};
  AnswerDigest answers = {};
};

inline constexpr GuardOptions kClosely{.closely = true, .layer = {}};

/// Plays `play` on options.instances instances, each twice. It throws PolicyError where a rule is broken, and
/// InputError where the policy refuses the instance.
PolicyCheck play_trials(const char* family, const PolicyInfo& info, const CheckOptions& options,
                        const std::function<void(Trial&)>& play);

/// Scores of all experts as a gate's softmax gives them.
std::vector<float> draw_scores(Draws& draws, std::uint32_t experts);
/// The `k` experts of the greatest scores, the greatest first.
std::vector<std::uint16_t> best_scored(std::span<const float> scores, std::uint32_t k);

}  // namespace moelab
