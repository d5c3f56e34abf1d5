#include "sim/scenario/paging_config.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/yaml_reader.hpp"
#include "policies/cache/cache.hpp"
#include "policies/residency/residency.hpp"
#include "policies/routing/routing.hpp"
#include "policies/storage/storage.hpp"
#include "sim/scenario/policy_choice.hpp"
#include "sim/scenario/workload_config.hpp"

namespace moelab {
namespace {

/// Keys that stood under `paging` until every system had them.
void refuse_moved_keys(const YamlMap& paging) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kMoved = {
      {{"batching", "batching"},
       {"max_tokens", "batching.max_tokens"},
       {"block_tokens", "kv.block_tokens"},
       {"swap_space", "kv.swap_space"},
       {"kv_first", "kv.policy"},
       {"kv_grows", "kv.grows"}}};
  for (const auto& [old_key, now] : kMoved)
    if (paging.has(old_key))
      paging.fail(old_key,
                  "'paging." + std::string(old_key) + "' is now '" + std::string(now) + "', beside 'paging'");
}

/// Why a cache policy cannot pin experts beside a window; "" where it can.
std::string cannot_pin(const CachePolicyEntry& cache) {
  if (cache.uses_pools)
    return "keeps experts in several states of compression; what is pinned beside a window lies there as it "
           "computes. Expected a policy of one state, such as 'fixed-popular' or 'lfu'";
  if (cache.needs_future)
    return "looks up which experts will be used, and which requests meet in a step depends on when they "
           "come. Expected a policy that learns, such as 'lfu'";
  if (cache.per_model && !cache.needs_profile)
    return std::string(cache.preloads ? "holds whole layers" : "weighs experts of all layers together") +
           "; pinned experts are as many in every layer, so that each needs the same room in the window. "
           "Expected a policy that works layer by layer, such as 'fixed-popular' or 'lfu'" +
           (cache.preloads ? ", or 'paging.storage: {policy: whole-layer}' with backend 'resident'" : "");
  return "";
}

/// Experts that stay in GPU memory beside the window.
void read_pinned(const YamlMap& root, SystemConfig& system) {
  const auto cache = root.optional_map("cache");
  if (!cache) return;
  system.cache = read_policy(*cache, cache_policies());
  if (const std::string why = cannot_pin(*find_cache_policy(system.cache.name)); !why.empty())
    cache->fail("policy", "cache '" + system.cache.name + "' " + why);
  // A policy that is not understood pins some: one mistake is one problem.
  const bool none =
      cache->has("policy") && cache->node("policy").is_scalar() && cache->text("policy") == "none";
  if (!none) system.paging->pinned = static_cast<std::uint32_t>(cache->integer("experts", 1, kMostCounted));
  const std::vector<std::string>& backends = system.paging->backends;
  if (!none && !backends.empty() &&
      std::ranges::all_of(backends, [](const std::string& name) { return name == "resident"; }))
    cache->fail(
        "experts",
        "cache pins experts beside a window, and with 'paging.backends: [resident]' there is none: all "
        "experts are in GPU memory. Expected a backend that streams, such as 'host', or no 'cache'");
  cache->done();
}

}  // namespace

PagingConfig read_paging(const YamlMap& root) {
  PagingConfig p;
  const YamlMap paging = root.map("paging");
  for (const YamlNode& item : paging.list("backends")) {
    const std::string name = item.text("a backend");
    if (std::find(p.backends.begin(), p.backends.end(), name) != p.backends.end())
      item.fail("backend '" + name + "' is listed twice");
    p.backends.push_back(name);
  }
  if (p.backends.empty() && paging.has("backends") && paging.node("backends").is_list())
    paging.fail("backends",
                "no backend is listed; expected some of 'resident', a codec of the device's "
                "gpu.codecs, 'host' and 'ssd'");
  read_policy_section(paging, "storage", storage_policies(), p.storage);
  read_policy_section(paging, "residency", residency_policies(), p.residency);
  refuse_moved_keys(paging);
  paging.done();
  return p;
}

void read_window(const YamlMap& root, SystemConfig& system) {
  static const std::vector<std::string> kFetch = {"layer", "ahead", "used"};
  PagingConfig& paging = *system.paging;
  paging.fetch = static_cast<PagingConfig::Fetch>(root.choice("fetch", kFetch, 0));
  system.page_cache = root.boolean("page_cache", false);
  const auto reads = std::find(paging.backends.begin(), paging.backends.end(), "ssd");
  if (system.page_cache && reads == paging.backends.end())
    root.fail("page_cache",
              "page_cache keeps what is read from an SSD in host memory, and no backend is one; expected "
              "'ssd' among 'paging.backends', or no page_cache");
  read_pinned(root, system);
  read_policy_section(root, "routing", routing_policies(), system.routing);
  if (system.routing.name != "model" && paging.fetch == PagingConfig::Fetch::layer)
    root.fail("routing",
              "routing '" + system.routing.name +
                  "' spares tokens the wait for experts that are not there; with 'fetch: layer' the window "
                  "takes in whole layers before their gates have run, and a layer waits for all of it "
                  "whatever is chosen, so that no choice saves anything. Expected 'fetch: ahead', where what "
                  "was not chosen is not waited for, or 'fetch: used'");
}

}  // namespace moelab
