// moelab trace hits: what caches of N experts a layer would find.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/text_table.hpp"
#include "sim/sweep/compared_policies.hpp"
#include "sim/sweep/policy_hits.hpp"
#include "traces/default_trace.hpp"
#include "traces/statistics/cache_curves.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TraceHitsArguments {
  std::string trace;
  std::vector<std::string> policies;
  std::vector<std::int64_t> capacities;
  std::string format = "table";
};

/// A policy's caches of one capacity.
struct CountedCache {
  std::string policy;
  std::uint32_t capacity = 0;
  std::vector<LayerHits> layers;

  LayerHits total() const {
    LayerHits all;
    for (const LayerHits& layer : layers) {
      all.lookups += layer.lookups;
      all.hits += layer.hits;
    }
    return all;
  }
};

/// Of policies that are counted at all capacities in one pass.
std::vector<CountedCache> by_curves(const RoutingTrace& trace, const std::string& policy,
                                    const std::vector<std::uint32_t>& capacities) {
  CacheCurveChoice choice;
  choice.lru = policy == "lru";
  choice.belady = policy == "belady";
  if (policy == "fifo") choice.fifo = capacities;
  std::vector<CountedCache> caches;
  for (const std::uint32_t capacity : capacities) caches.push_back({policy, capacity, {}});
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  for (const LayerCacheHits& layer : cache_curves(trace, choice, threads))
    for (std::size_t i = 0; i < capacities.size(); ++i)
      caches[i].layers.push_back({layer.lookups, choice.lru      ? layer.lru[capacities[i] - 1]
                                                 : choice.belady ? layer.belady[capacities[i] - 1]
                                                                 : layer.fifo[i]});
  return caches;
}

bool has_curves(const ComparedPolicy& policy) {
  return policy.name == "lru" || policy.name == "fifo" || policy.name == "belady";
}

/// Throws InputError with all that cannot be counted.
std::vector<ComparedPolicy> read_policies(const TraceHitsArguments& options, const RoutingTrace& trace) {
  std::vector<ComparedPolicy> policies;
  Problems problems;
  for (const std::string& text : options.policies) {
    const std::string where = "--policy " + shown_word(text);
    if (text == "all") {
      problems.add({where, 0, 0, "expected names of policies: `moelab policies` lists them"});
      continue;
    }
    try {
      policies.push_back(read_policy(compared_family("cache"), text));
      if (has_curves(policies.back())) continue;
      const CachePolicyEntry& entry = *find_cache_policy(policies.back().policy);
      const std::string why = cannot_count(entry, trace);
      if (!why.empty()) problems.add({where, 0, 0, why + ": expected lru, fifo, lfu, sieve, ... or belady"});
    } catch (const InputError& error) {
      problems.add({where, 0, 0, error.problems().front().what});
    }
  }
  for (const std::int64_t capacity : options.capacities)
    if (capacity < 1 || capacity > trace.experts())
      problems.add({"--capacity " + std::to_string(capacity), 0, 0,
                    "must be from 1 to " + std::to_string(trace.experts()) + ": " + options.trace + " has " +
                        std::to_string(trace.experts()) + " experts a layer"});
  problems.throw_if_any();
  return policies;
}

std::vector<CountedCache> counted(const TraceHitsArguments& options, const RoutingTrace& trace) {
  const std::vector<ComparedPolicy> policies = read_policies(options, trace);
  const std::vector<std::uint32_t> capacities(options.capacities.begin(), options.capacities.end());
  std::vector<CountedCache> caches;
  for (const ComparedPolicy& policy : policies) {
    if (has_curves(policy)) {
      for (CountedCache& cache : by_curves(trace, policy.name, capacities))
        caches.push_back(std::move(cache));
      continue;
    }
    const CachePolicyEntry& entry = *find_cache_policy(policy.policy);
    for (const std::uint32_t capacity : capacities)
      caches.push_back({policy.name, capacity, policy_hits(trace, entry, policy.parameters, capacity)});
  }
  return caches;
}

Json layers_json(const CountedCache& cache) {
  Json all = Json::array();
  for (std::size_t layer = 0; layer < cache.layers.size(); ++layer)
    all.push_back(
        {{"layer", layer}, {"requests", cache.layers[layer].lookups}, {"hits", cache.layers[layer].hits}});
  return all;
}

/// Of one cache its layers; of several each with its policy and capacity.
std::string json_of(const std::vector<CountedCache>& caches) {
  if (caches.size() == 1) return Json{{"layers", layers_json(caches.front())}}.dump(2) + "\n";
  Json all = Json::array();
  for (const CountedCache& cache : caches)
    all.push_back({{"policy", cache.policy}, {"capacity", cache.capacity}, {"layers", layers_json(cache)}});
  return Json{{"caches", all}}.dump(2) + "\n";
}

std::string line_of(const std::string& name, const LayerHits& found) {
  std::array<char, 96> line{};
  const double rate = 100 * static_cast<double>(found.hits) / static_cast<double>(found.lookups);
  const int length = std::snprintf(line.data(), line.size(), "%-5s  %13llu  %13llu", name.c_str(),
                                   static_cast<unsigned long long>(found.lookups),
                                   static_cast<unsigned long long>(found.hits));
  const auto rest = line.size() - static_cast<std::size_t>(length);
  if (found.lookups > 0)
    std::snprintf(line.data() + length, rest, "  %10.2f\n", rate);
  else
    std::snprintf(line.data() + length, rest, "  %10s\n", "-");
  return line.data();
}

std::string head_of(const RoutingTrace& trace) {
  return std::string(" experts a layer, cold start; ") + (trace.synthetic() ? "synthetic" : "recorded") +
         " trace of " + std::to_string(trace.tokens()) + " tokens\n\n";
}

std::string table_of(const CountedCache& cache, const RoutingTrace& trace) {
  std::string text = cache.policy + ", " + std::to_string(cache.capacity) + " of " +
                     std::to_string(trace.experts()) + head_of(trace) +
                     "layer        lookups           hits  hit rate %\n";
  for (std::size_t layer = 0; layer < cache.layers.size(); ++layer)
    text += line_of(std::to_string(layer), cache.layers[layer]);
  return text + line_of("total", cache.total());
}

/// A row a policy, a column a capacity: hit rates of all layers together.
std::string table_of(const std::vector<CountedCache>& caches, const std::vector<std::int64_t>& capacities,
                     const RoutingTrace& trace) {
  std::vector<std::vector<std::string>> rows{{"hit rate %, of experts a layer"}};
  for (const std::int64_t capacity : capacities) rows.front().push_back(std::to_string(capacity));
  for (std::size_t i = 0; i < caches.size(); ++i) {
    if (i % capacities.size() == 0) rows.push_back({caches[i].policy});
    const LayerHits all = caches[i].total();
    rows.back().push_back(
        all.lookups == 0 ? "-"
                         : fixed(100 * static_cast<double>(all.hits) / static_cast<double>(all.lookups), 2));
  }
  return "caches of " + std::to_string(trace.experts()) + head_of(trace) + align_columns(rows, 1);
}

void hits(const TraceHitsArguments& options) {
  const RoutingTrace trace = open_routing_trace(options.trace);
  const std::vector<CountedCache> caches = counted(options, trace);
  std::cout << (options.format == "json" ? json_of(caches)
                : caches.size() == 1     ? table_of(caches.front(), trace)
                                         : table_of(caches, options.capacities, trace));
}

}  // namespace

void add_trace_hits(CLI::App& trace) {
  const auto options = std::make_shared<TraceHitsArguments>();
  CLI::App* command = trace.add_subcommand(
      "hits",
      "Count what caches of N experts a layer find: cold start, a token's experts in ascending id order, "
      "each a step of its own");
  command->add_option("FILE", options->trace, "Routing trace (traces/README.md)")->required();
  command
      ->add_option(
          "--policy", options->policies,
          "Cache policies between commas, with parameters as in `moelab compare` "
          "(lru,lfu,lfu:forget=1,belady; `moelab policies` lists them): those that keep whole "
          "experts, a layer by itself; belady finds the most of those that keep each expert they used")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--capacity", options->capacities,
                   "Experts that a layer's cache holds, 1 to all; several between commas")
      ->delimiter(',')
      ->required();
  add_format(*command, options->format);
  add_example(*command,
              "moelab trace hits debian-moe-8x32 --policy lru,lfu,sieve,belady --capacity 8,16\n"
              "  moelab trace hits gptoss.safetensors --policy lru --capacity 8 --format json");
  command->callback([options] { hits(*options); });
}

}  // namespace moelab::cli
