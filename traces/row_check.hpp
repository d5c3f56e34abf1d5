// The checks of a trace's rows, at the speed of memory. Private to routing_trace*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moelab {

/// Checks rows of `top_k` expert ids: each below `experts` and distinct in its row, or all kNoExpert.
class RowCheck {
 public:
  RowCheck(std::uint32_t experts, std::uint32_t top_k);

  /// The first row (counted in rows of top_k) that breaks a rule. `ids` holds whole rows.
  std::optional<std::size_t> first_bad(std::span<const std::uint16_t> ids);
  /// What is wrong with a row that first_bad found.
  std::string describe(std::span<const std::uint16_t> row) const;

 private:
  using BlockCheck = bool (*)(const std::uint16_t* ids, std::uint16_t experts, const std::uint16_t* same_row);

  bool row_is_good(std::span<const std::uint16_t> row);

  std::uint32_t experts_;
  std::size_t top_k_;
  std::vector<std::uint32_t> seen_;  // [experts]: number of the row that met the expert last
  std::uint32_t row_number_ = 0;

  std::size_t block_ = 0;                // ids that block_is_good_ takes: whole rows
  BlockCheck block_is_good_ = nullptr;   // for small top_k
  std::vector<std::uint16_t> same_row_;  // [top_k - 1, 1024]: ones where places i and i + d share a row
};

/// The first value that is infinite or not a number.
std::optional<std::size_t> first_not_finite(std::span<const float> values);

}  // namespace moelab
