#include "sim/sweep/comparison_json.hpp"

#include "models/json.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const CacheComparison& c, const ComparedBudget& budget, const ComparedCache& cache) {
  Json json = {{"name", cache.name}, {"policy", cache.policy}};
  if (!cache.parameters.empty()) json["parameters"] = cache.parameters;
  if (!cache.refused.empty()) {
    json["refused"] = cache.refused;
    return json;
  }
  json["tpot_s"] = cache.mean_of(&CacheSample::tpot_s);
  json["hit_share"] = cache.mean_of(&CacheSample::hit_share);
  json["parts_share"] = cache.mean_of(&CacheSample::parts_share);
  json["bound"] = cache.knows_future;
  if (const ComparedCache* const bound = budget.bound())
    json["regret"] = {
        {"hit_share", bound->mean_of(&CacheSample::hit_share) - cache.mean_of(&CacheSample::hit_share)},
        {"tpot_s", cache.mean_of(&CacheSample::tpot_s) - bound->mean_of(&CacheSample::tpot_s)}};
  if (!cache.knows_future) {
    json["rank"] = cache.rank.rank;
    json["behind_best_s"] = cache.rank.behind.mean;
    if (cache.rank.best_rank) {
      json["behind_best_half_width_s"] = cache.rank.behind.half_width;
      json["ranks"] = {*cache.rank.best_rank, *cache.rank.worst_rank};
      json["noise"] = cache.rank.rank > 1 && cache.rank.noise();
    }
  }
  for (std::size_t i = 0; i < cache.by_seed.size(); ++i)
    json["seeds"].push_back({{"seed", c.first_seed + i},
                             {"tpot_s", cache.by_seed[i].tpot_s},
                             {"hit_share", cache.by_seed[i].hit_share},
                             {"parts_share", cache.by_seed[i].parts_share}});
  return json;
}

}  // namespace

std::string compare_json(const CacheComparison& c) {
  Json budgets = Json::array();
  for (const ComparedBudget& budget : c.budgets) {
    Json caches = Json::array();
    for (const ComparedCache& cache : budget.caches) caches.push_back(json_of(c, budget, cache));
    budgets.push_back({{"budget", budget.budget}, {"budget_bytes", budget.bytes}, {"caches", caches}});
  }
  const Json whole = {{"scenario", c.scenario}, {"system", c.system},         {"model", c.model},
                      {"device", c.device},     {"first_seed", c.first_seed}, {"seeds", c.seeds},
                      {"budgets", budgets}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moelab
