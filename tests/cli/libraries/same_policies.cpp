// Policies of moelab's own under other names, as a library outside it would bring them: what they do must not
// depend on where they come from.
#include "policies/policy_library.hpp"

#include "policies/batching/kv_pool.cpp"
#include "policies/batching/vllm_v1_batching.cpp"
#include "policies/cache/lfu.cpp"
#include "policies/cache/lru.cpp"
#include "policies/cache/zipmoe_cache.cpp"
#include "policies/placement/coverage.cpp"
#include "policies/placement/uniform_placement.cpp"
#include "policies/routing/smoe_routing.cpp"

namespace {

template <class Entry>
Entry renamed(Entry entry, std::string_view name) {
  entry.info.name = name;
  return entry;
}

}  // namespace

MOELAB_POLICIES(renamed(moelab::lru_cache_entry(), "my-lru"), renamed(moelab::lfu_cache_entry(), "my-lfu"),
                renamed(moelab::zipmoe_cache_entry(), "my-zipmoe"),
                renamed(moelab::smoe_routing_entry(), "my-smoe"),
                renamed(moelab::vllm_v1_batching_entry(), "my-vllm-v1"),
                renamed(moelab::uniform_placement_entry(), "my-uniform"))
