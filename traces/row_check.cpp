#include "traces/row_check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <utility>

#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

// Up to this k, rows are compared many at a time in vector instructions, pair by pair; above, id by id with
// a table, because pairs grow with the square.
constexpr std::size_t kMaxPairwise = 16;

// Ids from one distance's ones in same_row to the next one's; a power of two keeps them aligned.
constexpr std::size_t kStride = 1024;

constexpr std::size_t block_ids(std::size_t top_k) {
  return kStride / top_k * top_k;
}

// All ones for true: what a vector comparison yields.
constexpr std::uint16_t mask(bool condition) {
  return condition ? 0xffff : 0;
}

// Written for the vectoriser: a fixed count, no branch, 16-bit operations on neighbours, one accumulator; K
// is a constant so that the loop over distances unrolls. Reads K - 1 ids beyond the block, for nothing.
template <std::size_t K>
[[gnu::always_inline]] inline bool check_block(const std::uint16_t* ids, std::uint16_t experts,
                                               const std::uint16_t* same_row) {
  constexpr std::size_t kBlock = block_ids(K);
  std::uint16_t bad = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint16_t none = mask(ids[i] == kNoExpert);
    std::uint16_t wrong = mask(ids[i] >= experts);
    for (std::size_t distance = 1; distance < K; ++distance) {
      const std::uint16_t repeated = mask(ids[i] == ids[i + distance]);
      wrong = static_cast<std::uint16_t>(wrong | (repeated & same_row[(distance - 1) * kStride + i]));
    }
    wrong = static_cast<std::uint16_t>(wrong & ~none);
    if constexpr (K > 1) {
      const std::uint16_t other_none = mask(ids[i + 1] == kNoExpert);
      wrong = static_cast<std::uint16_t>(wrong | ((none ^ other_none) & same_row[i]));
    }
    bad = static_cast<std::uint16_t>(bad | wrong);
  }
  return bad == 0;
}

using BlockCheck = bool (*)(const std::uint16_t* ids, std::uint16_t experts, const std::uint16_t* same_row);

template <std::size_t K>
bool check_block_anywhere(const std::uint16_t* ids, std::uint16_t experts, const std::uint16_t* same_row) {
  return check_block<K>(ids, experts, same_row);
}

#ifdef __x86_64__
// The same in wider instructions, which the compiler may not use everywhere.
template <std::size_t K>
[[gnu::target("avx2")]] bool check_block_avx2(const std::uint16_t* ids, std::uint16_t experts,
                                              const std::uint16_t* same_row) {
  return check_block<K>(ids, experts, same_row);
}
#endif

BlockCheck block_check(std::size_t top_k) {
  constexpr auto kIndices = std::make_index_sequence<kMaxPairwise>{};
  const auto pick = [&]<std::size_t... I>(std::index_sequence<I...>) {
#ifdef __x86_64__
    constexpr std::array<BlockCheck, kMaxPairwise> kAvx2{check_block_avx2<I + 1>...};
    if (__builtin_cpu_supports("avx2")) return kAvx2[top_k - 1];
#endif
    constexpr std::array<BlockCheck, kMaxPairwise> kAnywhere{check_block_anywhere<I + 1>...};
    return kAnywhere[top_k - 1];
  };
  return pick(kIndices);
}

}  // namespace

RowCheck::RowCheck(std::uint32_t experts, std::uint32_t top_k)
    : experts_(experts), top_k_(top_k), seen_(experts), block_(top_k) {
  assert(top_k > 0 && top_k <= experts && experts <= kNoExpert);
  if (top_k_ > kMaxPairwise) return;
  block_is_good_ = block_check(top_k_);
  block_ = block_ids(top_k_);
  same_row_.resize((top_k_ - 1) * kStride);
  for (std::size_t distance = 1; distance < top_k_; ++distance) {
    for (std::size_t i = 0; i < block_; ++i) {
      same_row_[(distance - 1) * kStride + i] = mask(i % top_k_ + distance < top_k_);
    }
  }
}

std::optional<std::size_t> RowCheck::first_bad(std::span<const std::uint16_t> ids) {
  assert(ids.size() % top_k_ == 0);
  for (std::size_t begin = 0; begin < ids.size(); begin += block_) {
    const bool whole = begin + block_ + top_k_ - 1 <= ids.size();
    if (whole && block_is_good_ != nullptr &&
        block_is_good_(ids.data() + begin, static_cast<std::uint16_t>(experts_), same_row_.data())) {
      continue;
    }
    const std::size_t end = std::min(begin + block_, ids.size());
    for (std::size_t row = begin; row < end; row += top_k_) {
      if (!row_is_good(ids.subspan(row, top_k_))) return row / top_k_;
    }
  }
  return std::nullopt;
}

bool RowCheck::row_is_good(std::span<const std::uint16_t> row) {
  if (row.front() == kNoExpert) {
    return std::all_of(row.begin(), row.end(), [](std::uint16_t id) { return id == kNoExpert; });
  }
  if (++row_number_ == 0) {  // wrapped: old marks would read as new
    std::fill(seen_.begin(), seen_.end(), 0);
    row_number_ = 1;
  }
  for (const std::uint16_t id : row) {
    if (id >= experts_ || seen_[id] == row_number_) return false;
    seen_[id] = row_number_;
  }
  return true;
}

std::string RowCheck::describe(std::span<const std::uint16_t> row) const {
  const auto none = static_cast<std::size_t>(std::count(row.begin(), row.end(), kNoExpert));
  if (none != 0 && none != row.size()) {
    return "some of the " + std::to_string(top_k_) +
           " ids are 65535 (the layer does not run) and some are not";
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] >= experts_) {
      return "expert id " + std::to_string(row[i]) + " is out of range: there are " +
             std::to_string(experts_) + " experts";
    }
    if (std::find(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(i), row[i]) !=
        row.begin() + static_cast<std::ptrdiff_t>(i)) {
      return "expert id " + std::to_string(row[i]) + " comes twice";
    }
  }
  return {};
}

std::optional<std::size_t> first_not_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  constexpr std::size_t kBlock = 4096;
  const auto not_finite = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
  };
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::span<const float> block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    std::uint32_t bad = 0;
    for (const float value : block) bad |= not_finite(value) ? 1U : 0U;
    if (bad == 0) continue;
    const auto at = std::find_if(block.begin(), block.end(), not_finite);
    return begin + static_cast<std::size_t>(at - block.begin());
  }
  return std::nullopt;
}

}  // namespace moelab
