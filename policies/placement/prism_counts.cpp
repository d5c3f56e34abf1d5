// Algorithm 1 of Prism: how many experts of each layer on each server. What it says and where this deviates
// is at the head of prism.cpp.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "policies/placement/prism.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

/// Algorithm 1, step 2.
class Rebalancing {
 public:
  Rebalancing(const PlacementShape& shape, LayerQuotas& counts)
      : counts_(counts),
        experts_(shape.experts),
        needed_(std::uint64_t{shape.copies} * shape.experts),
        room_(server_slots(shape)),
        totals_(shape.layers, 0),
        largest_first_(by_memory(shape)) {
    for (std::size_t server = 0; server < counts.size(); ++server)
      for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
        totals_[layer] += counts[server][layer];
        room_[server] -= counts[server][layer];
      }
  }

  void run() {
    for (std::uint32_t layer = 0; layer < totals_.size(); ++layer)
      while (totals_[layer] < needed_)
        if (!borrow(layer) && !use_room(layer))
          throw std::logic_error("prism: no room for coverage, though the shape passed its check");
  }

 private:
  static std::vector<std::uint32_t> by_memory(const PlacementShape& shape) {
    std::vector<double> memory;
    for (const PlacementServer& server : shape.servers)
      memory.push_back(std::accumulate(server.gpu_bytes.begin(), server.gpu_bytes.end(), 0.0));
    return by_descending(memory);
  }

  void move(std::size_t server, std::uint32_t from, std::uint32_t to) {
    --counts_[server][from], --totals_[from];
    ++counts_[server][to], ++totals_[to];
  }

  /// One pass over the servers; false when none could lend.
  bool borrow(std::uint32_t layer) {
    bool any = false;
    for (const std::uint32_t server : largest_first_) {
      const auto most = std::max_element(totals_.begin(), totals_.end());
      const auto lender = static_cast<std::uint32_t>(most - totals_.begin());
      if (*most <= needed_ || totals_[layer] == needed_) break;
      if (counts_[server][lender] == 0 || counts_[server][layer] == experts_) continue;
      move(server, lender, layer);
      any = true;
    }
    return any;
  }

  /// The layer with fewest that the server has not all of; room on it means that there is one.
  std::uint32_t fewest(std::size_t server) const {
    std::uint32_t best = static_cast<std::uint32_t>(totals_.size());
    for (std::uint32_t layer = 0; layer < totals_.size(); ++layer)
      if (counts_[server][layer] < experts_ && (best == totals_.size() || totals_[layer] < totals_[best]))
        best = layer;
    return best;
  }

  void take(std::size_t server, std::uint32_t layer) {
    ++counts_[server][layer], ++totals_[layer], --room_[server];
  }

  bool use_room(std::uint32_t layer) {
    for (const std::uint32_t server : largest_first_)
      if (room_[server] > 0 && counts_[server][layer] < experts_) return take(server, layer), true;
    for (const std::uint32_t server : largest_first_)
      if (room_[server] > 0) return take(server, fewest(server)), true;
    return false;
  }

  LayerQuotas& counts_;
  const std::uint32_t experts_;
  const std::uint64_t needed_;                // of each layer
  std::vector<std::uint64_t> room_;           // [servers]
  std::vector<std::uint64_t> totals_;         // [layers]
  std::vector<std::uint32_t> largest_first_;  // servers
};

/// A server's counts by use: each layer's in descending order. [layers, experts]
class UseByRank {
 public:
  UseByRank(const ActivationCounts& counts, std::size_t server) {
    for (std::uint32_t layer = 0; layer < counts.layers(); ++layer) {
      const std::span<const double> used = counts.layer(server, layer);
      ranked_.emplace_back(used.begin(), used.end());
      std::sort(ranked_.back().begin(), ranked_.back().end(), std::greater<>());
    }
  }

  double mass(const std::vector<std::uint32_t>& layer_counts) const {
    double sum = 0;
    for (std::size_t layer = 0; layer < ranked_.size(); ++layer)
      for (std::uint32_t k = 0; k < layer_counts[layer]; ++k) sum += ranked_[layer][k];
    return sum;
  }

  /// Moves a slot from the layer that loses least to the one that gains most; false where none gains.
  bool improve(std::vector<std::uint32_t>& layer_counts) const {
    std::size_t from = ranked_.size(), to = ranked_.size();
    double loss = std::numeric_limits<double>::infinity(), gain = 0;
    for (std::size_t layer = 0; layer < ranked_.size(); ++layer) {
      const std::uint32_t count = layer_counts[layer];
      if (count > 0 && ranked_[layer][count - 1] < loss) loss = ranked_[layer][count - 1], from = layer;
      if (count < ranked_[layer].size() && ranked_[layer][count] > gain)
        gain = ranked_[layer][count], to = layer;
    }
    if (!(gain > loss)) return false;  // never within one layer, where what is in has at least the use
    --layer_counts[from], ++layer_counts[to];
    return true;
  }

 private:
  std::vector<std::vector<double>> ranked_;
};

}  // namespace

double activation_entropy(std::span<const double> counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  double entropy = 0;
  for (const double count : counts)
    if (count > 0) entropy -= count / sum * std::log2(count / sum);
  return std::max(entropy, 0.0);
}

LayerQuotas entropy_layer_counts(const PlacementShape& shape, const ActivationCounts& counts) {
  const std::vector<std::uint64_t> slots = server_slots(shape);
  LayerQuotas result(shape.servers.size(), std::vector<std::uint32_t>(shape.layers, 0));
  for (std::size_t server = 0; server < result.size(); ++server) {
    std::vector<double> entropy;
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
      entropy.push_back(activation_entropy(counts.layer(server, layer)));
    if (std::count(entropy.begin(), entropy.end(), 0.0) == shape.layers) entropy.assign(shape.layers, 1);
    const double sum = std::accumulate(entropy.begin(), entropy.end(), 0.0);
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      // The tolerance is for shares that are whole but for rounding; it is too small to add up to a slot.
      const double share = static_cast<double>(slots[server]) * (entropy[layer] / sum) * (1 + 1e-12);
      result[server][layer] = static_cast<std::uint32_t>(std::min(std::floor(share), 1.0 * shape.experts));
    }
  }
  return result;
}

void raise_local_mass(const ActivationCounts& counts, double share, LayerQuotas& layer_counts) {
  if (share == 0) return;
  for (std::size_t server = 0; server < layer_counts.size(); ++server) {
    const UseByRank use(counts, server);
    std::vector<std::uint32_t> best = layer_counts[server];
    while (use.improve(best)) continue;
    while (use.mass(layer_counts[server]) < share * use.mass(best) && use.improve(layer_counts[server]))
      continue;
  }
}

void rebalance_layer_counts(const PlacementShape& shape, LayerQuotas& layer_counts) {
  Rebalancing(shape, layer_counts).run();
}

}  // namespace moelab
