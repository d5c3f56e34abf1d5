// The families of policies that can be compared: where a system names its policy of each, and what else of
// the system goes with it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "sim/scenario/system_config.hpp"

namespace moelab {

struct ComparedFamily {
  std::string_view name;                // as policy_families() calls it
  std::vector<std::string_view> place;  // of the section in a system that names the policy
  /// The policy that is no rival of the others but what regret is counted to; "": there is none.
  std::string_view bound;
  /// "" where the system chooses by a policy of this family; else why not, and what is expected.
  std::string (*why_not)(const SystemConfig& system);
  /// The system's own, where it has one.
  PolicyChoice (*own)(const SystemConfig& system);
  /// Its policies choose for the servers of a cluster; the others' for one machine.
  bool of_clusters = false;

  /// What people call the share of experts that are found: in a cache, or on the user's own server.
  std::string_view hits() const { return of_clusters ? "local" : "hits"; }
};

const std::vector<ComparedFamily>& compared_families();
/// Throws InputError with the nearest name for a family that is none of these.
const ComparedFamily& compared_family(const std::string& name);

/// What the family's policies say of themselves, those of libraries included.
std::vector<PolicyInfo> policies_of(const ComparedFamily& family);
/// Whether a policy, which exists, is no rival of the others: it knows the future, or tries everything.
bool is_a_bound(const ComparedFamily& family, std::string_view policy);
/// Whether a system, as a scenario_document() or a result of any origin has it, names such a policy of some
/// family. What is no system, and a policy that is not known here, is no bound.
bool names_a_bound(const nlohmann::ordered_json& system);

/// A scenario_document() with another policy of the family in its system, with that policy's default
/// parameters but for those given, which are not checked here. What else the section says stays where the
/// policy has a use for it. Where the system has the policy already, it stays but for the parameters given.
std::string document_with_policy(const ComparedFamily& family, const SystemConfig& system,
                                 const std::string& document, std::string_view policy,
                                 const PolicyParameters& parameters);
/// The document without the system's policy of the family and that policy's parameters, its budget, seed,
/// names and libraries: what two comparisons have to share to be held against each other.
std::string document_without_policy(const ComparedFamily& family, const SystemConfig& system,
                                    const std::string& document);

}  // namespace moelab
