#include "sim/serving/step_experts.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "models/expert_parallel.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kNoRow = std::numeric_limits<std::uint64_t>::max();

using FourRows = std::array<const std::uint64_t*, 4>;

// Written for the vectoriser.
[[gnu::always_inline]] inline void unite(std::uint64_t* __restrict to, const FourRows& rows,
                                         std::size_t words) {
  const std::uint64_t *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
  for (std::size_t i = 0; i < words; ++i) to[i] |= (a[i] | b[i]) | (c[i] | d[i]);
}

[[gnu::always_inline]] inline std::uint32_t bits_in(const std::uint64_t* words, std::size_t count) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) bits += static_cast<std::uint32_t>(std::popcount(words[i]));
  return bits;
}

void unite_anywhere(std::uint64_t* to, const FourRows& rows, std::size_t words) {
  unite(to, rows, words);
}

/// Bits of each `count` words that follow each other.
void count_anywhere(const std::uint64_t* words, std::size_t count, std::span<std::uint32_t> to) {
  for (std::uint32_t& bits : to) {
    bits = bits_in(words, count);
    words += count;
  }
}

#ifdef __x86_64__
// The same in instructions that the compiler may not use everywhere.
[[gnu::target("avx2")]] void unite_avx2(std::uint64_t* to, const FourRows& rows, std::size_t words) {
  unite(to, rows, words);
}

[[gnu::target("popcnt")]] void count_popcnt(const std::uint64_t* words, std::size_t count,
                                            std::span<std::uint32_t> to) {
  for (std::uint32_t& bits : to) {
    bits = bits_in(words, count);
    words += count;
  }
}
#endif

struct WordLoops {
  void (*unite)(std::uint64_t*, const FourRows&, std::size_t) = unite_anywhere;
  void (*count)(const std::uint64_t*, std::size_t, std::span<std::uint32_t>) = count_anywhere;

  WordLoops() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) unite = unite_avx2;
    if (__builtin_cpu_supports("popcnt")) count = count_popcnt;
#endif
  }
};

const WordLoops& word_loops() {
  static const WordLoops loops;
  return loops;
}

}  // namespace

StepExperts::StepExperts(const RoutingTrace& trace, std::size_t gpus, std::size_t most_bytes)
    : trace_(trace), gpus_(gpus), layers_(trace.layers()) {
  const auto experts = static_cast<int>(trace.experts()), ranks = static_cast<int>(gpus);
  gpu_words_ = (static_cast<std::size_t>(most_experts_of_rank(experts, ranks)) + 63) / 64;
  row_words_ = layers_ * gpus_ * gpu_words_;
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu)
    for (int i = 0; i < experts_of_rank(experts, ranks, static_cast<int>(gpu)).count; ++i) {
      const auto place = static_cast<std::uint32_t>(i);
      const auto first_word = static_cast<std::uint32_t>(gpu * gpu_words_);
      bit_.push_back({gpu, first_word + place / 64, std::uint64_t{1} << place % 64});
    }
  const std::size_t row_bytes = row_words_ * sizeof(std::uint64_t);
  places_ = std::min<std::uint64_t>(std::max<std::size_t>(1, most_bytes / row_bytes), trace.tokens());
  kept_.assign(places_, kNoRow);
  bits_ = make_words(places_ * row_words_);
  touched_ = make_words(row_words_);
  distinct_.resize(layers_ * gpus_);
  if (gpus_ == 1) return;
  pairs_.resize(layers_ * gpus_);
  row_pairs_ = std::make_unique_for_overwrite<std::uint16_t[]>(places_ * pairs_.size());
}

void StepExperts::begin(const Pass& pass) {
  std::fill_n(touched_.get(), row_words_, 0);
  std::fill(pairs_.begin(), pairs_.end(), 0);
  for (const auto& [begin, end] : pass.rows)
    for (std::uint64_t row = begin; row < end; ++row) touch(row);
  unite_waiting();
  word_loops().count(touched_.get(), gpu_words_, distinct_);
}

void StepExperts::touch(std::uint64_t row) {
  const std::size_t place = row % places_;
  if (kept_[place] != row) {
    unite_waiting();  // one of them may be there
    make_row(row, place);
  }
  waiting_[waits_++] = bits_.get() + place * row_words_;
  if (waits_ == kTogether) unite_waiting();
  const std::uint16_t* const pairs = row_pairs_.get() + place * pairs_.size();
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] += pairs[i];
}

void StepExperts::unite_waiting() {
  if (waits_ == 0) return;
  std::fill(waiting_.begin() + static_cast<std::ptrdiff_t>(waits_), waiting_.end(), waiting_.front());
  word_loops().unite(touched_.get(), waiting_, row_words_);
  waits_ = 0;
}

void StepExperts::reroute(std::size_t layer, std::span<const ExpertUse> uses) {
  const std::span distinct = std::span(distinct_).subspan(layer * gpus_, gpus_);
  std::fill(distinct.begin(), distinct.end(), 0);
  for (const ExpertUse& use : uses) ++distinct[bit_[use.object].gpu];
  if (gpus_ == 1) return;
  const std::span pairs = std::span(pairs_).subspan(layer * gpus_, gpus_);
  std::fill(pairs.begin(), pairs.end(), 0);
  for (const ExpertUse& use : uses) pairs[bit_[use.object].gpu] += use.tokens;
}

void StepExperts::make_row(std::uint64_t row, std::size_t place) {
  const std::span<const std::uint16_t> chosen = trace_.experts_of(row);
  const std::size_t k = trace_.top_k(), layer_words = gpus_ * gpu_words_;
  std::uint64_t* bits = bits_.get() + place * row_words_;
  std::uint16_t* pairs = gpus_ > 1 ? row_pairs_.get() + place * pairs_.size() : nullptr;
  std::fill_n(bits, row_words_, 0);
  if (pairs != nullptr) std::fill_n(pairs, pairs_.size(), std::uint16_t{0});
  for (std::size_t i = 0; i < chosen.size(); i += k, bits += layer_words)
    for (const std::uint16_t expert : chosen.subspan(i, k)) {
      if (expert == kNoExpert) continue;
      const Bit& bit = bit_[expert];
      bits[bit.word] |= bit.mask;
      if (pairs != nullptr) ++pairs[i / k * gpus_ + bit.gpu];
    }
  kept_[place] = row;
}

}  // namespace moelab
