// A law as YAML, and back.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>

#include "models/config_store.hpp"
#include "models/json.hpp"
#include "models/yaml_reader.hpp"
#include "traces/law/routing_law.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

constexpr const char* kFormat = "moelab-routing-law";
constexpr std::int64_t kVersion = 1;
constexpr double kMostTokens = 1e9;
const std::array<std::string, 3> kKnown = {"measured", "published", "rule"};

// A JSON string is a YAML double-quoted string; bytes that are not UTF-8 become the replacement character.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string number(double value) {
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

std::string list(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) text += (text.size() > 1 ? ", " : "") + number(value);
  return text + "]";
}

std::string layer_yaml(const LayerLaw& layer) {
  std::string text = "  - {";
  if (layer.encoder) text += "encoder: true, ";
  text += "domain: " + number(layer.domain) + ", prompt: " + number(layer.prompt) +
          ", spans: " + list(layer.spans) + ", coupling: " + number(layer.coupling) + ",\n     ";
  if (!layer.gate_gaps.empty())
    text += "gate_sum: " + number(layer.gate_sum) + ", gate_gaps: " + list(layer.gate_gaps) + ",\n     ";
  return text + "bias: " + list(layer.bias) + "}\n";
}

/// `known` and `points` come together.
void read_basis(const YamlMap& root, RoutingLaw& law) {
  const bool known = root.has("known"), points = root.has("points");
  if (known) law.basis = static_cast<LawBasis>(1 + root.choice("known", kKnown));
  if (points) law.points = root.number("points", {0, 1, true});
  if (known != points)
    root.fail(known ? "known" : "points",
              "'known' says what a law stands on, 'points' how near it comes; give both or none");
}

/// Reads a list of numbers, each in the range; without a `size`, any number of them.
std::vector<double> numbers(const YamlMap& map, const std::string& key, std::optional<std::size_t> size,
                            Range<double> range) {
  std::vector<double> values;
  const std::vector<YamlNode> nodes = map.list(key);
  for (const YamlNode& node : nodes) values.push_back(node.number("a value of " + key, range));
  if (size && values.size() != *size)
    map.fail(key,
             "expected " + std::to_string(*size) + " values, but there are " + std::to_string(values.size()));
  return values;
}

LayerLaw read_layer(const YamlMap& map, const RoutingLaw& law) {
  const Range<double> part{0, 1};
  LayerLaw layer;
  layer.encoder = map.boolean("encoder", false);
  layer.domain = map.number("domain", part);
  layer.prompt = map.number("prompt", part);
  layer.spans = numbers(map, "spans", law.span_tokens.size(), part);
  layer.coupling = map.number("coupling", part);
  if (map.has("gate_gaps")) {
    layer.gate_gaps = numbers(map, "gate_gaps", {}, {0, 1e6});
    if (layer.gate_gaps.empty()) map.fail("gate_gaps", "there must be one at least");
    layer.gate_sum = map.number("gate_sum", {0, 1e6, true});
  }
  layer.bias = numbers(map, "bias", law.experts, {-1e3, 1e3});
  if (!std::is_sorted(layer.bias.rbegin(), layer.bias.rend()))
    map.fail("bias", "values must fall: they are by popularity rank");
  double sum = layer.domain + layer.prompt;
  for (const double weight : layer.spans) sum += weight;
  if (sum > 1 + 1e-9)
    map.fail("domain", "domain, prompt and spans add up to " + number(sum) + ", more than 1");
  map.done();
  return layer;
}

void read_domains(const YamlMap& root, RoutingLaw& law) {
  double sum = 0;
  std::set<std::string> names;
  for (const YamlNode& node : root.list_or_empty("domains")) {
    const YamlMap domain = node.map("a domain");
    law.domains.push_back(domain.text("name"));
    if (!names.insert(law.domains.back()).second)
      domain.fail("name", "the domain '" + law.domains.back() + "' comes twice");
    law.domain_shares.push_back(domain.number("share", {0, 1}));
    sum += law.domain_shares.back();
    domain.done();
  }
  if (!law.domains.empty() && std::abs(sum - 1) > 1e-3)
    root.fail("domains", "their shares must add up to 1, not " + number(sum));
  if (law.domains.size() > 65536) root.fail("domains", "there may be at most 65536");
}

void check_stacks(const YamlMap& root, const RoutingLaw& law) {
  const auto encoder = [](const LayerLaw& l) { return l.encoder; };
  if (!std::is_partitioned(law.layers.begin(), law.layers.end(), encoder))
    root.fail("layers", "the encoder's layers come first");
  const auto gates = [](const LayerLaw& l) { return !l.gate_gaps.empty(); };
  if (!law.has_gates() && std::any_of(law.layers.begin(), law.layers.end(), gates))
    root.fail("layers", "all have gate_gaps, or none has");
}

}  // namespace

std::string to_yaml(const RoutingLaw& law) {
  std::string text =
      "# A law of routing, for `moelab trace generate`. Its terms: traces/law/routing_law.hpp.\nformat: ";
  text += kFormat;
  text += "\nversion: " + std::to_string(kVersion) + "\nmodel: " + quoted(law.model) +
          "\nprovenance: " + quoted(law.provenance) + "\nexperts: " + std::to_string(law.experts) +
          "\ntop_k: " + std::to_string(law.top_k) + "\nprompt_tokens: " + number(law.prompt_tokens) +
          "\ndecode_tokens: " + number(law.decode_tokens) + "\nspan_tokens: " + list(law.span_tokens) + "\n";
  if (law.basis != LawBasis::fitted)
    text += "known: " + kKnown[static_cast<std::size_t>(law.basis) - 1] + "\npoints: " + number(law.points) +
            "\n";
  if (!law.domains.empty()) text += "domains:\n";
  for (std::size_t d = 0; d < law.domains.size(); ++d)
    text += "  - {name: " + quoted(law.domains[d]) + ", share: " + number(law.domain_shares[d]) + "}\n";
  text += "layers:\n";
  for (const LayerLaw& layer : law.layers) text += layer_yaml(layer);
  return text;
}

RoutingLaw read_routing_law(const std::string& path) {
  Problems problems;
  const YamlDocument document = YamlDocument::from_file(path, problems);
  return read_routing_law(document, problems);
}

RoutingLaw load_routing_law(std::string_view name, const std::string& base) {
  const ConfigText config = find_config("laws", name, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  return read_routing_law(document, problems);
}

RoutingLaw read_routing_law(const YamlDocument& document, Problems& problems) {
  problems.throw_if_any();
  const YamlMap root = document.root();
  if (root.text("format") != kFormat) root.fail("format", std::string("expected ") + kFormat);
  if (root.integer("version", 1, 1'000'000) != kVersion) root.fail("version", "this program reads version 1");
  problems.throw_if_any();
  RoutingLaw law;
  law.model = root.text("model");
  law.provenance = root.text("provenance");
  law.experts = static_cast<std::uint32_t>(root.integer("experts", 1, kNoExpert));
  law.top_k = static_cast<std::uint32_t>(root.integer("top_k", 1, law.experts));
  law.prompt_tokens = root.number("prompt_tokens", {0, kMostTokens});
  law.decode_tokens = root.number("decode_tokens", {0, kMostTokens});
  law.span_tokens = numbers(root, "span_tokens", {}, {0, kMostTokens, true});
  read_basis(root, law);
  read_domains(root, law);
  for (const YamlNode& node : root.list("layers")) law.layers.push_back(read_layer(node.map("a layer"), law));
  if (law.layers.empty()) root.fail("layers", "there must be one at least");
  check_stacks(root, law);
  root.done();
  problems.throw_if_any();
  return law;
}

}  // namespace moelab
