#include "sim/sweep/comparison_json.hpp"

#include "models/json.hpp"
#include "sim/sweep/overall_ranks.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PolicyComparison& c, const ComparedBlock& block, const ComparedPolicy& cache) {
  Json json = {{"name", cache.name}, {"policy", cache.policy}};
  if (!cache.parameters.empty()) json["parameters"] = cache.parameters;
  if (!cache.refused.empty()) {
    json["refused"] = cache.refused;
    return json;
  }
  const std::string time(judged_words(c.by).key);
  json[time] = cache.mean_of(&PolicySample::seconds);
  json["hit_share"] = cache.mean_of(&PolicySample::hit_share);
  json["parts_share"] = cache.mean_of(&PolicySample::parts_share);
  json["bound"] = cache.no_rival;
  if (cache.requests.asked > 0)
    json["requests"] = {{"asked", cache.requests.asked},
                        {"failed", cache.requests.failed},
                        {"delayed", cache.requests.delayed}};
  if (!cache.unranked.empty()) json["unranked"] = cache.unranked;
  if (const ComparedPolicy* const bound = block.bound())
    json["regret"] = {
        {"hit_share", bound->mean_of(&PolicySample::hit_share) - cache.mean_of(&PolicySample::hit_share)},
        {time, cache.mean_of(&PolicySample::seconds) - bound->mean_of(&PolicySample::seconds)}};
  if (!cache.no_rival && cache.unranked.empty()) {
    json["rank"] = cache.rank.rank;
    json["behind_best_s"] = cache.rank.behind.mean;
    if (cache.rank.best_rank) {
      json["behind_best_half_width_s"] = cache.rank.behind.half_width;
      json["ranks"] = {*cache.rank.best_rank, *cache.rank.worst_rank};
      json["noise"] = cache.rank.place > 1 && cache.rank.noise();
    }
  }
  for (std::size_t i = 0; i < cache.by_seed.size(); ++i)
    json["seeds"].push_back({{"seed", c.first_seed + i},
                             {time, cache.by_seed[i].seconds},
                             {"hit_share", cache.by_seed[i].hit_share},
                             {"parts_share", cache.by_seed[i].parts_share}});
  return json;
}

/// Which block it is: its routing, where that is not the scenario's, and its budget.
Json place_of_block(const ComparedBlock& block) {
  Json json = Json::object();
  if (!block.trace.empty()) json["trace"] = block.trace;
  if (!block.law.empty()) json["law"] = block.law;
  json["budget"] = block.budget;
  json["budget_bytes"] = block.bytes;
  return json;
}

Json block_json(const PolicyComparison& c, const ComparedBlock& block) {
  Json policies = Json::array();
  for (const ComparedPolicy& policy : block.policies) policies.push_back(json_of(c, block, policy));
  Json json = place_of_block(block);
  json["policies"] = policies;
  return json;
}

Json overall_json(const PolicyComparison& c) {
  Json all = Json::array();
  for (const OverallRank& one : overall_ranks(c))
    all.push_back({{"name", one.name},
                   {"mean_rank", one.mean_rank},
                   {"blocks", one.blocks},
                   {"best_in", one.best_in},
                   {"level_in", one.level_in}});
  return all;
}

}  // namespace

std::string compare_json(const PolicyComparison& c) {
  Json blocks = Json::array();
  for (const ComparedBlock& block : c.blocks) blocks.push_back(block_json(c, block));
  Json whole = {{"scenario", c.scenario}, {"system", c.system},         {"model", c.model},
                {"device", c.device},     {"first_seed", c.first_seed}, {"seeds", c.seeds}};
  if (c.family != "cache") whole["family"] = c.family;
  whole["judged_by"] = judged_words(c.by).key;
  whole["budgets"] = blocks;
  for (const ComparedBlock& block : c.unfit) {
    Json unfit = place_of_block(block);
    unfit["why"] = block.why_unfit();
    whole["unfit"].push_back(unfit);
  }
  if (c.blocks.size() > 1) whole["overall"] = overall_json(c);
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moelab
