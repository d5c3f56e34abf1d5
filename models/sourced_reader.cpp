#include "models/sourced_reader.hpp"

#include <array>

#include "models/yaml_text.hpp"

namespace moelab {
namespace {

const std::vector<std::string> kKindNames = {"measured", "datasheet", "paper",
                                             "derived",  "assumed",   "fitted"};
constexpr Range<double> kFactors{1, 1e6};
constexpr std::int64_t kMostAmount = std::int64_t{1} << 53;  // whole numbers are exact so far

std::string shown_factor(double x) {
  return yaml::number(x) + "x";
}

/// One percentile of what a curve or a list of factors says.
double read_share(const YamlNode& node) {
  return node.number("a percentile (a factor on the values)", at_least(0.0));
}

}  // namespace

std::string_view to_string(Source::Kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

void SourcedReader::sources(const YamlMap& root) {
  const YamlMap list = root.map("sources");
  for (const std::string& key : list.keys()) {
    const YamlMap entry = list.map(key);
    const auto kind = static_cast<Source::Kind>(entry.choice("kind", kKindNames));
    account_.sources[key] = {key, kind, entry.text("text")};
    names_.push_back(key);
    entry.done();
  }
}

Sourced<double> SourcedReader::number(const YamlMap& section, const std::string& path, std::string_view key,
                                      Range<double> range) {
  return read<double>(
      section, path, key, [&](const YamlMap& entry) { return entry.number("value", range); },
      [&](const YamlNode& node) { return node.number("a percentile", range); }, yaml::number);
}

Sourced<int> SourcedReader::integer(const YamlMap& section, const std::string& path, std::string_view key,
                                    int low, int high) {
  return read<int>(
      section, path, key,
      [&](const YamlMap& entry) { return static_cast<int>(entry.integer("value", low, high)); },
      [&](const YamlNode& node) { return static_cast<double>(node.integer("a percentile", low, high)); },
      yaml::number);
}

Sourced<std::vector<double>> SourcedReader::factors(const YamlMap& section, const std::string& path,
                                                    std::string_view key) {
  const auto value = [&](const YamlMap& entry) {
    std::vector<double> list;
    for (const YamlNode& item : entry.list("value")) list.push_back(item.number(path, kFactors));
    if (!list.empty()) return list;
    entry.fail("value", path + " lists no factor; expected one for each number of users, such as [1, 2, 3]");
    return std::vector<double>{1};
  };
  return read<std::vector<double>>(section, path, key, value, read_share, shown_factor);
}

Sourced<Curve> SourcedReader::curve(const YamlMap& section, const std::string& path, std::string_view key,
                                    Amount amount) {
  return read<Curve>(
      section, path, key, [&](const YamlMap& entry) { return points_or_affine(entry, amount); }, read_share,
      shown_factor);
}

std::vector<CurvePoint> SourcedReader::points(const YamlMap& entry, Amount amount) const {
  struct Form {
    const char* name;
    const char* example;
  };
  constexpr std::array<Form, 3> kForms = {
      {{"size", "[1 MiB, 330 us]"}, {"elements", "[1000000, 330 us]"}, {"tokens", "[4, 330 us]"}}};
  const Form& form = kForms[static_cast<std::size_t>(amount)];
  std::vector<CurvePoint> list;
  for (const YamlNode& item : entry.list("points")) {
    const std::vector<YamlNode> pair = item.list("a point of the curve");
    if (pair.size() != 2) {
      item.fail("a point of the curve has " + std::to_string(pair.size()) + " values; expected [" +
                form.name + ", time], such as " + form.example);
      continue;
    }
    const double at = amount == Amount::bytes
                          ? pair[0].quantity<Bytes>(form.name, at_least(Bytes(0))).value()
                          : static_cast<double>(pair[0].integer(form.name, 0, kMostAmount));
    list.push_back({at, pair[1].quantity<Seconds>("time", at_least(Seconds(0))).value()});
  }
  return list;
}

Curve SourcedReader::points_or_affine(const YamlMap& entry, Amount amount) const {
  if (amount == Amount::bytes && !entry.has("points")) {
    const auto latency = entry.quantity<Seconds>("latency", at_least(Seconds(0)));
    const auto rate = entry.quantity<BytesPerSecond>("rate", above(BytesPerSecond(0)));
    return rate.value() > 0 ? Curve::affine(latency.value(), rate.value()) : Curve({{0, 0}});
  }
  std::vector<CurvePoint> list = points(entry, amount);
  if (const std::string problem = Curve::problem_with(list); !problem.empty()) {
    if (entry.has("points") && entry.node("points").is_list()) entry.fail("points", problem);
    return Curve({{0, 0}});
  }
  return Curve(std::move(list));
}

std::string SourcedReader::source(const YamlMap& entry) const {
  std::string key = entry.text("source");
  if (!key.empty() && !account_.sources.contains(key))
    entry.fail("source", "'" + key + "' is not among the profile's sources" + suggestion(key, names_));
  return key;
}

std::string SourcedReader::source_text(const YamlMap& entry) const {
  const auto found = account_.sources.find(source(entry));
  return found == account_.sources.end() ? "" : found->second.text;
}

void SourcedReader::record(const std::string& path, const std::string& source, const std::string& spread) {
  const auto found = account_.sources.find(source);
  if (found == account_.sources.end()) return;
  const Source& s = found->second;
  account_.provenance.push_back(path + ": " + std::string(to_string(s.kind)) + " (" + s.text + ")" + spread);
  if (s.kind != Source::Kind::measured) account_.unmeasured = true;
}

}  // namespace moelab
