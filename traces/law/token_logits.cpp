#include "traces/law/token_logits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/portable_math.hpp"

namespace moelab {
namespace {

using Floats [[gnu::vector_size(4 * TokenLogits::kTogether)]] = float;
using Integers [[gnu::vector_size(4 * TokenLogits::kTogether)]] = std::int32_t;
constexpr std::size_t kAnyNumber = ~std::size_t{0};  // of spans, known only when the program runs

/// Neighbours in memory, of any alignment.
template <class Values>
struct [[gnu::packed, gnu::may_alias]] Stored {
  Values values;
};
[[gnu::always_inline]] inline void load(Floats& to, const float* from) {
  to = reinterpret_cast<const Stored<Floats>*>(from)->values;
}
[[gnu::always_inline]] inline void store(float* to, const Floats& from) {
  reinterpret_cast<Stored<Floats>*>(to)->values = from;
}
/// Two normal numbers to each of the experts, 16 bits each, which are 2^16 times as large as floats.
[[gnu::always_inline]] inline void load(Integers& to, const std::int16_t* from) {
  to = reinterpret_cast<const Stored<Integers>*>(from)->values;
}
[[gnu::always_inline]] inline void take(Floats& to, const Integers& pairs, bool first) {
  to = __builtin_convertvector(first ? pairs << 16 : pairs & -65536, Floats);
}
constexpr double kTaken = 65536;

}  // namespace

TokenLogits::TokenLogits(const RoutingLaw& law, std::uint32_t begin, std::uint32_t end)
    : layers_(end - begin),
      experts_(law.experts),
      width_((law.experts + kTogether - 1) / kTogether * kTogether),
      step_(&TokenLogits::step_anywhere) {
  const std::span layers = std::span(law.layers).subspan(begin, layers_);
  std::vector<std::size_t> drawn;
  std::vector<double> fresh;
  for (std::size_t i = 0; i < law.span_tokens.size(); ++i) {
    if (std::all_of(layers.begin(), layers.end(), [&](const LayerLaw& l) { return l.spans[i] == 0; }))
      continue;
    const double rho = portable_exp(-1 / law.span_tokens[i]);
    drawn.push_back(i);
    fresh.push_back(std::sqrt(1 - rho * rho));
    carry_.push_back(static_cast<float>(rho));
    start_.push_back(static_cast<float>(1 / fresh.back()));
  }
  spans_ = drawn.size();
  for (const LayerLaw& layer : layers) {
    const double kept = &layer == &layers[0] ? 0 : layer.coupling;
    coefficients_.push_back(static_cast<float>(kept));
    coefficients_.push_back(
        static_cast<float>(std::sqrt(1 - kept * kept) / (kTaken * WalshNormals::kDeviation)));
    double rest = 1 - layer.domain - layer.prompt;
    for (const double span : layer.spans) rest -= span;
    for (std::size_t i = 0; i < spans_; ++i)
      coefficients_.push_back(static_cast<float>(std::sqrt(layer.spans[drawn[i]]) * fresh[i]));
    coefficients_.push_back(static_cast<float>(std::sqrt(std::max(0.0, rest))));
  }
  common_.assign(layers_ * width_, -std::numeric_limits<float>::infinity());
  logits_ = common_;
  terms_.resize(layers_ * width_ * spans_);
  fresh_.resize((spans_ + 1) * kTogether);
  normals_.resize(normals_together() + WalshNormals::kBlock);
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) step_ = &TokenLogits::step_avx2;
#endif
}

void TokenLogits::begin_request(std::span<const float> common, const Random& random) {
  for (std::size_t l = 0; l < layers_; ++l)
    std::copy_n(common.begin() + static_cast<std::ptrdiff_t>(l * experts_), experts_,
                common_.begin() + static_cast<std::ptrdiff_t>(l * width_));
  source_ = WalshNormals(random);
  next_ = left_ = 0;
  first_ = true;
}

void TokenLogits::next() {
  (this->*step_)();
  first_ = false;
}

/// Enough normal numbers for kTogether experts of all layers.
[[gnu::always_inline]] inline void TokenLogits::refill() {
  const std::size_t needed = normals_together();
  if (left_ >= needed) return;
  std::copy_n(normals_.begin() + static_cast<std::ptrdiff_t>(next_), left_, normals_.begin());
  next_ = 0;
  for (; left_ < needed; left_ += WalshNormals::kBlock) source_.draw(normals_.data() + left_);
}

/// kFirst: the first token's terms come from no token before.
template <std::size_t kSpans, bool kFirst>
[[gnu::always_inline]] inline void TokenLogits::step() {
  constexpr bool kKnown = kSpans != kAnyNumber;
  const std::size_t spans = kKnown ? kSpans : spans_, width = width_, all = layers_ * width_;
  const std::size_t normals = normals_together();
  const float *const factor = kFirst ? start_.data() : carry_.data(), *const common = common_.data();
  float *const logits = logits_.data(), *term = terms_.data(), *const fresh_in_memory = fresh_.data();
  for (std::size_t expert = 0; expert < width; expert += kTogether) {
    refill();
    const std::int16_t* normal = normals_.data() + next_;
    next_ += normals;
    left_ -= normals;
    Floats fresh[kKnown ? kSpans + 1 : 1] = {};  // one for each term, in registers
    if constexpr (!kKnown) std::fill_n(fresh_in_memory, (spans + 1) * kTogether, 0.0f);
    const float* coefficient = coefficients_.data();
    for (std::size_t at = expert; at < all; at += width) {
      const float kept = coefficient[0], come = coefficient[1];
      const float* const weight = coefficient + 2;
      coefficient += spans + 3;
      Floats sum, drawn, value;
      load(sum, common + at);
      Integers pairs{};
      for (std::size_t i = 0; i <= spans; ++i) {
        if (i % 2 == 0) {
          load(pairs, normal);
          normal += 2 * kTogether;
        }
        Floats& now = fresh[kKnown ? i : 0];
        if constexpr (!kKnown) load(now, fresh_in_memory + i * kTogether);
        take(drawn, pairs, i % 2 == 0);
        now = kept * now + come * drawn;
        if constexpr (!kKnown) store(fresh_in_memory + i * kTogether, now);
        if (i == spans) {
          sum = sum + weight[i] * now;
          continue;
        }
        load(value, term);
        value = kFirst ? factor[i] * now : factor[i] * value + now;
        store(term, value);
        term += kTogether;
        sum = sum + weight[i] * value;
      }
      store(logits + at, sum);
    }
  }
}

template <bool kFirst>
[[gnu::always_inline]] inline void TokenLogits::step_of_any() {
  switch (spans_) {
    case 0:
      return step<0, kFirst>();
    case 1:
      return step<1, kFirst>();
    case 2:
      return step<2, kFirst>();
    case 3:
      return step<3, kFirst>();
    case 4:
      return step<4, kFirst>();
    default:
      return step<kAnyNumber, kFirst>();
  }
}

void TokenLogits::step_anywhere() {
  first_ ? step_of_any<true>() : step_of_any<false>();
}

#ifdef __x86_64__
// The same in wider instructions, which the compiler may not use everywhere; the same numbers, bit by bit.
[[gnu::target("avx2")]] void TokenLogits::step_avx2() {
  first_ ? step_of_any<true>() : step_of_any<false>();
}
#endif

}  // namespace moelab
