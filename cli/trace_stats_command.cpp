// moelab trace stats: what a routing trace is like, layer by layer.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "cli/trace_stats_plot.hpp"
#include "traces/default_trace.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string trace, plot, format = "table";
};

/// A column of the table: a figure of a layer.
struct Column {
  const char* name;
  const char* form;
  std::function<double(const LayerStatistics&)> of;
};

std::vector<Column> columns(const RoutingStatistics& statistics) {
  const std::size_t quarter = statistics.capacities[1] - 1, half = statistics.capacities[2] - 1;
  using L = LayerStatistics;
  std::vector<Column> all{{"top 1/4", "%.3f", [](const L& l) { return l.top_quarter; }},
                          {"entropy", "%.2f", [](const L& l) { return l.entropy; }},
                          {"reuse", "%.3f", [](const L& l) { return l.reuse; }},
                          {"(indep.)", "%.3f", [](const L& l) { return l.independent_reuse; }},
                          {"in 16", "%.1f", [](const L& l) { return l.distinct[3]; }},
                          {"LRU 25%", "%.3f", [quarter](const L& l) { return l.lru[quarter]; }},
                          {"50%", "%.3f", [half](const L& l) { return l.lru[half]; }},
                          {"LFU 25%", "%.3f", [](const L& l) { return l.lfu[1]; }},
                          {"Belady 25%", "%.3f", [quarter](const L& l) { return l.belady[quarter]; }},
                          {"50%", "%.3f", [half](const L& l) { return l.belady[half]; }},
                          {"transition", "%.3f", [](const L& l) { return l.transition_recall; }},
                          {"(popular)", "%.3f", [](const L& l) { return l.popularity_recall; }},
                          {"prompts", "%.3f", [](const L& l) { return l.prompt_divergence; }},
                          {"(chance)", "%.3f", [](const L& l) { return l.prompt_chance; }}};
  if (!statistics.description.domains.empty())
    all.push_back({"domains", "%.3f", [](const L& l) { return l.domain_divergence; }});
  if (statistics.description.gate_scores) {
    all.push_back({"gate 1", "%.3f", [](const L& l) { return l.gates.front(); }});
    all.push_back({"gate k", "%.3f", [](const L& l) { return l.gates.back(); }});
  }
  return all;
}

std::string cell(double value, const Column& column) {
  char text[32] = "-";
  if (std::isfinite(value)) std::snprintf(text, sizeof text, column.form, value);
  const std::size_t width = std::max<std::size_t>(5, std::string(column.name).size());
  return std::string(width + 1 - std::min(width, std::string(text).size()), ' ') + text;
}

void print_table(const RoutingStatistics& s) {
  std::cout << about_line(s) << "\n\nlayer   tokens";
  const std::vector<Column> shown = columns(s);
  for (const Column& c : shown) {
    const std::size_t width = std::max<std::size_t>(5, std::string(c.name).size());
    std::cout << std::string(width + 1 - std::string(c.name).size(), ' ') << c.name;
  }
  std::cout << "\n";
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    std::printf("%5zu %8llu", l, static_cast<unsigned long long>(s.layers[l].tokens));
    std::fflush(stdout);
    for (const Column& c : shown) std::cout << cell(c.of(s.layers[l]), c);
    std::cout << "\n";
  }
  std::cout << " mean         ";
  for (const Column& c : shown) std::cout << cell(mean_over_layers(s, c.of), c);
  std::cout << "\n\ntop 1/4: share of the uses of the busiest quarter of the experts; entropy of the uses in "
               "bits; reuse: "
               "share of a token's experts\nthat the token before used, and if tokens were independent; in "
               "16: distinct "
               "experts in 16 tokens; LRU, LFU, Belady: hit rates of a\ncache of so many of a layer's "
               "experts; transition: "
               "share of the experts foretold by the layer before's, and by popularity; prompts,\ndomains: "
               "how far they "
               "differ (Jensen-Shannon, bits); gate: mean weight of the first and the last chosen expert\n";
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json numbers(const std::vector<double>& values) {
  Json all = Json::array();
  for (const double value : values) all.push_back(number(value));
  return all;
}

Json layer_json(const LayerStatistics& l, std::size_t number_of_layer) {
  Json windows = Json::object();
  for (std::size_t w = 0; w < l.distinct.size(); ++w)
    windows[std::to_string(UseStatistics::kWindows[w])] = number(l.distinct[w]);
  return {{"layer", number_of_layer},
          {"tokens", l.tokens},
          {"uses", l.uses},
          {"top_quarter", number(l.top_quarter)},
          {"entropy_bits", number(l.entropy)},
          {"reuse", number(l.reuse)},
          {"independent_reuse", number(l.independent_reuse)},
          {"distinct_experts_in_window", windows},
          {"transition_recall", number(l.transition_recall)},
          {"popularity_recall", number(l.popularity_recall)},
          {"gates_by_rank", numbers(l.gates)},
          {"prompt_divergence_bits", number(l.prompt_divergence)},
          {"prompt_divergence_by_chance_bits", number(l.prompt_chance)},
          {"domain_divergence_bits", number(l.domain_divergence)},
          {"domain_divergence_by_chance_bits", number(l.domain_chance)},
          {"lru_hit_rate", numbers(l.lru)},
          {"belady_hit_rate", numbers(l.belady)},
          {"lfu_hit_rate", numbers(l.lfu)},
          {"fifo_hit_rate", numbers(l.fifo)}};
}

void print_json(const RoutingStatistics& s) {
  Json layers = Json::array();
  for (std::size_t l = 0; l < s.layers.size(); ++l) layers.push_back(layer_json(s.layers[l], l));
  const Json all{{"model", s.description.model},
                 {"provenance", s.description.provenance},
                 {"kind", s.description.synthetic ? "synthetic" : "recorded"},
                 {"tokens", s.tokens},
                 {"prompt_tokens", s.prompt_tokens},
                 {"requests", s.requests},
                 {"experts", s.description.experts},
                 {"top_k", s.description.top_k},
                 {"domains", s.description.domains},
                 {"lru_and_belady_capacities", "1 .. experts"},
                 {"lfu_and_fifo_capacities", s.capacities},
                 {"layers", layers}};
  std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void stats(const Options& options) {
  check_outputs({options.plot});
  const RoutingTrace trace = open_routing_trace(options.trace);
  TerminalLine line;
  StatisticsOptions how;
  how.progress = [&](std::uint64_t done, std::uint64_t all) {
    line.show("statistics: " + std::to_string(done) + " of " + std::to_string(all) + " tokens");
  };
  const RoutingStatistics statistics = routing_statistics(trace, how);
  line.clear();
  if (!options.plot.empty()) write_outputs({{options.plot, plot::svg(statistics_figure(statistics))}});
  options.format == "json" ? print_json(statistics) : print_table(statistics);
  if (options.format != "json" && !options.plot.empty()) std::cout << "picture: " << options.plot << "\n";
}

}  // namespace

void add_trace_stats(CLI::App& trace) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = trace.add_subcommand(
      "stats", "Skew, reuse, hit rates of caches, transitions, gates and drift of a trace, by layer");
  command->add_option("FILE", options->trace, "Routing trace")->required();
  command->add_option("--plot", options->plot, "SVG file to draw the figures into");
  add_format(*command, options->format);
  add_example(*command,
              "moelab trace stats traces/default/debian-moe-8x32.safetensors --plot out/routing.svg");
  command->callback([options] { stats(*options); });
}

}  // namespace moelab::cli
