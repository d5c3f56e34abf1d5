// How one layer's experts are used: popularity, reuse from token to token, distinct experts in windows.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace moelab {

/// The value of a statistic of nothing.
inline constexpr double kNoStatistic = std::numeric_limits<double>::quiet_NaN();

/// One layer's uses, token by token. Memory: a few words an expert.
class UseStatistics {
 public:
  /// Windows of so many tokens of a request, one after the other from its first token; what is left over at a
  /// request's end is not a window.
  static constexpr std::array<std::uint32_t, 7> kWindows{2, 4, 8, 16, 32, 64, 128};

  UseStatistics(std::uint32_t experts, std::uint32_t top_k);
  void begin_request();
  /// The distinct experts of the request's next token for which the layer runs.
  void add_token(std::span<const std::uint16_t> ids);

  std::uint64_t tokens() const { return tokens_; }
  /// Tokens sent to each expert.
  std::span<const std::uint64_t> uses() const { return uses_; }
  /// top_quarter_share of the uses.
  double top_quarter() const;
  /// Entropy of the uses in bits; at most log2(experts).
  double entropy() const;
  /// Share of the experts of a token that the token before it in its request used; NaN without two tokens.
  double reuse() const;
  /// The same if tokens were independent draws with these popularities: sum p_e^2 / k, p_e = uses of e a
  /// token.
  double independent_reuse() const;
  /// Mean number of distinct experts in windows of kWindows[i] tokens; NaN if no request is as long.
  double distinct(std::size_t i) const;

 private:
  std::uint32_t top_k_;
  std::uint64_t tokens_ = 0;
  std::uint64_t pairs_ = 0;   // tokens with one before them
  std::uint64_t reused_ = 0;  // their experts that the one before used
  std::uint64_t place_ = 0;   // of the next token among the request's tokens, counted over all requests
  std::uint64_t begin_ = 0;   // place of the request's first
  std::vector<std::uint64_t> uses_;
  std::vector<std::uint64_t> last_;  // by expert: 1 + place of the last use; 0: none
  std::array<std::uint64_t, kWindows.size()> windows_{}, found_{}, open_{};
};

/// Share that the largest ceil(size / 4) counts have of their sum; NaN if that is 0.
double top_quarter_share(std::span<const std::uint64_t> counts);

/// Entropy in bits of counts, scaled to sum 1; 0 for none.
double entropy_bits(std::span<const std::uint64_t> counts);

/// Jensen-Shannon divergence in bits between groups of uses, weighted by their sizes: entropy of all together
/// less the mean entropy of the groups. 0: all groups use the experts alike.
class GroupDivergence {
 public:
  explicit GroupDivergence(std::uint32_t experts) : all_(experts) {}
  void add_group(std::span<const std::uint64_t> uses);
  double bits() const;
  /// What groups that differ by chance alone would be expected to show: the entropies' first-order biases
  /// (Miller, 1955: (m - 1) / (2 n ln 2) bits for n uses of m experts).
  double chance_bits() const;

 private:
  std::vector<std::uint64_t> all_;
  double within_ = 0;       // sum of uses * entropy
  double within_bias_ = 0;  // sum of uses * bias = sum of (m - 1) / (2 ln 2)
};

}  // namespace moelab
