#include "sim/sweep/compared_family.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "policies/policy_families.hpp"
#include "sim/scenario/scenario_document.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using System = SystemConfig;

std::string lacks_cache(const System& s) {
  return s.placed || (s.paging && s.paging->pinned == 0)
             ? "keeps experts by no cache policy; expected a system with a cache, by --system"
             : "";
}
std::string lacks_pools(const System& s) {
  const CachePolicyEntry* const cache = find_cache_policy(s.cache.name);
  return s.placed || cache == nullptr || !cache->uses_pools
             ? "has no pools to plan; expected a system whose cache has pools, such as zipmoe, by --system"
             : "";
}
std::string lacks_gates(const System& s) {
  return s.placed ? "has experts on several servers, where no routing policy chooses; expected another, by "
                    "--system"
                  : "";
}
/// Of what only a system does that loads single experts when they are used.
std::string lacks_loading(const System& s) {
  return s.paging || s.placed
             ? "does not load experts one by one as they are used; expected a system with 'weights: whole' "
               "or 'compressed', by --system"
             : "";
}
std::string lacks_batching(const System& s) {
  return !s.batching || s.placed
             ? "has no requests that come and go on one server; expected a system with 'batching', by "
               "--system or --set overrides.system.batching=\"{policy: continuous}\""
             : "";
}
std::string lacks_pages(const System& s) {
  return s.paging ? "" : "has no experts in pages; expected a system with 'weights: paged', by --system";
}

std::string lacks_servers(const System& s) {
  return s.placed ? ""
                  : "does not divide experts among servers; expected a scenario with a cluster and a system "
                    "with 'weights: placed', such as prism in prism-mixtral-bigbench";
}

Json* section_of(const ComparedFamily& family, Json& system) {
  Json* section = &system;
  for (const std::string_view key : family.place) {
    if (!section->is_object() || !section->contains(key)) return nullptr;
    section = &(*section)[std::string(key)];
  }
  return section->is_object() ? section : nullptr;
}

/// Takes the policy out of a section, and what is only for it.
void erase_policy(const ComparedFamily& family, std::string_view policy, Json& section) {
  section.erase("policy");
  for (const PolicyInfo& info : policies_of(family))
    if (info.name == policy)
      for (const PolicyParameter& p : info.parameters) section.erase(std::string(p.name));
}

/// What a section says beside its policy, and only some policies have a use for.
void erase_unused(const ComparedFamily& family, std::string_view policy, Json& section) {
  if (family.name == "planning" && policy != "fixed") section.erase("ratios");
  if (family.name == "prefetch" && policy == "none")
    for (const char* key : {"buffer", "buffer_layers"}) section.erase(key);
}

}  // namespace

const std::vector<ComparedFamily>& compared_families() {
  static const std::vector<ComparedFamily> families = {
      {"routing", {"routing"}, "", lacks_gates, [](const System& s) { return s.routing; }},
      {"schedule", {"schedule"}, "exhaustive", lacks_loading, [](const System& s) { return s.schedule; }},
      {"cache", {"cache"}, "belady", lacks_cache, [](const System& s) { return s.cache; }},
      {"planning", {"planning"}, "", lacks_pools, [](const System& s) { return s.planning; }},
      {"prefetch", {"prefetch"}, "", lacks_loading, [](const System& s) { return s.prefetch; }},
      {"execution", {"execution"}, "", lacks_loading, [](const System& s) { return s.execution; }},
      {"batching", {"batching"}, "", lacks_batching, [](const System& s) { return s.batching->policy; }},
      {"pressure", {"kv"}, "", lacks_batching, [](const System& s) { return s.kv.pressure; }},
      {"storage", {"paging", "storage"}, "", lacks_pages, [](const System& s) { return s.paging->storage; }},
      {"residency",
       {"paging", "residency"},
       "",
       lacks_pages,
       [](const System& s) { return s.paging->residency; }},
      {"placement",
       {"placement"},
       "",
       lacks_servers,
       [](const System& s) { return s.placed->placement; },
       true}};
  return families;
}

const ComparedFamily& compared_family(const std::string& name) {
  std::vector<std::string> known;
  for (const ComparedFamily& family : compared_families()) {
    if (family.name == name) return family;
    known.emplace_back(family.name);
  }
  throw InputError("family '" + shown_word(name) + "'",
                   "is none whose policies are compared" + suggestion(name, known));
}

std::vector<PolicyInfo> policies_of(const ComparedFamily& family) {
  for (PolicyFamily& all : policy_families())
    if (all.name == family.name) return std::move(all.policies);
  return {};
}

bool is_a_bound(const ComparedFamily& family, std::string_view policy) {
  if (family.name == "cache") return find_cache_policy(policy)->needs_future;
  return !family.bound.empty() && policy == family.bound;
}

bool names_a_bound(const Json& system) {
  return std::any_of(compared_families().begin(), compared_families().end(),
                     [&](const ComparedFamily& family) {
                       const Json* section = &system;
                       for (const std::string_view key : family.place) {
                         const auto found = section->find(std::string(key));
                         if (found == section->end()) return false;
                         section = &*found;
                       }
                       const auto policy = section->find("policy");
                       if (policy == section->end() || !policy->is_string()) return false;
                       const auto& name = policy->get_ref<const std::string&>();
                       if (family.name == "cache" && find_cache_policy(name) == nullptr) return false;
                       return is_a_bound(family, name);
                     });
}

std::string document_with_policy(const ComparedFamily& family, const SystemConfig& system,
                                 const std::string& document, std::string_view policy,
                                 const PolicyParameters& parameters) {
  if (family.name == "cache") return document_with_cache(document, policy, parameters);
  const std::string own = family.own(system).name;
  if (own == policy && parameters.empty()) return document;
  Json changed = Json::parse(document);
  Json* section = &changed["systems"][0];
  for (const std::string_view key : family.place) section = &(*section)[std::string(key)];
  if (section->is_null()) *section = Json::object();  // what the system has not said, it has by default
  if (own != policy) {
    erase_policy(family, own, *section);
    erase_unused(family, policy, *section);
  }
  (*section)["policy"] = policy;
  for (const auto& [name, value] : parameters) (*section)[name] = value;
  return changed.dump();
}

std::string document_without_policy(const ComparedFamily& family, const SystemConfig& system,
                                    const std::string& document) {
  Json rest = Json::parse(document);
  for (const char* key : {"name", "question", "seed", "budget", "policy_libraries"}) rest.erase(key);
  Json& only = rest["systems"][0];
  for (const char* key : {"title", "source"}) only.erase(key);
  if (Json* const section = section_of(family, only)) erase_policy(family, family.own(system).name, *section);
  return rest.dump();
}

}  // namespace moelab
