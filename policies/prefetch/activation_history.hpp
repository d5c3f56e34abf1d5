// The EAM of the running request and the EAM collection (EAMC) of past ones, with the similarity of each past
// one to the running one kept up to date layer by layer.
//
//   similarity(k) = 1/L * sum over layers l of cos(running[l], past[k][l]),  cos with an empty row = 0
//
// (1 - similarity is the distance of MoE-Infinity, arXiv 2401.14361: cosine by layer, so a long request and a
// short one with the same habits are near each other.) Adding a layer step changes one row of the running EAM
// by a few experts: the row's dot products with all past rows change by (tokens * past count) for each of
// them, and no other row's do. Dot products are sums of whole numbers, exact in a double. Cosines are rounded
// to multiples of 2^-40, whose sums over up to 4096 layers are exact as well: they can be updated by
// differences and still be what summing anew would give, and what is equal in the definition is a tie here.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policies/cache/cache.hpp"
#include "policies/prefetch/expert_activation_matrix.hpp"

namespace moelab {

class ActivationHistory {
 public:
  /// Room for `capacity` past EAMs (at least 1) of [layers, experts]; nothing is allocated afterwards.
  ActivationHistory(std::uint32_t layers, std::uint32_t experts, std::uint32_t capacity)
      : capacity_(capacity),
        running_(layers, experts),
        running_square_(layers, 0),
        past_(capacity, running_),
        most_used_(std::size_t{capacity} * layers * experts, 0),
        by_expert_(std::size_t{layers} * experts * capacity, 0),
        norm_(std::size_t{layers} * capacity, 0),
        dot_(norm_.size(), 0),
        cosine_(norm_.size(), 0),
        cosine_sum_(capacity, 0) {
    assert(capacity > 0 && layers <= 4096);
  }

  const ExpertActivationMatrix& running() const { return running_; }
  std::uint32_t size() const { return size_; }  // past EAMs held
  const ExpertActivationMatrix& past(std::uint32_t k) const { return past_[k]; }
  /// Experts of a layer of past(k), most used first, equal ones by number.
  std::span<const std::uint32_t> most_used(std::uint32_t k, std::uint32_t layer) const {
    return std::span(most_used_).subspan(most_used_row(k, layer), running_.experts());
  }
  double similarity(std::uint32_t k) const { return cosine_sum_[k] / running_.layers(); }

  /// The past EAM most similar to the running one; ties go to the lowest number. Asks for size() > 0.
  std::uint32_t nearest() const {
    assert(size_ > 0);
    const auto best = std::max_element(cosine_sum_.begin(), cosine_sum_.begin() + size_);
    return static_cast<std::uint32_t>(best - cosine_sum_.begin());
  }

  /// A layer step of the running request. O(uses * size()).
  void add(std::uint32_t layer, std::span<const ExpertUse> uses) {
    double* const dot = &dot_[std::size_t{layer} * capacity_];
    for (const ExpertUse& use : uses) {
      const double before = running_.row(layer)[use.object];
      const double tokens = use.tokens;
      running_.add(layer, use.object, use.tokens);
      running_square_[layer] += tokens * (2 * before + tokens);
      const std::uint32_t* const counts = column(layer, use.object);
      for (std::uint32_t k = 0; k < size_; ++k) dot[k] += tokens * counts[k];
    }
    refresh_cosines(layer);
  }

  /// The running request is over: its EAM joins the past ones, in the place of the nearest when they are
  /// full, and an empty one begins. A request without a token leaves no trace.
  void finish() {
    if (running_.empty()) return;
    store(size_ < capacity_ ? size_++ : nearest());
    running_.clear();
    for (auto* sums : {&running_square_, &dot_, &cosine_, &cosine_sum_})
      std::fill(sums->begin(), sums->end(), 0.0);
  }

 private:
  std::uint32_t* column(std::uint32_t layer, std::uint32_t expert) {
    return &by_expert_[(std::size_t{layer} * running_.experts() + expert) * capacity_];
  }

  void refresh_cosines(std::uint32_t layer) {
    // Doubles from here to twice this are multiples of 2^-40: adding it rounds a cosine to one of them.
    constexpr double kGrid = 4096;
    const double running_norm = std::sqrt(running_square_[layer]);
    const std::size_t row = std::size_t{layer} * capacity_;
    for (std::uint32_t k = 0; k < size_; ++k) {
      const double dot = dot_[row + k];
      const double exact = dot == 0 ? 0 : dot / (running_norm * norm_[row + k]);
      const double cosine = (exact + kGrid) - kGrid;
      cosine_sum_[k] += cosine - cosine_[row + k];
      cosine_[row + k] = cosine;
    }
  }

  std::size_t most_used_row(std::uint32_t k, std::uint32_t layer) const {
    return (std::size_t{k} * running_.layers() + layer) * running_.experts();
  }

  void store(std::uint32_t k) {
    past_[k] = running_;
    for (std::uint32_t layer = 0; layer < running_.layers(); ++layer) {
      for (std::uint32_t expert = 0; expert < running_.experts(); ++expert)
        column(layer, expert)[k] = running_.row(layer)[expert];
      norm_[std::size_t{layer} * capacity_ + k] = std::sqrt(running_square_[layer]);
      rank_experts(k, layer);
    }
  }

  void rank_experts(std::uint32_t k, std::uint32_t layer) {
    const auto ranked = std::span(most_used_).subspan(most_used_row(k, layer), running_.experts());
    const auto counts = running_.row(layer);
    std::iota(ranked.begin(), ranked.end(), 0u);
    std::sort(ranked.begin(), ranked.end(), [counts](std::uint32_t a, std::uint32_t b) {
      return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
    });
  }

  const std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  ExpertActivationMatrix running_;
  std::vector<double> running_square_;        // [layers]: squared norm of each row of the running EAM
  std::vector<ExpertActivationMatrix> past_;  // [capacity]
  std::vector<std::uint32_t> most_used_;      // [capacity, layers, experts]
  std::vector<std::uint32_t> by_expert_;  // [layers, experts, capacity]: past_ again, for the dot products
  std::vector<double> norm_;              // [layers, capacity]: norms of the rows of past_
  std::vector<double> dot_;               // [layers, capacity]: running row times past row
  std::vector<double> cosine_;            // [layers, capacity]
  std::vector<double> cosine_sum_;        // [capacity]
};

}  // namespace moelab
