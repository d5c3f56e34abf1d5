// The entries that placement_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/placement/placement.hpp"

namespace moelab {

PlacementPolicyEntry prism_entry();              // prism
PlacementPolicyEntry uniform_placement_entry();  // uniform
PlacementPolicyEntry redundance_entry();         // redundance
PlacementPolicyEntry smartmoe_entry();           // smartmoe
PlacementPolicyEntry eplb_entry();               // eplb
PlacementPolicyEntry random_placement_entry();   // random
PlacementPolicyEntry optimal_placement_entry();  // optimal

}  // namespace moelab
