// The entries that storage_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/storage/storage.hpp"

namespace moelab {

StoragePolicyEntry fixed_split_entry();             // fixed
StoragePolicyEntry whole_layer_entry();             // whole-layer
StoragePolicyEntry bandwidth_proportional_entry();  // bandwidth-proportional
StoragePolicyEntry tri_state_entry();               // tri-state

/// Throws InputError when a split of the policy named breaks a capacity or the GPU budget.
void check_fits(const StorageSplit& split, std::string_view policy);

}  // namespace moelab
