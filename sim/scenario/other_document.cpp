#include "sim/scenario/other_document.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// A file of results has every key of a scenario wrong: said once, with what reads it.
void refuse_results(const std::string& file, const Json& document) {
  const Json& first = document.is_array() && !document.empty() ? document.front() : document;
  if (!first.is_object()) return;
  const auto refuse = [&](const std::string& command, const std::string& readers) {
    throw InputError(file, "holds results of '" + command + "'; " + readers + "; expected a scenario");
  };
  const std::string report = "'moelab report " + file + " --out report.html' shows them";
  if (first.contains("result_format"))
    refuse("moelab run", "'moelab explain " + file + "' says what they come from, " + report);
  if (first.contains("load_format")) refuse("moelab load", report);
  if (first.contains("world_format")) refuse("experiments/world/run.sh", report);
}

/// Workload and systems of one machine mean nothing on a cluster: said once, not of each key.
void refuse_cluster_of_machine(const std::string& file, const Json& document,
                               const std::vector<std::pair<std::string, std::string>>& settings) {
  const bool set = std::any_of(settings.begin(), settings.end(),
                               [](const auto& setting) { return setting.first == "cluster"; });
  if (!set || !document.is_object() || !(document.contains("device") || document.contains("machine"))) return;
  throw InputError(file + " (with cluster)",
                   "is a scenario of one machine, whose workload and systems are not a cluster's; expected a "
                   "scenario that has a cluster, such as 'moelab run prism-offload --set cluster=...' "
                   "('moelab scenarios' lists them)");
}

}  // namespace

void refuse_other_document(const std::string& file, const Json& document,
                           const std::vector<std::pair<std::string, std::string>>& settings) {
  refuse_results(file, document);
  refuse_cluster_of_machine(file, document, settings);
}

}  // namespace moelab
