#include "cli/trace_stats_counts.hpp"

#include <numeric>

#include "cli/layer_table.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

using Layer = CountsLayerStatistics;
using Json = nlohmann::ordered_json;

std::uint64_t uses_of(const Layer& layer) {
  return std::accumulate(layer.uses.begin(), layer.uses.end(), std::uint64_t{0});
}

std::string about(const CountsStatistics& s) {
  const CountsDescription& d = s.description;
  return (d.model.empty() ? "unknown model" : d.model) + (d.synthetic ? " (synthetic" : " (recorded") +
         ", counts only): " + std::to_string(s.uses) + " uses by " + std::to_string(d.prompts) +
         (d.prompts == 1 ? " prompt, " : " prompts, ") + std::to_string(d.layers) + " layers of " +
         std::to_string(d.experts) + " experts" + (d.top_k > 0 ? ", top-" + std::to_string(d.top_k) : "");
}

std::vector<LayerColumn<Layer>> columns(const CountsStatistics& s) {
  std::vector<LayerColumn<Layer>> all{{"top 1/4", "%.3f", [](const Layer& l) { return l.top_quarter; }},
                                      {"entropy", "%.2f", [](const Layer& l) { return l.entropy; }},
                                      {"prompts", "%.4f", [](const Layer& l) { return l.prompt_divergence; }},
                                      {"(chance)", "%.4f", [](const Layer& l) { return l.prompt_chance; }}};
  if (!s.description.domains.empty()) {
    all.push_back({"domains", "%.4f", [](const Layer& l) { return l.domain_divergence; }});
    all.push_back({"(chance)", "%.4f", [](const Layer& l) { return l.domain_chance; }});
  }
  return all;
}

}  // namespace

std::string counts_table(const CountsStatistics& s) {
  return one_line(about(s)) + "\n\n" + layer_table(s.layers, "uses", uses_of, columns(s)) +
         "\n"
         "top 1/4: share of the uses of the busiest quarter of the experts; entropy of the uses in bits;\n"
         "prompts, domains: how far they differ (Jensen-Shannon, bits), and by chance alone if every count "
         "is of single uses\n";
}

std::string counts_json(const CountsStatistics& s) {
  const CountsDescription& d = s.description;
  Json layers = Json::array();
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    const Layer& layer = s.layers[l];
    layers.push_back({{"layer", l},
                      {"uses", layer.uses},
                      {"top_quarter", json_number(layer.top_quarter)},
                      {"entropy_bits", json_number(layer.entropy)},
                      {"prompt_divergence_bits", json_number(layer.prompt_divergence)},
                      {"prompt_divergence_by_chance_bits", json_number(layer.prompt_chance)},
                      {"domain_divergence_bits", json_number(layer.domain_divergence)},
                      {"domain_divergence_by_chance_bits", json_number(layer.domain_chance)}});
  }
  return json_text({{"model", d.model},
                    {"provenance", d.provenance},
                    {"kind", d.synthetic ? "synthetic" : "recorded"},
                    {"uses", s.uses},
                    {"prompts", d.prompts},
                    {"experts", d.experts},
                    {"top_k", d.top_k > 0 ? Json(d.top_k) : Json()},
                    {"domains", d.domains},
                    {"layers", layers}});
}

plot::Figure counts_figure(const CountsStatistics& s) {
  plot::Panel skew{.title = "Skew",
                   .x = {.label = "MoE layer", .integers = true},
                   .y = {.label = "share", .range = plot::AxisRange{0, 1}},
                   .series = {over_layers(s.layers, "busiest quarter's uses",
                                          [](const Layer& l) { return l.top_quarter; })}};
  plot::Panel drift{
      .title = "Drift: how far prompts differ",
      .x = {.label = "MoE layer", .integers = true},
      .y = {.label = "Jensen-Shannon divergence", .unit = "bits"},
      .series = {
          over_layers(s.layers, "prompts", [](const Layer& l) { return l.prompt_divergence; }),
          over_layers(s.layers, "prompts, by chance", [](const Layer& l) { return l.prompt_chance; })}};
  if (!s.description.domains.empty()) {
    drift.series.push_back(
        over_layers(s.layers, "domains", [](const Layer& l) { return l.domain_divergence; }));
    drift.series.push_back(
        over_layers(s.layers, "domains, by chance", [](const Layer& l) { return l.domain_chance; }));
  }
  return {.title = about(s),
          .caption = s.description.provenance,
          .columns = 2,
          .panels = {popularity_panel(s.layers), skew, drift}};
}

}  // namespace moelab::cli
