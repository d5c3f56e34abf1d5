// The entries that cache_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/cache/cache.hpp"

namespace moelab {

CachePolicyEntry no_cache_entry();            // none
CachePolicyEntry fifo_cache_entry();          // fifo
CachePolicyEntry lru_cache_entry();           // lru
CachePolicyEntry lfu_cache_entry();           // lfu
CachePolicyEntry marking_cache_entry();       // marking
CachePolicyEntry moe_infinity_cache_entry();  // moe-infinity
CachePolicyEntry zipmoe_cache_entry();        // zipmoe
CachePolicyEntry score_average_entry();       // score-average
CachePolicyEntry hybrimoe_cache_entry();      // hybrimoe
CachePolicyEntry fixed_experts_entry();       // fixed-experts
CachePolicyEntry fixed_layers_entry();        // fixed-layers
CachePolicyEntry fixed_popular_entry();       // fixed-popular
CachePolicyEntry belady_cache_entry();        // belady

}  // namespace moelab
