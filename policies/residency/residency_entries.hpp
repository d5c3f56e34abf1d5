// The entries that residency_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/residency/residency.hpp"

namespace moelab {

ResidencyPolicyEntry fixed_residency_entry();  // fixed
ResidencyPolicyEntry budget_aware_entry();     // budget-aware

}  // namespace moelab
