// optimal: the least remote mass there is (Eq. 2 of Prism) with memory, coverage and copies kept; for small
// clusters, as the ceiling of what the others can reach.
//
//   each server: the experts that it uses most, as many as fit; least remote mass without coverage
//   while an expert misses a copy: bring it to a server without it, along the cheapest chain of changes:
//     that server gives one of its experts to another server, which gives one to another, ..., and the last
//     drops one that is on more than `copies` servers. Cost: local mass lost on all of them.
//
// It is a transport problem, since all experts are of one size: servers supply slots, experts ask for at
// least `copies` of them, at most one from each server, and the mass of (server, expert) is what a unit
// earns. The loop is the successive shortest path method: each chain is a shortest path in the residual
// network, so what has been placed stays optimal for the copies asked so far (Ahuja, Magnanti, Orlin, Network
// Flows, 9.7). An edge n -> m costs min over experts on n and not on m of f_n - f_m; Bellman-Ford over the
// servers finds the path. Counts are rounded to 2^-40 of the greatest, or finer, and added as integers, so
// that no rounding breaks the argument: counts that are whole numbers below 2^40 are exact.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "models/input_error.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/server_sets.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

// About ten seconds where most experts must be moved.
constexpr double kMostWork = 1 << 24;  // servers^2 * layers * experts

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

struct Edge {
  std::int64_t cost = kNever;
  std::uint32_t index = kNone;  // layer * experts + expert
};

class Transport {
 public:
  Transport(const PlacementShape& shape, const ActivationCounts& counts)
      : shape_(shape),
        servers_(static_cast<std::uint32_t>(shape.servers.size())),
        all_(shape.layers * shape.experts),
        sets_(shape),
        edges_(std::size_t{servers_} * servers_),
        drops_(servers_) {
    round_counts(counts);
    fill_with_most_used(shape, counts, sets_);
  }

  ServerSets run() {
    for (std::uint32_t server = 0; server < servers_; ++server) refresh_edges(server);
    for (std::uint32_t index = 0; index < all_; ++index)
      while (copies(index) < shape_.copies) bring(index);
    return std::move(sets_);
  }

 private:
  bool has(std::uint32_t server, std::uint32_t index) const {
    return sets_.has(server, index / shape_.experts, index % shape_.experts);
  }
  std::uint32_t copies(std::uint32_t index) const {
    return sets_.copies(index / shape_.experts, index % shape_.experts);
  }
  void insert(std::uint32_t server, std::uint32_t index) {
    sets_.insert(server, index / shape_.experts, index % shape_.experts);
  }
  void erase(std::uint32_t server, std::uint32_t index) {
    sets_.erase(server, index / shape_.experts, index % shape_.experts);
  }
  std::int64_t mass(std::uint32_t server, std::uint32_t index) const {
    return mass_[std::size_t{server} * all_ + index];
  }

  void round_counts(const ActivationCounts& counts) {
    double greatest = 0;
    for (std::uint32_t server = 0; server < servers_; ++server)
      for (const double count : counts.of_server(server)) greatest = std::max(greatest, count);
    int exponent = 0;
    std::frexp(greatest, &exponent);  // greatest < 2^exponent
    for (std::uint32_t server = 0; server < servers_; ++server)
      for (const double count : counts.of_server(server))
        mass_.push_back(std::llround(std::ldexp(count, 40 - exponent)));
  }

  Edge cheapest_move(std::uint32_t from, std::uint32_t to) const {
    Edge best;
    for (std::uint32_t index = 0; index < all_; ++index)
      if (has(from, index) && !has(to, index) && mass(from, index) - mass(to, index) < best.cost)
        best = {.cost = mass(from, index) - mass(to, index), .index = index};
    return best;
  }

  /// What leaves or reaches a server, after its experts have changed.
  void refresh_edges(std::uint32_t server) {
    if (!shape_.servers[server].up) return;
    for (std::uint32_t other = 0; other < servers_; ++other) {
      if (!shape_.servers[other].up || other == server) continue;
      edges_[std::size_t{server} * servers_ + other] = cheapest_move(server, other);
      edges_[std::size_t{other} * servers_ + server] = cheapest_move(other, server);
    }
  }

  /// What each server drops at the end of a chain. Copies change by any chain, so afresh each time.
  void refresh_drops() {
    for (std::uint32_t server = 0; server < servers_; ++server) {
      drops_[server] = {};
      for (std::uint32_t index = 0; index < all_; ++index)
        if (has(server, index) && copies(index) > shape_.copies && mass(server, index) < drops_[server].cost)
          drops_[server] = {.cost = mass(server, index), .index = index};
    }
  }

  struct Path {
    std::vector<std::int64_t> cost;     // [servers], to there
    std::vector<std::uint32_t> before;  // [servers], kNone: starts there
  };

  Path shortest_paths(std::uint32_t index) const {
    Path path{std::vector<std::int64_t>(servers_, kNever), std::vector<std::uint32_t>(servers_, kNone)};
    for (std::uint32_t server = 0; server < servers_; ++server)
      if (shape_.servers[server].up && !has(server, index)) path.cost[server] = -mass(server, index);
    for (bool shorter = true; shorter;) {  // ends: the residual network has no negative cycle
      shorter = false;
      for (std::uint32_t from = 0; from < servers_; ++from)
        for (std::uint32_t to = 0; to < servers_ && path.cost[from] < kNever; ++to) {
          const Edge& edge = edges_[std::size_t{from} * servers_ + to];
          if (edge.index == kNone || path.cost[from] + edge.cost >= path.cost[to]) continue;
          path.cost[to] = path.cost[from] + edge.cost;
          path.before[to] = from;
          shorter = true;
        }
    }
    return path;
  }

  void bring(std::uint32_t index) {
    refresh_drops();
    const Path path = shortest_paths(index);
    std::uint32_t last = kNone;
    for (std::uint32_t server = 0; server < servers_; ++server)
      if (drops_[server].index != kNone && path.cost[server] < kNever &&
          (last == kNone || path.cost[server] + drops_[server].cost < path.cost[last] + drops_[last].cost))
        last = server;
    if (last == kNone) throw std::logic_error("optimal: no room, though the shape passed its check");
    change(path, last, index);
  }

  void change(const Path& path, std::uint32_t last, std::uint32_t index) {
    std::vector<std::uint32_t> changed = {last};
    erase(last, drops_[last].index);
    for (std::uint32_t from = path.before[last]; from != kNone; from = path.before[from]) {
      const std::uint32_t moves = edges_[std::size_t{from} * servers_ + changed.back()].index;
      erase(from, moves);
      insert(changed.back(), moves);
      changed.push_back(from);
    }
    insert(changed.back(), index);
    for (const std::uint32_t server : changed) refresh_edges(server);
  }

  const PlacementShape& shape_;
  const std::uint32_t servers_, all_;
  ServerSets sets_;
  std::vector<std::int64_t> mass_;  // [servers, layers, experts]
  std::vector<Edge> edges_;         // [from, to]
  std::vector<Edge> drops_;         // [servers]
};

Placement place_optimal(const PlacementShape& shape, const ActivationCounts& counts,
                        const PolicyParameters&) {
  check_placement_shape(shape, true);
  check_activation_counts(shape, counts);
  const double servers = static_cast<double>(shape.servers.size());
  if (servers * servers * shape.layers * shape.experts > kMostWork)
    throw InputError("", "policy 'optimal' is for small clusters: " + std::to_string(shape.servers.size()) +
                             " servers squared * " + std::to_string(shape.layers) + " layers * " +
                             std::to_string(shape.experts) +
                             " experts is above 16777216; use 'prism', or fewer servers");
  return deal_to_gpus(shape, counts, Transport(shape, counts).run());
}

}  // namespace

PlacementPolicyEntry optimal_placement_entry() {
  return {.info = {.name = "optimal",
                   .help = "the least remote mass possible, by minimum-cost flow; small clusters only",
                   .source = "Prism, arXiv 2508.12851, Eq. 2, solved as a transport problem"},
          .place = place_optimal};
}

}  // namespace moelab
