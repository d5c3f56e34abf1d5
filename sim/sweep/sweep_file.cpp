#include "sim/sweep/sweep_file.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "sim/sweep/axis_values.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMostRepeats = 1'000'000;

Settings read_settings(const YamlMap& map) {
  Settings settings;
  for (const std::string& key : map.keys()) settings.emplace_back(key, axis_value(map.node(key)).yaml);
  return settings;
}

/// The base scenario: named, or in the sweep itself.
ConfigText read_base(const YamlMap& root, const ConfigText& sweep) {
  const YamlNode node = root.node("scenario");
  if (node.is_map()) return {sweep.name + ", scenario", node.json()};
  const std::string name = node.text("scenario");
  if (name.empty()) return {};  // reported already
  try {
    return find_config("scenarios", name, std::filesystem::path(sweep.name).parent_path());
  } catch (const InputError& error) {
    for (const Problem& p : error.problems()) node.fail(p.what);
    return {};
  }
}

/// A key that several places change, or one within another's map, would be decided by their order.
class Names {
 public:
  void take(const YamlNode& where, const std::string& path) {
    if (is_free(where, path)) taken_.push_back(path);
  }
  /// Without taking it: the series of one axis may all change it.
  bool is_free(const YamlNode& where, const std::string& path) const {
    for (const std::string& other : taken_) {
      if (path != other && !path.starts_with(other + ".") && !other.starts_with(path + ".")) continue;
      where.fail("'" + path + "' varies twice" +
                 (path == other ? "" : ", as part of or with '" + other + "'") +
                 "; expected each key on one axis");
      return false;
    }
    return true;
  }

  void hold(const std::string& path) { taken_.push_back(path); }

 private:
  std::vector<std::string> taken_;
};

SweepAxis read_axis(const YamlNode& node, const std::string& path) {
  SweepAxis axis{path, {}};
  for (const AxisValue& value : read_axis_values(node, path))
    axis.choices.push_back({{{path, value.shown}}, {{path, value.yaml}}, "", ""});
  return axis;
}

SweepAxis read_zip(const YamlNode& item, Names& names) {
  SweepAxis axis;
  const YamlMap map = item.map("a zip");
  for (const std::string& path : map.keys()) {
    const YamlNode node = map.node(path);
    names.take(node, path);
    const SweepAxis one = read_axis(node, path);
    axis.name += (axis.name.empty() ? "" : ", ") + path;
    if (axis.choices.empty()) {
      axis.choices = one.choices;
      continue;
    }
    if (axis.choices.size() != one.choices.size()) {
      node.fail("'" + path + "' has " + std::to_string(one.choices.size()) + " values, the key before it " +
                std::to_string(axis.choices.size()) + "; keys that vary together have as many");
      continue;
    }
    for (std::size_t i = 0; i < one.choices.size(); ++i) {
      axis.choices[i].shown.push_back(one.choices[i].shown[0]);
      axis.choices[i].settings.push_back(one.choices[i].settings[0]);
    }
  }
  if (map.keys().empty()) item.fail("a zip without a key; expected two lists at least");
  return axis;
}

SweepAxis read_series(const YamlMap& map, Names& names) {
  SweepAxis axis{"series", {}};
  for (const std::string& name : map.keys()) {
    const YamlNode node = map.node(name);
    AxisChoice choice;
    choice.series = name;
    if (node.is_map())
      choice.settings = read_settings(node.map("series '" + name + "'"));
    else
      node.fail("series '" + name + "': expected a map of settings, such as {budget: 16 GB}");
    for (std::size_t i = 0; i < choice.settings.size(); ++i)
      if (choice.settings[i].first == "system") {  // in the place of a setting: which system to run
        choice.system = node.map("").text("system");
        choice.settings.erase(choice.settings.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    for (const auto& [path, value] : choice.settings) names.is_free(node, path);
    axis.choices.push_back(std::move(choice));
  }
  std::vector<std::string> changed;
  for (const AxisChoice& choice : axis.choices)
    for (const auto& [path, value] : choice.settings)
      if (std::find(changed.begin(), changed.end(), path) == changed.end()) changed.push_back(path);
  for (const std::string& path : changed) names.hold(path);
  return axis;
}

/// Systems that the sweep names; none: it runs the scenario's. What is wrong with them is said elsewhere.
std::vector<std::string> asked_systems(const YamlMap& root) {
  std::vector<std::string> names;
  if (root.has("systems") && root.node("systems").is_list())
    for (const YamlNode& item : root.list("systems"))
      if (item.is_scalar()) names.push_back(item.text("a system"));
  if (!root.has("series") || !root.node("series").is_map()) return names;
  const YamlMap series = root.map("series");
  for (const std::string& name : series.keys()) {
    const YamlNode settings = series.node(name);
    if (settings.is_map() && settings.map("").has("system") && settings.map("").node("system").is_scalar())
      names.push_back(settings.map("").text("system"));
  }
  return names;
}

/// One choice a system: those listed, else the scenario's.
SweepAxis read_systems(const YamlMap& root, const Scenario& base) {
  SweepAxis axis{"system", {}};
  std::vector<std::string> names;
  if (root.has("systems")) {
    for (const YamlNode& item : root.list("systems")) names.push_back(item.text("a system"));
    if (names.empty()) root.fail("systems", "no system is listed");
  } else {
    for (const SystemConfig& system : base.systems) names.push_back(system.name);
  }
  for (const std::string& name : names) axis.choices.push_back({{{"system", name}}, {}, name, ""});
  return axis;
}

SweepAxis read_repeats(const YamlMap& root, const Scenario& base) {
  SweepAxis axis{"seed", {}};
  const std::int64_t repeats = root.integer("repeats", 1, kMostRepeats, 1);
  for (std::int64_t i = 0; i < repeats; ++i) {
    const std::string seed = std::to_string(base.seed + static_cast<std::uint64_t>(i));
    axis.choices.push_back({{{"seed", seed}}, {{"seed", seed}}, "", ""});
  }
  return axis;
}

void read_limits(const YamlMap& root, SweepFile& sweep) {
  const std::optional<YamlMap> limits = root.optional_map("limits");
  if (!limits) return;
  if (limits->has("time")) sweep.limit_s = limits->quantity<Seconds>("time", above(Seconds(0))).value();
  if (limits->has("memory"))
    sweep.limit_bytes = static_cast<std::uint64_t>(
        limits->quantity<Bytes>("memory", Range<Bytes>{Bytes(1e6), Bytes(1e15)}).value());
  limits->done();
}

void read_axes(const YamlMap& root, const Scenario& base, SweepFile& sweep) {
  Names names;
  if (const auto axes = root.optional_map("axes"))
    for (const std::string& path : axes->keys()) {
      const YamlNode node = axes->node(path);
      names.take(node, path);
      if (path == "system" || path == "systems")
        node.fail("systems are listed under 'systems', beside 'axes'");
      sweep.axes.push_back(read_axis(node, path));
    }
  for (const YamlNode& item : root.list_or_empty("zip")) sweep.axes.push_back(read_zip(item, names));
  bool series_choose = false;
  if (const auto series = root.optional_map("series")) {
    sweep.axes.push_back(read_series(*series, names));
    for (const AxisChoice& choice : sweep.axes.back().choices) series_choose |= !choice.system.empty();
    if (sweep.axes.back().choices.empty()) root.fail("series", "no series is named");
    for (const AxisChoice& choice : sweep.axes.back().choices)
      if (series_choose && choice.system.empty())
        root.fail("series", "series '" + choice.series + "' says no 'system', others do");
    if (series_choose && root.has("systems"))
      root.fail("systems", "the series say which system they run; leave 'systems' out");
  }
  if (!series_choose) sweep.axes.push_back(read_systems(root, base));
  if (root.has("repeats")) {
    names.take(root.node("repeats"), "seed");
    sweep.axes.push_back(read_repeats(root, base));
  }
}

}  // namespace

std::uint64_t SweepFile::combinations() const {
  std::uint64_t all = 1;
  for (const SweepAxis& axis : axes) {
    const std::uint64_t choices = axis.choices.size();
    if (choices != 0 && all > std::numeric_limits<std::uint64_t>::max() / choices)
      return std::numeric_limits<std::uint64_t>::max();
    all *= choices;
  }
  return all;
}

bool is_sweep(const ConfigText& config) {
  Problems ignored;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, ignored);
  if (!ignored.empty() || !document.node().is_map()) return false;
  const YamlMap root = document.root();
  return root.has("scenario") && !root.has("model");
}

bool names_a_sweep(const std::string& name_or_path) {
  if (!is_config_path(name_or_path)) {
    const std::vector<std::string> sweeps = config_names("sweeps");
    return std::find(sweeps.begin(), sweeps.end(), name_or_path) != sweeps.end();
  }
  try {
    return is_sweep(find_config("sweeps", name_or_path));
  } catch (const InputError&) {
    return false;  // reading it as a scenario says what is wrong
  }
}

void check_no_sweep(const std::string& name_or_path, const std::string& instead) {
  if (names_a_sweep(name_or_path))
    throw InputError(name_or_path, "is a sweep, of many scenarios; " + instead + " runs it");
}

SweepFile load_sweep(std::string_view name_or_path, const Settings& settings) {
  return read_sweep(find_config("sweeps", name_or_path), settings);
}

SweepFile read_sweep(const ConfigText& config, const Settings& settings) {
  Problems problems;
  YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  for (const auto& [path, value] : settings) document.set(path, value);
  problems.throw_if_any();
  const YamlMap root = document.root();
  SweepFile sweep;
  sweep.name = root.text("name");
  sweep.question = root.text("question", "");
  sweep.text = config.text;
  sweep.scenario = read_base(root, config);
  if (const auto set = root.optional_map("set")) sweep.set = read_settings(*set);
  problems.throw_if_any();
  const Scenario base =
      scenario_of_document(sweep.scenario.name, sweep.scenario.text, sweep.set, asked_systems(root));
  sweep.scenario_name = base.name;
  read_axes(root, base, sweep);
  static constexpr std::array<std::string_view, 2> kExecutors = {"fast", "simgrid"};
  static const std::vector<std::string> names(kExecutors.begin(), kExecutors.end());
  sweep.executor = root.has("executor") ? names[root.choice("executor", names)]
                   : base.cluster       ? "simgrid"
                                        : "fast";
  read_limits(root, sweep);
  if (root.has("where")) {
    try {
      sweep.where.emplace(root.text("where"));
    } catch (const ConditionError& error) {
      root.fail("where", std::string("where: ") + error.what());
    }
  }
  root.done();
  if (problems.empty() && sweep.combinations() > kMostPoints)
    root.fail("axes", "the axes have more than 10,000,000 combinations; several sweeps may share a store");
  problems.throw_if_any();
  return sweep;
}

}  // namespace moelab
