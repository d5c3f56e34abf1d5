// moelab trace stats: what a trace is like, layer by layer.
#include <functional>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/terminal_line.hpp"
#include "cli/trace_stats_counts.hpp"
#include "cli/trace_stats_plot.hpp"
#include "models/json.hpp"
#include "traces/default_trace.hpp"
#include "traces/trace_kind.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TraceStatsArguments {
  std::string trace, plot, format = "table";
};

using Column = LayerColumn<LayerStatistics>;

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

std::string routing_table(const RoutingStatistics& s) {
  return one_line(about_line(s)) + "\n\n" +
         layer_table(
             s.layers, "tokens", [](const LayerStatistics& l) { return l.tokens; }, columns(s)) +
         "\n"
         "top 1/4: share of the uses of the busiest quarter of the experts; entropy of the uses in bits; "
         "reuse: "
         "share of a token's experts\nthat the token before used, and if tokens were independent; in 16: "
         "distinct "
         "experts in 16 tokens; LRU, LFU, Belady: hit rates of a\ncache of so many of a layer's experts; "
         "transition: share of the experts foretold by the layer before's, and by popularity; "
         "prompts,\ndomains: "
         "how far they differ (Jensen-Shannon, bits); gate: mean weight of the first and the last chosen "
         "expert\n";
}

Json layer_json(const LayerStatistics& l, std::size_t number_of_layer) {
  Json windows = Json::object();
  for (std::size_t w = 0; w < l.distinct.size(); ++w)
    windows[std::to_string(UseStatistics::kWindows[w])] = json_number(l.distinct[w]);
  return {{"layer", number_of_layer},
          {"tokens", l.tokens},
          {"uses", l.uses},
          {"top_quarter", json_number(l.top_quarter)},
          {"entropy_bits", json_number(l.entropy)},
          {"reuse", json_number(l.reuse)},
          {"independent_reuse", json_number(l.independent_reuse)},
          {"distinct_experts_in_window", windows},
          {"transition_recall", json_number(l.transition_recall)},
          {"popularity_recall", json_number(l.popularity_recall)},
          {"gates_by_rank", json_numbers(l.gates)},
          {"prompt_divergence_bits", json_number(l.prompt_divergence)},
          {"prompt_divergence_by_chance_bits", json_number(l.prompt_chance)},
          {"domain_divergence_bits", json_number(l.domain_divergence)},
          {"domain_divergence_by_chance_bits", json_number(l.domain_chance)},
          {"lru_hit_rate", json_numbers(l.lru)},
          {"belady_hit_rate", json_numbers(l.belady)},
          {"lfu_hit_rate", json_numbers(l.lfu)},
          {"fifo_hit_rate", json_numbers(l.fifo)}};
}

std::string routing_json(const RoutingStatistics& s) {
  Json layers = Json::array();
  for (std::size_t l = 0; l < s.layers.size(); ++l) layers.push_back(layer_json(s.layers[l], l));
  return json_text({{"model", s.description.model},
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
                    {"layers", layers}});
}

/// What there is to show of a trace: the picture only if one is wanted.
struct Shown {
  std::string text;
  plot::Figure figure;
};

Shown routing(const TraceStatsArguments& options,
              const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const RoutingStatistics s = routing_statistics(open_routing_trace(options.trace),
                                                 {.curves = true, .threads = 0, .progress = progress});
  return {options.format == "json" ? routing_json(s) : routing_table(s),
          options.plot.empty() ? plot::Figure{} : statistics_figure(s)};
}

Shown counts(const TraceStatsArguments& options,
             const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const CountsStatistics s = counts_statistics(read_counts_trace(options.trace), progress);
  return {options.format == "json" ? counts_json(s) : counts_table(s),
          options.plot.empty() ? plot::Figure{} : counts_figure(s)};
}

void stats(const TraceStatsArguments& options) {
  check_outputs({options.plot}, {options.trace});
  const bool only_counts =
      !is_default_trace(options.trace) && kind_of_trace(options.trace) == TraceKind::counts;
  TerminalLine line;
  const auto progress = [&](std::uint64_t done, std::uint64_t all) {
    line.show("statistics: " + std::to_string(done) + " of " + std::to_string(all) +
              (only_counts ? " layers" : " tokens"));
  };
  const Shown shown = only_counts ? counts(options, progress) : routing(options, progress);
  line.clear();
  if (!options.plot.empty()) write_outputs({{options.plot, plot::svg(shown.figure)}});
  std::cout << shown.text;
  if (options.format != "json" && !options.plot.empty()) std::cout << "picture: " << options.plot << "\n";
}

}  // namespace

void add_trace_stats(CLI::App& trace) {
  const auto options = std::make_shared<TraceStatsArguments>();
  CLI::App* command = trace.add_subcommand("stats",
                                           "Skew, reuse, hit rates of caches, transitions, gates and drift "
                                           "of a trace, by layer; of counts, skew and drift");
  command->add_option("FILE", options->trace, "Routing trace, or counts-only trace")->required();
  add_plot(*command, options->plot, "SVG file to draw the figures into");
  add_format(*command, options->format);
  add_example(*command, "moelab trace stats debian-moe-8x32 --plot out/routing.svg");
  command->callback([options] { stats(*options); });
}

}  // namespace moelab::cli
