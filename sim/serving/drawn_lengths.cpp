#include "sim/serving/drawn_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/scenario/workload_config.hpp"
#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

// Streams of random numbers, each with one for every request.
constexpr std::uint64_t kClassStream = 0xbb67ae8584caa73b;
constexpr std::uint64_t kPromptStream = 0x3c6ef372fe94f82b;
constexpr std::uint64_t kOutputStream = 0xa54ff53a5f1d36f1;
constexpr std::uint64_t kTurnStream = 0x9b05688c2b3e6c1f;

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

namespace {

/// The request's own words, or the first ones of a conversation, and its answer.
DrawnLengths draw_lengths(const WorkloadConfig& w, std::uint16_t of_class, std::uint64_t seed,
                          std::uint64_t number) {
  const RequestClass& of = w.mix[of_class];
  Random prompt(seed, kPromptStream, number), output(seed, kOutputStream, number);
  DrawnLengths one{.of_class = of_class};
  if (of.lengths.empty()) {
    one.prompt_tokens = draw_tokens(of.prompt, prompt);
    one.output_tokens = draw_tokens(of.output, output);
  } else {
    const RequestRecord& like = of.lengths[prompt.below(of.lengths.size())];
    one.prompt_tokens = like.prompt_tokens;
    one.output_tokens = like.output_tokens;
  }
  return one;
}

/// Adds the other turns of the conversation that the last request begins.
void draw_turns(const WorkloadConfig& w, std::uint64_t seed, std::vector<DrawnLengths>& drawn) {
  const std::uint16_t of_class = drawn.back().of_class;
  const std::optional<Conversations>& all = w.mix[of_class].conversations;
  if (!all) return;
  Random random(seed, kTurnStream, drawn.size() - 1);
  const std::uint64_t most = all->most > 0 ? all->most : std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t left = draw_tokens(all->turns, random) - 1; left > 0 && drawn.size() < w.requests;
       --left) {
    DrawnLengths turn = draw_lengths(w, of_class, seed, drawn.size());
    const std::uint64_t before = std::uint64_t{drawn.back().prompt_tokens} + drawn.back().output_tokens;
    if (before + turn.prompt_tokens + turn.output_tokens > most) return;
    turn.said_before = static_cast<std::uint32_t>(before);
    turn.prompt_tokens += turn.said_before;
    drawn.push_back(turn);
  }
}

}  // namespace

std::vector<DrawnLengths> drawn_lengths(const WorkloadConfig& w, std::uint64_t seed) {
  std::vector<DrawnLengths> drawn;
  if (w.mix.empty()) return drawn;
  const std::vector<double> ends = share_ends(w.mix);
  drawn.reserve(w.requests);
  while (drawn.size() < w.requests) {
    const double u = Random(seed, kClassStream, drawn.size()).uniform();
    const auto place = std::upper_bound(ends.begin(), ends.end(), u) - ends.begin();
    drawn.push_back(draw_lengths(w, static_cast<std::uint16_t>(place), seed, drawn.size()));
    drawn.back().prompt_tokens += w.mix[static_cast<std::size_t>(place)].shared_prefix;
    draw_turns(w, seed, drawn);
  }
  return drawn;
}

}  // namespace moelab
