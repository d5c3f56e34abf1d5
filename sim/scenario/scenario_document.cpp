#include "sim/scenario/scenario_document.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/text_file.hpp"
#include "policies/cache/cache.hpp"
#include "policies/load_library.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/policy_choice.hpp"
#include "sim/version.hpp"
#include "traces/default_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

std::string hexadecimal(std::uint64_t word) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(word));
  return text.data();
}

struct StateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

std::string digest_of_text(std::string_view text) {
  return hexadecimal(XXH3_64bits(text.data(), text.size()));
}

std::string digest128(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return hexadecimal(hash.high64) + hexadecimal(hash.low64);
}

/// Of a file, or of what is in the program: of a law, what it says, whatever its comments.
std::string digest_of(const std::string& path, const WorkloadConfig& workload) {
  if (path == workload.law_file) return digest_of_text(to_yaml(workload.law));
  if (is_default_trace(path)) return digest_of_text(default_trace_bytes());
  return digest_of_file(path);
}

void replace_paths(Json& node, const std::vector<DataFile>& data) {
  if (node.is_structured())
    for (Json& child : node) replace_paths(child, data);
  if (!node.is_string()) return;
  for (const DataFile& file : data)
    if (node.get_ref<const std::string&>() == lasting_path(file.path)) {  // as documents have it
      node = file.digest;
      return;
    }
}

}  // namespace

std::string digest_of_file(const std::string& path) {
  check_regular_file(path);
  const std::unique_ptr<XXH3_state_t, StateDeleter> state(XXH3_createState());
  if (state == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    XXH3_64bits_update(state.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw InputError(path, "cannot be read");
  return hexadecimal(XXH3_64bits_digest(state.get()));
}

std::string digest_of_origin(const std::string& origin) {
  return is_library_file(origin) ? digest_of_file(origin) : digest_of_policies(origin);
}

std::vector<DataFile> data_files(const Scenario& scenario) {
  std::vector<DataFile> files;
  for (const std::string& library : scenario.policy_libraries) check_library_unchanged(library);
  const auto known = [&files](const std::string& path) {
    return std::any_of(files.begin(), files.end(), [&](const DataFile& f) { return f.path == path; });
  };
  for (const std::string& path : scenario_inputs(scenario))
    if (!known(path)) files.push_back({path, digest_of(path, scenario.workload)});
  for (const SystemConfig& system : scenario.systems)
    for (const std::string& origin : policy_origins_of(system))
      if (!is_library_file(origin) && !known(origin)) files.push_back({origin, digest_of_policies(origin)});
  return files;
}

std::string scenario_document(const Scenario& scenario, const SystemConfig& system) {
  Json document = Json::parse(scenario.document);
  Json only = Json::array();
  for (Json& item : document.at("systems"))
    if (item.at("name") == system.name) only.push_back(std::move(item));
  document["systems"] = std::move(only);
  return document.dump();
}

std::string document_digest(const std::string& document, const std::vector<DataFile>& data) {
  Json whole = Json::parse(document);
  replace_paths(whole, data);
  return digest128(whole.dump());
}

std::string run_identity(const std::string& document, const std::vector<DataFile>& data,
                         const std::vector<std::pair<std::string, std::string>>& settings,
                         const std::string& executor) {
  Json whole = Json::parse(document);
  replace_paths(whole, data);
  std::string text = whole.dump() + "\n" + executor + "\n" + program_version();
  for (const DataFile& file : data) text += "\n" + file.digest;
  text += "\n" + Json(settings).dump();
  return digest128(text);
}

std::string document_with_cache(const std::string& document, std::string_view policy,
                                const PolicyParameters& parameters) {
  nlohmann::ordered_json changed = nlohmann::ordered_json::parse(document);
  auto& system = changed["systems"][0];
  const auto old = system.contains("cache") ? system["cache"] : nlohmann::ordered_json::object();
  if (system.contains("cache") && old.value("policy", "") == policy) {
    if (parameters.empty()) return document;
    for (const auto& [name, value] : parameters) system["cache"][name] = value;
    return changed.dump();
  }
  nlohmann::ordered_json cache = {{"policy", std::string(policy)}};
  for (const auto& [name, value] : parameters) cache[name] = value;
  if (old.contains("keep_as")) cache["keep_as"] = old["keep_as"];
  if (policy != "none" && old.contains("experts")) cache["experts"] = old["experts"];  // beside a window
  // A policy with room of its own in each layer is refused where the system's layers share it.
  if (const CachePolicyEntry* entry = find_cache_policy(policy);
      entry != nullptr && old.contains("domain") &&
      (entry->may_span_model || (!entry->per_model && old["domain"] == "model")))
    cache["domain"] = old["domain"];
  system["cache"] = cache;
  system.erase("planning");
  return changed.dump();
}

}  // namespace moelab
