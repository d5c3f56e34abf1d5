// The entries that planning_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/planning/planning.hpp"

namespace moelab {

PlanningPolicyEntry fixed_plan_entry();
PlanningPolicyEntry zipmoe_plan_entry();

}  // namespace moelab
