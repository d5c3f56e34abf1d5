// Which experts each server holds, its GPUs aside: what policies decide on that look at servers only, and how
// the experts of a server are then dealt to its GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/placement/placement.hpp"

namespace moelab {

class ServerSets {
 public:
  /// Nothing held.
  explicit ServerSets(const PlacementShape& shape)
      : layers_(shape.layers),
        experts_(shape.experts),
        held_(shape.servers.size() * all(), 0),
        sizes_(shape.servers.size(), 0),
        copies_(all(), 0) {}

  std::size_t servers() const { return sizes_.size(); }
  bool has(std::size_t server, std::uint32_t layer, std::uint32_t expert) const {
    return held_[server * all() + at(layer, expert)] != 0;
  }
  /// Experts on a server.
  std::uint64_t size(std::size_t server) const { return sizes_[server]; }
  /// Servers that hold an expert.
  std::uint32_t copies(std::uint32_t layer, std::uint32_t expert) const { return copies_[at(layer, expert)]; }
  /// The server must not hold it.
  void insert(std::size_t server, std::uint32_t layer, std::uint32_t expert) {
    held_[server * all() + at(layer, expert)] = 1;
    ++sizes_[server];
    ++copies_[at(layer, expert)];
  }
  /// The server must hold it.
  void erase(std::size_t server, std::uint32_t layer, std::uint32_t expert) {
    held_[server * all() + at(layer, expert)] = 0;
    --sizes_[server];
    --copies_[at(layer, expert)];
  }

 private:
  std::size_t all() const { return std::size_t{layers_} * experts_; }
  std::size_t at(std::uint32_t layer, std::uint32_t expert) const {
    return std::size_t{layer} * experts_ + expert;
  }
  std::uint32_t layers_, experts_;
  std::vector<std::uint8_t> held_;     // [servers, layers, experts]
  std::vector<std::uint64_t> sizes_;   // [servers]
  std::vector<std::uint32_t> copies_;  // [layers, experts]
};

/// Fills what room a server has with the experts that it uses most and does not hold; those of equal use
/// layer by layer.
void fill_with_most_used(const PlacementShape& shape, const ActivationCounts& counts, ServerSets& sets);

/// Deals each server's experts to its GPUs in proportion to their slots: layer by layer, the most used first,
/// each to the GPU of which the smallest share is taken. So every GPU gets its share of each layer, give or
/// take one, and of the much used experts.
Placement deal_to_gpus(const PlacementShape& shape, const ActivationCounts& counts, const ServerSets& sets);

}  // namespace moelab
