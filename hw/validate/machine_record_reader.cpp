// Reads records of machines, which come from elsewhere: nothing in them is believed that can be checked.
#include <array>
#include <set>
#include <utility>

#include "hw/validate/machine_record.hpp"
#include "models/control_characters.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;  // that is counted
constexpr double kMostBytes = 1e18;
constexpr double kLargestRatio = 1e9;
constexpr double kMostCores = 1e6;

/// A text that a table shows: without control characters, and no longer than a line or two.
std::string text_of(const YamlNode& node, const std::string& key) {
  std::string text = node.text(key);
  if (!node.is_scalar()) return text;
  if (text.empty() || text.size() > kRecordText)
    node.fail(key + ": expected a text of 1 to " + std::to_string(kRecordText) + " bytes");
  for (std::size_t i = 0; i < text.size(); ++i)
    if (control_character_at(text, i) > 0) {
      node.fail(key + ": expected a text without control characters");
      return "";
    }
  return text;
}

std::string text_of(const YamlMap& map, const std::string& key) {
  return text_of(map.node(key), key);
}
/// Empty where there is none.
std::string text_or_none(const YamlMap& map, const std::string& key) {
  return map.has(key) ? text_of(map, key) : "";
}

std::string read_day(const YamlMap& map, const char* key, std::optional<std::string> fallback = {}) {
  const bool is_there = map.has(key);
  std::string day = map.text(key, std::move(fallback));
  if (is_there && !is_day(day)) map.fail(key, std::string(key) + ": expected a day, such as \"2026-11-28\"");
  return day;
}

int count_of(const YamlMap& map, const char* key, std::int64_t low = 1) {
  return static_cast<int>(map.integer(key, low, kMost));
}

RecordMachine read_record_machine(const YamlMap& map) {
  RecordMachine m;
  m.processor = text_or_none(map, "processor");
  m.cores = count_of(map, "cores");
  if (map.has("memory_bytes")) m.memory = Bytes(map.number("memory_bytes", {1, kMostBytes}));
  m.kernel = text_or_none(map, "kernel");
  m.governor = text_or_none(map, "governor");
  m.filesystem = text_or_none(map, "filesystem");
  m.gpu = text_or_none(map, "gpu");
  m.driver = text_or_none(map, "driver");
  map.done();
  return m;
}

RecordProgram read_program(const YamlMap& map) {
  RecordProgram p{text_of(map, "moelab"), text_of(map, "compiler"), text_of(map, "libraries")};
  map.done();
  return p;
}

RecordModel read_model(const YamlMap& map) {
  RecordModel m;
  m.name = text_of(map, "name");
  m.layers = count_of(map, "moe_layers");
  m.experts = count_of(map, "experts");
  m.top_k = count_of(map, "top_k");
  m.hidden = count_of(map, "hidden");
  m.width = count_of(map, "width");
  m.matrices = count_of(map, "matrices");
  map.done();
  return m;
}

Pace read_pace(const YamlMap& map) {
  const Pace pace{BytesPerSecond(map.number("rate_bytes_per_s", {1, kMostBytes})),
                  Seconds(map.number("latency_s", {0, 10}))};
  map.done();
  return pace;
}

RecordWork read_work(const YamlMap& map) {
  static const std::array<std::string, 4> kStorages = {"paced", "disk", "stand-in", "gpu"};
  RecordWork w;
  w.scenario = text_of(map, "scenario");
  w.model = read_model(map.map("model"));
  for (const YamlNode& system : map.list("systems")) w.systems.push_back(text_of(system, "systems"));
  if (w.systems.empty()) map.fail("systems", "systems: expected at least one");
  for (const YamlNode& budget : map.list("budgets_bytes"))
    w.budgets.emplace_back(budget.number("budgets_bytes", {1, kMostBytes}));
  w.requests = static_cast<std::uint32_t>(map.integer("requests", 1, kMost));
  w.batch = static_cast<std::uint32_t>(map.integer("batch", 1, kMost));
  for (const auto& [key, tokens] :
       {std::pair{"prompt_tokens", &w.prompt_tokens}, std::pair{"output_tokens", &w.output_tokens}})
    if (map.has(key)) *tokens = static_cast<std::uint32_t>(map.integer(key, 1, kMost));
  w.storage = static_cast<RecordStorage>(map.choice("storage", kStorages));
  if (map.has("pace") != (w.storage == RecordStorage::paced))
    map.fail("pace", "pace: expected where storage is \"paced\", and only there");
  if (const std::optional<YamlMap> pace = map.optional_map("pace")) w.pace = read_pace(*pace);
  w.repeats = static_cast<std::uint32_t>(map.integer("repeats", 1, kMost));
  w.probed = map.boolean("probed");
  w.own_profile = map.boolean("own_profile");
  w.profile_date = read_day(map, "profile_date", "");
  map.done();
  return w;
}

RecordLoad read_load(const YamlMap& map) {
  RecordLoad load;
  load.before = map.number("before", {0, kMostCores});
  if (map.has("others_mean_cores")) load.others_mean = map.number("others_mean_cores", {0, kMostCores});
  if (map.has("others_most_cores")) load.others_most = map.number("others_most_cores", {0, kMostCores});
  load.speed_change = map.number("speed_change", {1, kLargestRatio});
  if (load.others_mean.has_value() != load.others_most.has_value())
    map.fail(load.others_mean ? "others_mean_cores" : "others_most_cores",
             "expected others_mean_cores and others_most_cores, or neither");
  else if (load.others_mean && *load.others_most < *load.others_mean)
    map.fail("others_most_cores", "others_most_cores: expected the mean or more");
  map.done();
  return load;
}

ErrorSummary read_error(const YamlMap& map) {
  ErrorSummary e;
  e.count = static_cast<std::size_t>(map.integer("count", 1, kMost));
  e.median = map.number("median", {0, kLargestRatio});
  e.p90 = map.number("p90", {0, kLargestRatio});
  e.bias = map.number("bias", {-1, kLargestRatio});
  if (e.p90 < e.median) map.fail("p90", "p90: expected the median or more");
  map.done();
  return e;
}

Ordering read_ordering(const YamlMap& map) {
  const auto count = [&](const char* key) { return static_cast<std::uint64_t>(map.integer(key, 0, kMost)); };
  const Ordering o{count("pairs"), count("clear"), count("agreeing")};
  if (o.clear > o.pairs) map.fail("clear", "clear: expected no more than 'pairs'");
  if (o.agreeing > o.clear) map.fail("agreeing", "agreeing: expected no more than 'clear'");
  map.done();
  return o;
}

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (int kind = 0; kind < kOpKinds; ++kind) all.emplace_back(to_string(static_cast<OpKind>(kind)));
    return all;
  }();
  return names;
}

std::vector<RecordOperation> read_operations(const YamlMap& group) {
  std::vector<RecordOperation> operations;
  std::set<OpKind> seen;
  for (const YamlNode& node : group.list("operations")) {
    const YamlMap map = node.map("operations");
    const auto kind = static_cast<OpKind>(map.choice("kind", kinds()));
    operations.push_back({kind, read_error(map.map("error"))});
    if (!seen.insert(kind).second) map.fail("kind", "kind: is there a second time");
    map.done();
  }
  return operations;
}

RecordGroup read_group(const YamlMap& map) {
  RecordGroup g;
  g.codec = text_or_none(map, "codec");
  if (map.has("threads")) g.threads = static_cast<std::uint32_t>(map.integer("threads", 1, kMost));
  g.points = static_cast<std::uint64_t>(map.integer("points", 1, kMost));
  g.too_noisy = static_cast<std::uint64_t>(map.integer("too_noisy_points", 0, kMost));
  if (g.too_noisy > g.points)
    map.fail("too_noisy_points", "too_noisy_points: expected no more than 'points'");
  for (const auto& [key, error] : {std::pair{"layer_error", &g.layers}, std::pair{"tpot_error", &g.tpot}})
    if (const std::optional<YamlMap> found = map.optional_map(key)) *error = read_error(*found);
  g.ordering = read_ordering(map.map("ordering"));
  g.operations = read_operations(map);
  map.done();
  return g;
}

std::vector<RecordGroup> read_groups(const YamlMap& root) {
  std::vector<RecordGroup> groups;
  std::set<std::pair<std::string, std::uint32_t>> seen;
  for (const YamlNode& node : root.list("groups")) {
    const RecordGroup& group = groups.emplace_back(read_group(node.map("groups")));
    if (!seen.emplace(group.codec, group.threads).second)
      node.fail("groups: a codec with as many threads is there a second time");
  }
  if (groups.empty()) root.fail("groups", "groups: expected at least one");
  return groups;
}

/// Before all else: of another format or version nothing can be said.
void check_format(const YamlMap& root) {
  const std::string format = root.text("format");
  if (!format.empty() && format != kRecordFormat)
    root.fail("format", "format: expected \"" + std::string(kRecordFormat) +
                            "\", which 'moelab validate --record' writes");
  const std::int64_t version = root.integer("format_version", 1, kMost);
  if (version != kRecordVersion)
    root.fail("format_version", "format_version: is " + std::to_string(version) +
                                    "; expected 1, the only one that this program reads");
}

MachineRecord read_record(const YamlDocument& document, Problems& problems) {
  const YamlMap root = document.root();
  check_format(root);
  problems.throw_if_any();
  MachineRecord record;
  record.date = read_day(root, "date");
  record.machine = read_record_machine(root.map("machine"));
  record.program = read_program(root.map("program"));
  record.work = read_work(root.map("work"));
  record.load = read_load(root.map("load"));
  record.groups = read_groups(root);
  record.same_work = root.boolean("same_work");
  root.done();
  problems.throw_if_any();
  return record;
}

}  // namespace

MachineRecord read_machine_record(const std::string& path) {
  Problems problems;
  return read_record(YamlDocument::from_file(path, problems), problems);
}

MachineRecord read_machine_record(const std::string& name, const std::string& text) {
  Problems problems;
  return read_record(YamlDocument::from_text(name, text, problems), problems);
}

}  // namespace moelab
