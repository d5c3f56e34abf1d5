// moelab keys: the table has every key that a reader takes, and says of each what it is for.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "models/yaml_reader.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::keys_command_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

ProgramResult keys(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "keys");
  return run_program(MOELAB_PROGRAM, arguments);
}

const std::map<std::string, Json>& table() {
  static const std::map<std::string, Json> all = [] {
    std::map<std::string, Json> rows;
    const ProgramResult listed = keys({"scenario", "system", "device", "cluster", "model", "sweep", "runtime",
                                       "law", "part", "--format", "json"});
    for (const Json& row : Json::parse(listed.out)) rows[row["key"]] = row;
    return rows;
  }();
  return all;
}

bool is_known(const std::string& path) {
  if (table().contains(path)) return true;
  // The value, source and spread of a number that stands with its source.
  const auto parent = table().find(path.substr(0, path.rfind('.')));
  return parent != table().end() && parent->second["sourced"] == true;
}

/// Maps whose keys a file's writer chooses.
bool is_open(const std::string& path) {
  return table().contains(path + ".NAME");
}

/// Every key below a node is in the table, under its path.
void check_keys(const Json& node, const std::string& path) {
  if (table().contains(path) && table().at(path)["sourced"] == true) return;
  if (node.is_array())
    for (const Json& item : node) check_keys(item, path + "[]");
  if (!node.is_object()) return;
  const std::string section = path == "scenario.systems[]" ? "system" : path;
  for (const auto& [key, value] : node.items()) {
    const std::string below = section + "." + (is_open(section) ? "NAME" : key);
    CAPTURE(below);
    CHECK(is_known(below));
    if (below != "scenario.overrides" && section != "sweep")
      check_keys(value, below);  // those are of other files
  }
}

std::string last_part(const std::string& path) {
  const std::string last = path.substr(path.rfind('.') + 1);
  return last.substr(0, last.find("[]"));
}

std::set<std::string> last_parts() {
  std::set<std::string> parts;
  for (const auto& [path, row] : table()) parts.insert(last_part(path));
  return parts;
}

/// Of families: where a system chooses a policy.
const std::map<std::string, std::string>& sections() {
  static const std::map<std::string, std::string> all = {{"cache", "system.cache"},
                                                         {"routing", "system.routing"},
                                                         {"schedule", "system.schedule"},
                                                         {"planning", "system.planning"},
                                                         {"prefetch", "system.prefetch"},
                                                         {"execution", "system.execution"},
                                                         {"batching", "system.batching"},
                                                         {"pressure", "system.kv"},
                                                         {"storage", "system.paging.storage"},
                                                         {"residency", "system.paging.residency"},
                                                         {"placement", "system.placement"}};
  return all;
}

}  // namespace

TEST_CASE("every key has a meaning, and every meaning a key", "[plain]") {
  std::set<std::string> explained;
  std::istringstream source(test::read_bytes(MOELAB_SOURCE_DIR "/cli/keys/key_meanings.cpp"));
  const std::regex line_of_key(
      R"(((?:scenario|system|device|cluster|model|sweep|runtime|law|part)\.[\w.\[\]]+) \S.*)");
  std::smatch found;
  for (std::string line; std::getline(source, line);)
    if (std::regex_match(line, found, line_of_key)) explained.insert(found[1]);
  CHECK(explained.size() > 150);
  for (const auto& [path, row] : table()) {
    CAPTURE(path);
    CHECK(row["meaning"] != "");
    CHECK(row["takes"] != "");
    explained.erase(path);
  }
  CHECK(explained == std::set<std::string>{});
}

TEST_CASE("every key of a shipped file is in the table", "[plain]") {
  for (const std::string root :
       {"scenario", "system", "device", "cluster", "model", "sweep", "runtime", "law", "part"})
    for (const auto& file : fs::directory_iterator(MOELAB_SOURCE_DIR "/configs/" + root + "s")) {
      if (file.path().extension() != ".yaml") continue;
      CAPTURE(file.path());
      Problems problems;
      const YamlDocument document =
          YamlDocument::from_text("file", test::read_bytes(file.path().string()), problems);
      check_keys(Json::parse(document.node().json()), root);
    }
}

TEST_CASE("every key that a reader's source takes is in the table") {
  const std::regex taken(
      R"([.>](?:text|number|integer|boolean|quantity<\w+>|choice|list|list_or_empty|map|optional_map|node|quantity|curve|factors)\()"
      R"x(\s*(?:\w+,\s*(?:"[^"]*"(?: \+ \w+)?|path \+ "[^"]*"|s\.name \+ "[^"]*"),\s*)?"(\w+)")x");
  std::set<std::string> known = last_parts();
  known.insert("system");  // within overrides, which has the keys of another file
  const std::set<std::string> of_sources = {"value", "source", "spread", "points", "latency", "rate"};
  std::size_t count = 0;
  std::vector<fs::path> files = {
      "sim/scenario.cpp",         "models/device.cpp",         "models/cluster.cpp",
      "models/machine_parts.cpp", "models/stored_weights.cpp", "sim/scenario/request_mix.cpp",
      "models/runtime.cpp",       "models/part.cpp",           "traces/law/routing_law_yaml.cpp"};
  for (const auto& file : fs::directory_iterator(MOELAB_SOURCE_DIR "/sim/scenario"))
    if (file.path().string().ends_with("_config.cpp")) files.push_back(file.path());
  for (const fs::path& file : files) {
    const std::string text = test::read_bytes((fs::path(MOELAB_SOURCE_DIR) / file).string());
    for (std::sregex_iterator it(text.begin(), text.end(), taken), end; it != end; ++it, ++count) {
      const std::string key = (*it)[1];
      CAPTURE(file, key);
      CHECK((known.contains(key) || of_sources.contains(key)));
    }
  }
  CHECK(count > 150);
}

TEST_CASE("parameters of policies are in the sections that name the policy", "[plain]") {
  std::map<std::pair<std::string, std::string>, Json> rows;
  for (const Json& row : Json::parse(keys({"system", "--format", "json"}).out))
    if (row.contains("policy")) rows[{row["key"], row["policy"]}] = row;
  std::size_t parameters = 0;
  for (const Json& policy : Json::parse(run_program(MOELAB_PROGRAM, {"policies", "--format", "json"}).out))
    for (const Json& parameter : policy["parameters"]) {
      const std::string path = sections().at(policy["family"]) + "." + parameter["name"].get<std::string>();
      CAPTURE(path);
      REQUIRE(rows.contains({path, policy["name"]}));
      const Json& row = rows.at({path, policy["name"]});
      CHECK(row["meaning"] == parameter["help"]);
      CHECK(std::stod(row["default"].get<std::string>()) == Approx(parameter["default"].get<double>()));
      ++parameters;
    }
  CHECK(rows.size() == parameters);
}

TEST_CASE("a library's parameter cannot have the name of a key that stands beside it", "[plain]") {
  const std::string source = test::read_bytes(MOELAB_SOURCE_DIR "/policies/load_library.cpp");
  const std::regex taken(R"x(\{"(\w+)",\s*"(\w+)"\})x");
  std::set<std::pair<std::string, std::string>> refused, keys_of_readers;
  for (std::sregex_iterator it(source.begin(), source.end(), taken), end; it != end; ++it)
    refused.insert({(*it)[1], (*it)[2]});
  for (const auto& [family, section] : sections())
    for (const auto& [path, row] : table())
      if (path.substr(0, path.rfind('.')) == section && !row.contains("policy") &&
          last_part(path) != "policy")
        keys_of_readers.insert({family, last_part(path)});
  for (const auto& [family, key] : keys_of_readers) {
    CAPTURE(family, key);
    CHECK(refused.contains({family, key}));
  }
  refused.erase(
      {"pressure", "first"});  // an earlier version's, which the reader answers with what took its place
  for (const auto& [family, key] : refused) {
    CAPTURE(family, key);
    CHECK(keys_of_readers.contains({family, key}));
  }
}

TEST_CASE("what a key takes is what its reader says when it is given something else") {
  const auto refusal = [](const std::string& setting) {
    return run_program(MOELAB_PROGRAM, {"check", "zipmoe-orin", "--set", setting}).err;
  };
  for (const auto& [key, setting] : std::map<std::string, std::string>{
           {"scenario.workload.batch", "workload.batch=0"},
           {"scenario.workload.skew", "workload.skew=11"},
           {"scenario.tensor_parallel", "tensor_parallel=5000"},
           {"system.shards", "overrides.system.shards=0"},
           {"device.gpu.flops_efficiency", "overrides.device.gpu.flops_efficiency.value=2"}}) {
    CAPTURE(key, refusal(setting));
    const Json& row = table().at(key);
    CHECK(contains(refusal(setting), "expected a value " + row["forms"][0]["bounds"].get<std::string>()));
  }
  CHECK(table().at("scenario.workload.batch")["default"] == "1");
  CHECK(table().at("scenario.workload")["needed"] == true);
  CHECK(table().at("scenario.budget")["needed"] == false);  // a machine of parts has its own
  CHECK(table().at("device.memory.total")["sourced"] == true);
}

TEST_CASE("a key is found by the paths that files and --set have for it", "[plain]") {
  CHECK(contains(keys({"workload.closed_loop"}).out, "scenario.workload.closed_loop.users: "));
  CHECK(keys({"overrides.system.threads"}).out == keys({"system.threads"}).out);
  CHECK(keys({"systems.0.cache"}).out == keys({"system.cache"}).out);
  CHECK(contains(keys({"budget"}).out, "scenario.budget: "));
  CHECK(contains(keys({}).out, "device.ssd: "));
  CHECK_FALSE(contains(keys({}).out, "device.ssd.read"));
  // Several are one after the other, and what is of two of them is said once.
  CHECK(keys({"system.threads", "budget", "system.threads"}).out ==
        keys({"system.threads"}).out + keys({"budget"}).out);
  check_refusal(keys({"system.cahce"}), "no key 'system.cahce' (did you mean 'system.cache'?)");
  // A name alone: the keys that are called so, or nearly so.
  check_refusal(keys({"arrivals"}), "no key 'arrivals' (did you mean 'scenario.workload.arrivals'");
  check_refusal(keys({"arivals"}), "no key 'arivals' (did you mean 'scenario.workload.arrivals'");
  check_refusal(keys({"bandwidth"}), "'device.cpu.bandwidth', ");
  // What all keys of a scenario begin with makes none like another.
  CHECK_FALSE(contains(keys({"xqzv"}).err, "did you mean"));
  // All that are wrong at once.
  const ProgramResult two = keys({"system.cahce", "budget", "arivals"});
  check_refusal(two, "no key 'system.cahce'");
  check_refusal(two, "no key 'arivals'");
  check_refusal(two, "`moelab keys` lists those of");
}

}  // namespace moelab::keys_command_test
