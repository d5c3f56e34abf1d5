#include "sim/serving/drawn_lengths.hpp"

#include <algorithm>
#include <cmath>

#include "sim/scenario/workload_config.hpp"
#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

// Streams of random numbers, each with one for every request.
constexpr std::uint64_t kClassStream = 0xbb67ae8584caa73b;
constexpr std::uint64_t kPromptStream = 0x3c6ef372fe94f82b;
constexpr std::uint64_t kOutputStream = 0xa54ff53a5f1d36f1;

/// Ends of the classes' parts of [0, 1).
std::vector<double> share_ends(const std::vector<RequestClass>& mix) {
  std::vector<double> ends;
  for (const RequestClass& of : mix) ends.push_back((ends.empty() ? 0 : ends.back()) + of.share);
  ends.back() = 1;
  return ends;
}

}  // namespace

std::uint32_t draw_tokens(const TokenLaw& law, Random& random) {
  if (law.kind == TokenLaw::Kind::uniform)
    return law.least + static_cast<std::uint32_t>(random.below(std::uint64_t{law.most} - law.least + 1));
  constexpr double kLargest = 100;  // of a logarithm: far beyond any limit
  const double at = portable_log(law.median) + law.sigma * Normal::instance().draw(random);
  const double tokens = std::round(portable_exp(std::min(at, kLargest)));
  return static_cast<std::uint32_t>(std::clamp(tokens, double(law.least), double(law.most)));
}

std::vector<DrawnLengths> drawn_lengths(const WorkloadConfig& w, std::uint64_t seed) {
  std::vector<DrawnLengths> drawn;
  if (w.mix.empty()) return drawn;
  const std::vector<double> ends = share_ends(w.mix);
  drawn.reserve(w.requests);
  for (std::uint64_t i = 0; i < w.requests; ++i) {
    const double u = Random(seed, kClassStream, i).uniform();
    const auto place = std::upper_bound(ends.begin(), ends.end(), u) - ends.begin();
    const RequestClass& of = w.mix[static_cast<std::size_t>(place)];
    Random prompt(seed, kPromptStream, i), output(seed, kOutputStream, i);
    DrawnLengths& one = drawn.emplace_back();
    one.of_class = static_cast<std::uint16_t>(place);
    if (of.lengths.empty()) {
      one.prompt_tokens = draw_tokens(of.prompt, prompt);
      one.output_tokens = draw_tokens(of.output, output);
    } else {
      const RequestRecord& like = of.lengths[prompt.below(of.lengths.size())];
      one.prompt_tokens = like.prompt_tokens;
      one.output_tokens = like.output_tokens;
    }
  }
  return drawn;
}

}  // namespace moelab
