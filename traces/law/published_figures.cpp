#include "traces/law/published_figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "models/config_store.hpp"
#include "models/yaml_reader.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

constexpr const char* kFiguresFormat = "moelab-routing-figures";
constexpr std::int64_t kMostLayers = 4096;
const std::array<std::string, 4> kFigureKinds = {"reuse", "lru", "lfu", "popular"};

RoutingShape read_shape(const YamlMap& map) {
  RoutingShape shape;
  shape.layers = static_cast<std::uint32_t>(map.integer("layers", 1, kMostLayers));
  shape.experts = static_cast<std::uint32_t>(map.integer("experts", 1, kNoExpert));
  shape.top_k = static_cast<std::uint32_t>(map.integer("top_k", 1, shape.experts));
  shape.apart = map.number("apart", {0, 1}, 0.0);
  map.done();
  return shape;
}

PublishedFigure read_figure(const YamlMap& map, const std::vector<FigureSource>& sources) {
  PublishedFigure figure;
  figure.kind = static_cast<FigureKind>(map.choice("figure", kFigureKinds));
  if (figure.kind != FigureKind::reuse) figure.places = map.number("places", {0, 1, true});
  figure.tokens = static_cast<std::uint32_t>(map.integer("tokens", 2, 1'000'000));
  figure.cold = map.boolean("cold", false);
  figure.value = map.number("value", {0, 1});
  figure.within = map.number("within", {0, 1, true});
  figure.law_only = map.boolean("law_only", false);
  figure.source = map.text("source");
  const bool known = std::any_of(sources.begin(), sources.end(),
                                 [&](const FigureSource& s) { return s.name == figure.source; });
  if (!known && !figure.source.empty()) {
    std::vector<std::string> names;
    for (const FigureSource& source : sources) names.push_back(source.name);
    map.fail("source", "no source '" + figure.source + "' in this file" + suggestion(figure.source, names));
  }
  map.done();
  return figure;
}

ModelFigures read_model(const YamlMap& map, const std::vector<FigureSource>& sources) {
  ModelFigures model;
  model.model = map.text("model");
  model.shape = read_shape(map.map("shape"));
  model.in_rule = map.boolean("in_rule", true);
  for (const YamlNode& node : map.list("figures"))
    model.figures.push_back(read_figure(node.map("a figure"), sources));
  if (model.figures.empty()) map.fail("figures", "there must be one at least");
  map.done();
  return model;
}

}  // namespace

PublishedRouting load_published_routing(const std::string& name) {
  const ConfigText config = find_config("figures", name);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  problems.throw_if_any();
  const YamlMap root = document.root();
  if (root.text("format") != kFiguresFormat) root.fail("format", std::string("expected ") + kFiguresFormat);
  PublishedRouting all;
  for (const YamlNode& node : root.list("sources")) {
    const YamlMap source = node.map("a source");
    all.sources.push_back({source.text("name"), source.text("cite")});
    source.done();
  }
  for (const YamlNode& node : root.list("models")) {
    const YamlMap map = node.map("a model");
    all.models.push_back(read_model(map, all.sources));
    const std::string& model = all.models.back().model;
    if (std::count_if(all.models.begin(), all.models.end(),
                      [&](const ModelFigures& m) { return m.model == model; }) > 1)
      map.fail("model", "'" + model + "' comes twice");
  }
  root.done();
  problems.throw_if_any();
  return all;
}

std::string figure_title(const PublishedFigure& figure) {
  if (figure.kind == FigureKind::reuse) return "reuse from the token before";
  char places[32];
  std::snprintf(places, sizeof places, "%.4g %%", 100 * figure.places);
  if (figure.kind == FigureKind::popular) return std::string("share of the most popular ") + places;
  return std::string(figure.kind == FigureKind::lru ? "LRU, " : "LFU, ") + places + " of the experts cached" +
         (figure.cold ? ", cold" : "");
}

}  // namespace moelab
