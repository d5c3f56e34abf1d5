#include "sim/explain/result_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/cluster/instance_metrics.hpp"
#include "sim/results/other_file.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargest = std::size_t{256} << 20;  // bytes; a result with a series has some 200 kB
constexpr double kMostTokens = 1e15;

std::string text_of_file(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) throw InputError(file, "is no file that can be read");
  std::ifstream in(file, std::ios::binary);
  constexpr std::string_view kStore = "SQLite format 3";
  std::string begin(kStore.size(), ' ');
  if (in.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kStore)
    throw InputError(file,
                     "is a store of results; expected one result, as 'moelab results STORE --sweep NAME "
                     "--result N --out FILE' writes it");
  const auto size = std::filesystem::file_size(file, error);
  if (error || size > kLargest)
    throw InputError(file, "is larger than 256 MiB; expected a result of 'moelab run'");
  in.clear();
  in.seekg(0);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) throw InputError(file, "cannot be read");
  return text;
}

Json parse(const std::string& file, const std::string& text) {
  check_json_depth(file, text);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    if (const std::string kind = kind_of_text(file, text); !kind.empty())
      throw InputError(file, kind + "; expected a result as 'moelab run --out' writes it");
    throw InputError(file, "is not JSON: " + std::string(said_by_library(error.what())));
  }
}

/// A part of a result, by name for messages.
class Part {
 public:
  Part(const std::string& file, std::string path, const Json& json)
      : file_(file), path_(std::move(path)), json_(json) {}

  [[noreturn]] void fail(const std::string& expected) const {
    throw InputError(file_, (path_.empty() ? "the result" : "'" + path_ + "'") + " is not " + expected +
                                ": expected a result as 'moelab run --out' writes it");
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  Part at(const std::string& key) const {
    if (!json_.is_object()) fail("an object");
    const auto found = json_.find(key);
    if (found == json_.end())
      throw InputError(file_,
                       "has no '" + name_of(key) + "': expected a result as 'moelab run --out' writes it");
    return {file_, name_of(key), *found};
  }
  std::string text() const {
    if (!json_.is_string()) fail("a text");
    return json_.get<std::string>();
  }
  double number() const {
    if (!json_.is_number()) fail("a number");
    const auto value = json_.get<double>();
    if (!(value >= 0)) fail("a number of 0 or more");
    return value;
  }
  std::uint64_t count() const {
    const double value = number();
    if (value > kMostTokens || value != static_cast<double>(static_cast<std::uint64_t>(value)))
      fail("a whole number");
    return static_cast<std::uint64_t>(value);
  }
  const Json& json() const { return json_; }
  const std::string& path() const { return path_; }

 private:
  std::string name_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const std::string& file_;
  std::string path_;
  const Json& json_;
};

/// All numbers of a part; of what may be null, those that are not.
void add_figures(const Part& part, ResultFile& r) {
  if (part.json().is_null()) return;
  if (!part.json().is_object()) {
    r.figures.emplace_back(part.path(), part.number());
    return;
  }
  for (const auto& [key, value] : part.json().items()) add_figures(part.at(key), r);
}

void read_inputs(const std::string& file, const Part& root, ResultFile& r) {
  if (!root.has("inputs"))
    throw InputError(file, "the result of system '" + r.system +
                               "' has no 'inputs', which say what was run: an older version of moelab wrote "
                               "it; run the scenario again");
  const Part scenario = root.at("inputs").at("scenario");
  if (!scenario.json().is_object()) scenario.fail("an object");
  const auto systems = scenario.at("systems");
  if (!systems.json().is_array() || systems.json().size() != 1) systems.fail("a list of one system");
  if (!systems.json()[0].is_object() || systems.json()[0].value("name", Json()) != r.system)
    throw InputError(file, "'inputs.scenario.systems' does not name the result's system '" + r.system + "'");
  r.document = scenario.json().dump();
  r.on_cluster = scenario.has("cluster");
  const Part data = root.at("inputs").at("data");
  if (!data.json().is_array()) data.fail("a list");
  for (const Json& item : data.json()) {
    const Part one(file, "inputs.data", item);
    r.data.push_back({one.at("file").text(), one.at("xxh3").text()});
  }
}

/// ResultFile::stalls_of.
std::string instance_of_stalls(const std::string& file, const Part& root) {
  if (!root.has("instances") || !root.at("instances").has("busiest")) return "";
  const Part busiest = root.at("instances").at("busiest"), servers = root.at("instances").at("servers");
  if (!busiest.json().is_array() || busiest.json().empty()) busiest.fail("a list of names");
  if (!servers.json().is_array()) servers.fail("a list");
  if (servers.json().size() < 2) return "";
  return busiest_of_all(Part(file, "instances.busiest[0]", busiest.json()[0]).text(), servers.json().size());
}

ResultFile read_result(const std::string& file, const Json& json) {
  const Part root(file, "", json);
  if (const std::string newer = newer_format(json); !newer.empty()) throw InputError(file, newer);
  if (const std::string kind = kind_of_document(file, json); !kind.empty())
    throw InputError(file, kind + "; expected a result as 'moelab run --out' writes it");
  ResultFile r;
  r.file = file;
  r.scenario = root.at("scenario").text();
  r.system = root.at("system").text();
  r.executor = root.at("executor").text();
  if (r.executor != "fast" && r.executor != "simgrid")
    root.at("executor").fail("'fast' or 'simgrid', of a simulated run");
  r.version = root.at("version").text();
  const Part metrics = root.at("metrics");
  if (const Part tpot = metrics.at("tpot_s").at("mean"); !tpot.json().is_null()) r.tpot_s = tpot.number();
  const auto of_requests = [&](const char* key) {
    const Part seconds = metrics.at(key);
    return seconds.json().is_null() ? 0 : seconds.number();
  };
  r.ttft_s = of_requests("ttft_s");
  r.end_to_end_s = of_requests("end_to_end_s");
  r.tokens_per_s = metrics.at("throughput_tokens_per_s").number();
  r.wall_s = metrics.at("wall_s").number();
  r.tokens = metrics.at("tokens").count();
  for (const State s : kAllStates)
    if (root.has("decode_hits"))
      r.decode_hits[index(s)] = root.at("decode_hits").at(std::string(kStateNames[index(s)])).count();
  for (const Tier t : {Tier::ssd, Tier::page_cache, Tier::host})
    if (root.has("bytes"))
      r.bytes[static_cast<std::size_t>(t)] = root.at("bytes").at(std::string(to_string(t))).number();
  const Part stalls = root.at("stall_s");
  for (std::size_t c = 0; c < kCauses; ++c)
    if (const std::string name(kCauseNames[c]); c < kCausesOfAll || stalls.has(name.c_str()))
      r.stall_s[c] = stalls.at(name).number();
  r.stalls_of = instance_of_stalls(file, root);
  add_figures(root.at("metrics"), r);
  for (const char* part : {"hits", "decode_hits", "bytes"})  // where they were counted
    if (root.has(part)) add_figures(root.at(part), r);
  add_figures(root.at("stall_s"), r);
  if (root.has("latency_s")) {
    const Part latencies = root.at("latency_s");
    if (!latencies.json().is_object()) latencies.fail("an object");
    for (const auto& [cause, seconds] : latencies.json().items())
      r.latency_s.emplace_back(cause, latencies.at(cause).number());
    add_figures(latencies, r);
  }
  if (root.has("busy_s")) add_figures(root.at("busy_s"), r);  // not so where nothing was run
  read_inputs(file, root, r);
  return r;
}

}  // namespace

std::vector<ResultFile> results_of_text(const std::string& file, const std::string& text) {
  const Json json = parse(file, text);
  std::vector<ResultFile> results;
  if (json.is_array()) {
    for (const Json& one : json) results.push_back(read_result(file, one));
    if (results.empty()) throw InputError(file, "holds no result");
  } else {
    results.push_back(read_result(file, json));
  }
  return results;
}

std::vector<ResultFile> read_results(const std::string& file) {
  return results_of_text(file, text_of_file(file));
}

const ResultFile& result_of_system(const std::vector<ResultFile>& results, const std::string& system) {
  std::vector<std::string> known;
  for (const ResultFile& r : results) known.push_back(r.system);
  if (system.empty() && results.size() == 1) return results.front();
  const auto found = std::find(known.begin(), known.end(), system);
  if (found != known.end()) return results[static_cast<std::size_t>(found - known.begin())];
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  if (system.empty())
    throw InputError(results.front().file, "holds results of several systems; choose one: " + all);
  throw InputError(results.front().file,
                   "has no result of system '" + system + "'" + suggestion(system, known));
}

}  // namespace moelab
