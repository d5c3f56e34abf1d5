#include "experiments/load/serving_folder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/text_file.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::replay {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDeepest = 32;  // lists and maps within each other
constexpr std::size_t kMostRequests = 1 << 20;
constexpr double kMostTokens = 1e7;  // of a request
constexpr double kLongest = 1e8;     // seconds, of a run

/// A map of a JSON file, whose problems name the file, the line and the place in it.
class Fields {
 public:
  Fields(const Json& map, std::string file, int line, std::string path = "")
      : map_(&map), file_(std::move(file)), line_(line), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError({Problem{file_, line_, 0, (path_.empty() ? "" : "'" + path_ + "': ") + what}});
  }
  const Json* find(const char* key) const {
    const auto found = map_->find(key);
    return found == map_->end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const char* key) const { return find(key) != nullptr; }
  /// A map in it; an empty one where there is none.
  Fields map(const char* key) const {
    static const Json none = Json::object();
    const Json* const found = find(key);
    if (found != nullptr && !found->is_object()) fail("'" + std::string(key) + "' must be a map");
    return {found == nullptr ? none : *found, file_, line_, path_.empty() ? key : path_ + "." + key};
  }
  double number(const char* key, double low, double high, std::optional<double> fallback = {}) const {
    const Json* const found = find(key);
    if (found == nullptr && fallback) return *fallback;
    if (found == nullptr) missing(key);
    const double value = found->is_number() ? found->get<double>() : std::nan("");
    if (!(value >= low && value <= high))
      fail("'" + std::string(key) + "' must be a number from " + shortest(low) + " to " + shortest(high));
    return value;
  }
  std::uint32_t count(const char* key, double low, double high, std::optional<double> fallback = {}) const {
    const double value = number(key, low, high, fallback);
    if (value != std::floor(value)) fail("'" + std::string(key) + "' must be a whole number");
    return static_cast<std::uint32_t>(value);
  }
  bool boolean(const char* key, bool fallback) const {
    const Json* const found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_boolean()) fail("'" + std::string(key) + "' must be true or false");
    return found->get<bool>();
  }
  std::string text(const char* key) const {
    const Json* const found = find(key);
    if (found == nullptr) return "";
    if (!found->is_string()) fail("'" + std::string(key) + "' must be a string");
    return shown_text(found->get<std::string>());
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& [key, value] : map_->items()) all.push_back(key);
    return all;
  }
  /// A key that is not known and nearly one that is: it was meant.
  void check_spelling(const std::vector<std::string>& known) const {
    for (const std::string& key : keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string near = closest_name(key, known);
      if (!near.empty() && !has(near.c_str()))
        fail("unknown field '" + shown_word(key) + "' (did you mean '" + near + "'?)");
    }
  }

 private:
  [[noreturn]] void missing(const char* key) const {
    const std::vector<std::string> there = keys();
    fail("missing field '" + std::string(key) + "'" + suggestion(key, there));
  }
  static std::string shortest(double value) {
    std::string text = Json(value).dump();
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  }
  static std::string shown_text(std::string text) {
    text.resize(std::min<std::size_t>(text.size(), 200));
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
    return text;
  }

  const Json* map_;
  std::string file_;
  int line_;
  std::string path_;
};

Json parse_json(const std::string& text, const std::string& file, int line) {
  const auto fail = [&](const std::string& what) { throw InputError({Problem{file, line, 0, what}}); };
  if (json_depth(text) > static_cast<int>(kDeepest)) fail("maps and lists nest too deep");
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    fail("not JSON: " + std::string(said_by_library(error.what())));
  }
  if (!json.is_object()) fail("expected a JSON object: {\"...\": ...}");
  return json;
}

const std::vector<std::string>& request_fields() {
  static const std::vector<std::string> fields{"request_id",     "input_toks",   "output_toks",
                                               "arrival_time",   "queued_ts",    "scheduled_ts",
                                               "first_token_ts", "last_token_ts"};
  return fields;
}

MeasuredRequest read_request(const Fields& line, std::set<std::string>& ids) {
  line.check_spelling(request_fields());
  const std::string id = line.text("request_id");
  if (!id.empty() && !ids.insert(id).second) line.fail("request_id '" + id + "' is there twice");
  MeasuredRequest r;
  r.prompt_tokens = line.count("input_toks", 1, kMostTokens);
  r.output_tokens = line.count("output_toks", 1, kMostTokens);
  r.queued_s = line.number("queued_ts", -1e15, 1e15);
  r.first_token_s = line.number("first_token_ts", -1e15, 1e15);
  r.last_token_s = line.number("last_token_ts", -1e15, 1e15);
  if (r.first_token_s < r.queued_s) line.fail("'first_token_ts' is before 'queued_ts'");
  if (r.last_token_s < r.first_token_s) line.fail("'last_token_ts' is before 'first_token_ts'");
  return r;
}

/// Fields that are in a file and that nothing here reads.
void note_unread(const Fields& line, ServingFolder& folder) {
  for (const std::string& key : line.keys()) {
    const auto& known = request_fields();
    if (std::find(known.begin(), known.end(), key) == known.end())
      folder.notes.push_back("requests.jsonl: field '" + shown_word(key) + "' is not read");
  }
}

void read_requests(const std::string& path, ServingFolder& folder) {
  const std::string text = read_text_file(path);
  std::set<std::string> ids;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = parse_json(line, path, number);
    const Fields fields(json, path, number);
    if (folder.requests.empty()) note_unread(fields, folder);
    folder.requests.push_back(read_request(fields, ids));
    if (folder.requests.size() > kMostRequests)
      throw InputError({Problem{path, number, 0, "more than 1048576 requests"}});
  }
  std::vector<MeasuredRequest>& all = folder.requests;
  if (all.empty()) throw InputError(path, "has no requests: expected a line of JSON for each");
  const auto earlier = [](const auto& a, const auto& b) { return a.queued_s < b.queued_s; };
  std::stable_sort(all.begin(), all.end(), earlier);
  const double first = all.front().queued_s;
  for (MeasuredRequest& r : all)
    for (double* time : {&r.queued_s, &r.first_token_s, &r.last_token_s}) *time -= first;
  for (const MeasuredRequest& r : all)
    if (r.last_token_s > kLongest)
      throw InputError(path, "its times span more than 1e8 s: expected seconds of one clock");
}

void read_samples(const std::string& path, ServingFolder& folder) {
  CsvReader csv(path);
  const std::array columns{
      csv.column("t"),       csv.column("prompt_throughput"), csv.column("gen_throughput"),
      csv.column("running"), csv.column("waiting"),           csv.column("kv_cache_pct")};
  while (csv.next()) {
    std::array<double, columns.size()> values{};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      values[i] = csv.number_at(columns[i], "a number of at least 0");
      if (!(values[i] >= 0)) csv.fail(columns[i], "expected a number of at least 0");
    }
    if (!folder.samples.empty() && values[0] < folder.samples.back().time_s)
      csv.fail(columns[0], "is before the line above");
    folder.samples.push_back({values[0], values[1], values[2], values[3], values[4], values[5] / 100});
  }
}

void read_engine(const std::string& path, EngineArguments& engine) {
  const Json json = parse_json(read_text_file(path), path, 0);
  const Fields meta(json, path, 0);
  meta.check_spelling({"engine_kwargs", "model", "vllm_version", "kv_cache", "hardware"});
  const Fields arguments = meta.map("engine_kwargs");
  arguments.check_spelling({"model", "tensor_parallel_size", "data_parallel_size", "max_num_seqs",
                            "max_num_batched_tokens", "gpu_memory_utilization", "block_size",
                            "enable_prefix_caching", "enable_expert_parallel"});
  engine.model = arguments.has("model") ? arguments.text("model") : meta.text("model");
  engine.version = meta.text("vllm_version");
  engine.tensor_parallel = arguments.count("tensor_parallel_size", 1, 64, 1);
  engine.data_parallel = arguments.count("data_parallel_size", 1, 64, 1);
  engine.expert_parallel = arguments.boolean("enable_expert_parallel", false);
  const EngineArguments usual;
  engine.max_requests = arguments.count("max_num_seqs", 1, 1e6, usual.max_requests);
  engine.max_tokens = arguments.count("max_num_batched_tokens", 1, 1e6, usual.max_tokens);
  if (engine.max_tokens < engine.max_requests)
    arguments.fail("'max_num_batched_tokens' must be at least 'max_num_seqs'");
  const Fields cache = meta.map("kv_cache");
  cache.check_spelling({"num_gpu_blocks", "block_size", "gpu_memory_utilization", "enable_prefix_caching"});
  engine.block_tokens = cache.count("block_size", 1, 65536, arguments.count("block_size", 1, 65536, 16));
  engine.memory_share = cache.number("gpu_memory_utilization", 0.01, 1,
                                     arguments.number("gpu_memory_utilization", 0.01, 1, usual.memory_share));
  if (cache.has("num_gpu_blocks")) engine.kv_blocks = cache.count("num_gpu_blocks", 1, 4e9);
  engine.prefix_cache =
      cache.boolean("enable_prefix_caching", arguments.boolean("enable_prefix_caching", usual.prefix_cache));
  engine.async = meta.map("resolved_config").map("scheduler_config").boolean("async_scheduling", usual.async);
  const Fields hardware = meta.map("hardware");
  engine.gpu = hardware.text("device_name");
  if (hardware.has("device_total_memory_bytes"))
    engine.gpu_bytes = hardware.number("device_total_memory_bytes", 1e6, 1e13);
}

/// The GPU that the folder's description for another simulator names.
std::string gpu_of_config(const std::string& path) {
  const Json json = parse_json(read_text_file(path), path, 0);
  const Fields config(json, path, 0);
  const Json* const nodes = config.find("nodes");
  if (nodes == nullptr || !nodes->is_array() || nodes->empty() || !nodes->front().is_object()) return "";
  const Fields node(nodes->front(), path, 0, "nodes[0]");
  const Json* const instances = node.find("instances");
  if (instances == nullptr || !instances->is_array() || instances->empty() || !instances->front().is_object())
    return "";
  return Fields(instances->front(), path, 0, "nodes[0].instances[0]").text("hardware");
}

}  // namespace

ServingFolder read_serving_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_directory(path, none))
    throw InputError(path, "is no folder: expected one with requests.jsonl and meta.json");
  const auto file = [&](const char* name) { return (fs::path(path) / name).string(); };
  const auto there = [&](const char* name) { return fs::exists(file(name), none); };
  for (const char* name : {"requests.jsonl", "meta.json"})
    if (!there(name))
      throw InputError(file(name), "is missing: a server's run has requests.jsonl and meta.json");
  ServingFolder folder;
  folder.path = path;
  read_engine(file("meta.json"), folder.engine);
  read_requests(file("requests.jsonl"), folder);
  if (there("timeseries.csv")) read_samples(file("timeseries.csv"), folder);
  if (folder.engine.gpu.empty() && there("config.json"))
    folder.engine.gpu = gpu_of_config(file("config.json"));
  return folder;
}

}  // namespace moelab::replay
