// Prefetch family: which experts of later layers to fetch while this layer computes.
//
// The serving loop reports each layer's routing once its gate has run, then asks what to fetch. Fetches run
// at a priority below every demand load; what has not started when its layer comes up is cancelled and
// demanded instead.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "policies/cache/cache.hpp"
#include "policies/policy_info.hpp"

namespace moelab {

struct PrefetchShape {
  std::uint32_t layers = 0;   // MoE layers that run in a step
  std::uint32_t experts = 0;  // routed experts a layer
  std::uint32_t top_k = 0;
};

/// A wish: expert `expert` of MoE layer `layer` (counted over the trace's layer axis). Listed most urgent
/// first.
struct Fetch {
  std::uint32_t layer;
  std::uint32_t expert;
  bool operator==(const Fetch&) const = default;
};

class PrefetchPolicy {
 public:
  virtual ~PrefetchPolicy() = default;
  virtual void begin_request() {}  // a new request (or batch of requests) begins
  virtual void begin_step() {}     // a new forward pass begins
  /// MoE layer `layer` has routed; `uses` as in the cache family with objects numbered by expert within the
  /// layer. Appends what to fetch now to `fetches` (given empty).
  virtual void after_gate(std::uint32_t layer, std::span<const ExpertUse> uses,
                          std::vector<Fetch>& fetches) = 0;
};

struct PrefetchPolicyEntry {
  PolicyInfo info;
  std::unique_ptr<PrefetchPolicy> (*make)(const PrefetchShape& shape, const PolicyParameters& parameters);
};
/// The family's one table.
const std::vector<PrefetchPolicyEntry>& prefetch_policies();
const PrefetchPolicyEntry* find_prefetch_policy(std::string_view name);

}  // namespace moelab
