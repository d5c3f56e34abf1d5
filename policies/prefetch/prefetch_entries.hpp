// The entries that prefetch_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/prefetch/prefetch.hpp"

namespace moelab {

PrefetchPolicyEntry no_prefetch_entry();            // none
PrefetchPolicyEntry layer_window_entry();           // layer-window
PrefetchPolicyEntry moe_infinity_prefetch_entry();  // moe-infinity
PrefetchPolicyEntry gate_prediction_entry();        // gate-prediction
PrefetchPolicyEntry hybrimoe_prefetch_entry();      // hybrimoe

}  // namespace moelab
