// Clusters, counts and checks for tests of placement policies.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "policies/placement/placement.hpp"
#include "tests/policies/random_numbers.hpp"

namespace moelab::test {

inline Placement place(std::string_view policy, const PlacementShape& shape, const ActivationCounts& counts,
                       const PolicyParameters& parameters = {}) {
  const PlacementPolicyEntry* const entry = find_placement_policy(policy);
  REQUIRE(entry != nullptr);
  return entry->place(shape, counts, parameters);
}

/// Servers that have room for so many experts of 1 MB, on one GPU each.
inline PlacementShape one_gpu_servers(std::uint32_t layers, std::uint32_t experts,
                                      const std::vector<std::uint32_t>& slots) {
  PlacementShape shape{.layers = layers, .experts = experts, .expert_bytes = 1e6};
  for (const std::uint32_t n : slots)
    shape.servers.push_back({.gpu_bytes = {n * 1e6}, .load_bytes_per_second = 1e9});
  return shape;
}

/// rows[server][layer * experts + expert]
inline ActivationCounts counts_of(const PlacementShape& shape, const std::vector<std::vector<double>>& rows) {
  ActivationCounts counts(shape.servers.size(), shape.layers, shape.experts);
  for (std::size_t server = 0; server < rows.size(); ++server)
    for (std::uint32_t index = 0; index < rows[server].size(); ++index)
      counts.add(server, index / shape.experts, index % shape.experts, rows[server][index]);
  return counts;
}

/// Different experts for which the server has room, by a formula of the tests' own.
inline std::uint64_t room_of(const PlacementShape& shape, const PlacementServer& server) {
  std::uint64_t room = 0;
  for (const double bytes : server.gpu_bytes) room += static_cast<std::uint64_t>(bytes / shape.expert_bytes);
  return server.up ? std::min(room, std::uint64_t{shape.layers} * shape.experts) : 0;
}

/// Adds slots to random GPUs until the cluster has room: often exactly enough.
inline void make_room(Random& random, PlacementShape& shape) {
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts;
  for (;;) {
    std::uint64_t room = 0;
    for (const PlacementServer& server : shape.servers) room += room_of(shape, server);
    if (room >= all * shape.copies) return;
    PlacementServer& server = shape.servers[below(random, static_cast<std::uint32_t>(shape.servers.size()))];
    if (room_of(shape, server) >= all || server.gpu_bytes.empty()) continue;
    server.gpu_bytes[below(random, static_cast<std::uint32_t>(server.gpu_bytes.size()))] +=
        shape.expert_bytes;
  }
}

/// Unlike servers: 1 to 3 GPUs of 0 to `most_slots` slots and some bytes more, some servers down, some
/// without a GPU. `copies` servers at least are up and have one.
inline PlacementShape random_cluster(Random& random, std::uint32_t most_servers, std::uint32_t most_layers,
                                     std::uint32_t most_experts) {
  PlacementShape shape{.layers = 1 + below(random, most_layers),
                       .experts = 1 + below(random, most_experts),
                       .expert_bytes = std::array{0.5, 1.0, 24.0, 17301504.0}[below(random, 4)],
                       .copies = 1 + below(random, std::min(3U, most_servers)),
                       .seed = random()};
  const std::uint32_t servers = shape.copies + below(random, most_servers - shape.copies + 1);
  const std::uint32_t most_slots = 1 + below(random, shape.layers * shape.experts + 2);
  for (std::uint32_t n = 0; n < servers; ++n) {
    PlacementServer server{.load_bytes_per_second = uniform(random, 1e6, 1e9)};
    const bool needed = n < shape.copies;
    server.up = needed || below(random, 6) > 0;
    const std::uint32_t gpus = needed || below(random, 8) > 0 ? 1 + below(random, 3) : 0;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu)
      server.gpu_bytes.push_back((below(random, most_slots) + 0.25 * below(random, 4)) * shape.expert_bytes);
    shape.servers.push_back(server);
  }
  std::swap(shape.servers.front(), shape.servers[below(random, servers)]);
  make_room(random, shape);
  return shape;
}

/// A layer's counts: none, one expert, all alike, Zipf in random order, or small numbers with ties.
inline std::vector<double> random_layer_counts(Random& random, std::uint32_t experts) {
  std::vector<double> counts(experts, 0);
  const std::uint32_t kind = below(random, 6);
  const double exponent = uniform(random, 0, 2.5);
  for (std::uint32_t e = 0; e < experts; ++e) {
    if (kind == 1) counts[e] = e == 0 ? 1000 : 0;
    if (kind == 2) counts[e] = 40;
    if (kind == 3) counts[e] = below(random, 4);
    if (kind > 3) counts[e] = std::round(1e4 * std::pow(e + 1.0, -exponent));
  }
  for (std::uint32_t left = experts; left > 1; --left)
    std::swap(counts[left - 1], counts[below(random, left)]);
  return counts;
}

inline ActivationCounts random_counts(Random& random, const PlacementShape& shape) {
  ActivationCounts counts(shape.servers.size(), shape.layers, shape.experts);
  for (std::size_t server = 0; server < shape.servers.size(); ++server)
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      const std::vector<double> row = random_layer_counts(random, shape.experts);
      for (std::uint32_t expert = 0; expert < shape.experts; ++expert)
        counts.add(server, layer, expert, row[expert]);
    }
  return counts;
}

/// "" where memory, coverage, copies and servers that are down are respected and all that a placement says
/// follows from on_gpu; else what is wrong. Plain code: it runs a million times.
inline std::string wrong_with(const PlacementShape& shape, const Placement& placement) {
  std::vector<std::uint64_t> held(placement.gpus(), 0);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    for (std::uint32_t expert = 0; expert < shape.experts; ++expert) {
      std::vector<std::uint32_t> holders;
      std::uint32_t servers = 0, gpu = 0;
      for (std::size_t n = 0; n < shape.servers.size(); ++n) {
        bool on = false;
        for (std::size_t k = 0; k < shape.servers[n].gpu_bytes.size(); ++k, ++gpu) {
          if (!placement.on_gpu(gpu, layer, expert)) continue;
          if (!shape.servers[n].up) return "an expert on a server that is down";
          if (placement.server_of(gpu) != n) return "a GPU of another server";
          on = true;
          ++held[gpu];
          holders.push_back(gpu);
        }
        if (on != placement.on_server(n, layer, expert)) return "on_server";
        servers += on ? 1 : 0;
      }
      if (servers != placement.copies(layer, expert)) return "copies";
      if (servers < shape.copies) return "an expert not covered";
      const auto said = placement.holders(layer, expert);
      if (!std::equal(said.begin(), said.end(), holders.begin(), holders.end())) return "holders";
    }
  std::uint32_t gpu = 0;
  for (const PlacementServer& server : shape.servers)
    for (const double bytes : server.gpu_bytes) {
      if (held[gpu] != placement.held(gpu)) return "held";
      if (static_cast<double>(held[gpu++]) * shape.expert_bytes > bytes) return "more than memory";
    }
  return "";
}

}  // namespace moelab::test
