// moelab trace hits: what a cache of N experts a layer would find.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/default_trace.hpp"
#include "traces/statistics/cache_curves.hpp"

namespace moelab::cli {
namespace {

struct TraceHitsArguments {
  std::string trace;
  std::string policy;
  std::int64_t capacity = 0;
  std::string format = "table";
};

struct Found {
  std::uint64_t lookups = 0;
  std::uint64_t hits = 0;
};

CacheCurveChoice choice_of(CurvePolicy policy, std::uint32_t capacity) {
  CacheCurveChoice choice;
  choice.lru = policy == CurvePolicy::lru;
  choice.belady = policy == CurvePolicy::belady;
  if (policy == CurvePolicy::fifo) choice.fifo = {capacity};
  if (policy == CurvePolicy::lfu) choice.lfu = {capacity};
  return choice;
}

std::uint64_t hits_of(const LayerCacheHits& layer, CurvePolicy policy, std::uint32_t capacity) {
  switch (policy) {
    case CurvePolicy::lru:
      return layer.lru[capacity - 1];
    case CurvePolicy::belady:
      return layer.belady[capacity - 1];
    case CurvePolicy::fifo:
      return layer.fifo.front();
    case CurvePolicy::lfu:
      return layer.lfu.front();
  }
  return 0;
}

std::string json_of(const std::vector<Found>& layers) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    all.push_back({{"layer", layer}, {"requests", layers[layer].lookups}, {"hits", layers[layer].hits}});
  return nlohmann::ordered_json{{"layers", all}}.dump(2) + "\n";
}

std::string line_of(const std::string& name, const Found& found) {
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

std::string table_of(const TraceHitsArguments& options, const RoutingTrace& trace,
                     const std::vector<Found>& layers) {
  std::string text =
      options.policy + ", " + std::to_string(options.capacity) + " of " + std::to_string(trace.experts()) +
      " experts a layer, cold start; " + (trace.synthetic() ? "synthetic" : "recorded") + " trace of " +
      std::to_string(trace.tokens()) + " tokens\n\nlayer        lookups           hits  hit rate %\n";
  Found total;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    text += line_of(std::to_string(layer), layers[layer]);
    total.lookups += layers[layer].lookups;
    total.hits += layers[layer].hits;
  }
  return text + line_of("total", total);
}

void hits(const TraceHitsArguments& options) {
  const CurvePolicy policy = cache_policy(options.policy, "--policy");
  const RoutingTrace trace = open_routing_trace(options.trace);
  if (options.capacity < 1 || options.capacity > trace.experts())
    throw InputError("--capacity " + std::to_string(options.capacity),
                     "must be from 1 to " + std::to_string(trace.experts()) + ": " + options.trace + " has " +
                         std::to_string(trace.experts()) + " experts a layer");
  const auto capacity = static_cast<std::uint32_t>(options.capacity);
  std::vector<Found> layers;
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  for (const LayerCacheHits& layer : cache_curves(trace, choice_of(policy, capacity), threads))
    layers.push_back({layer.lookups, hits_of(layer, policy, capacity)});
  std::cout << (options.format == "json" ? json_of(layers) : table_of(options, trace, layers));
}

}  // namespace

void add_trace_hits(CLI::App& trace) {
  const auto options = std::make_shared<TraceHitsArguments>();
  CLI::App* command = trace.add_subcommand(
      "hits",
      "Count what a cache of N experts a layer finds: cold start, a token's experts in ascending id order, "
      "a missing one always enters");
  command->add_option("FILE", options->trace, "Routing trace (traces/README.md)")->required();
  command
      ->add_option("--policy", options->policy,
                   "Who leaves: lru, fifo, lfu (counts start again when an expert enters; ties by lru) or "
                   "belady (the one used again farthest in the future: the most that can be found)")
      ->required();
  command->add_option("--capacity", options->capacity, "Experts that a layer's cache holds, 1 to all")
      ->required();
  add_format(*command, options->format);
  add_example(*command, "moelab trace hits gptoss.safetensors --policy lru --capacity 8 --format json");
  command->callback([options] { hits(*options); });
}

}  // namespace moelab::cli
