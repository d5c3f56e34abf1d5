#include "sim/scenario/workload_config.hpp"

#include <array>
#include <filesystem>
#include <system_error>

#include "models/config_store.hpp"
#include "models/yaml_reader.hpp"
#include "traces/generator.hpp"

namespace moelab {
namespace {

constexpr std::array<std::string_view, 4> kParameters = {"skew", "reuse", "drift", "gate_decay"};

void read_law(const YamlMap& section, const std::string& base, Problems& problems, WorkloadConfig& w) {
  for (const std::string_view key : kParameters)
    if (section.has(key)) section.fail(key, "'" + std::string(key) + "' is the law's to say");
  const std::string name = section.text("law");
  if (name.empty()) return;  // reported already
  try {
    w.law_file = find_config("laws", name, base).name;
    w.law = load_routing_law(name, base);
    w.has_law = true;
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      if (problem.file.empty())
        section.fail("law", problem.what);
      else
        problems.add(problem);
  }
}

/// A log of requests, or as many as are wanted of one length.
void read_lengths(const YamlMap& section, const std::string& base, Problems& problems, WorkloadConfig& w) {
  if (!section.has("request_log")) {
    w.requests = static_cast<std::uint32_t>(section.integer("requests", 1, kMostCounted, w.batch));
    w.prompt_tokens = static_cast<std::uint32_t>(section.integer("prompt_tokens", 1, kMostCounted));
    w.output_tokens = static_cast<std::uint32_t>(section.integer("output_tokens", 1, kMostCounted));
    w.arrivals_per_s = section.number("arrivals_per_s", {0, 1e9}, 0.0);
    return;
  }
  for (const std::string_view key : {"requests", "prompt_tokens", "output_tokens", "arrivals_per_s"})
    if (section.has(key)) section.fail(key, "'" + std::string(key) + "' is the request log's to say");
  w.request_log = named_file(section.text("request_log"), base);
  if (w.request_log.empty()) return;  // reported already
  try {
    w.log = read_request_log(w.request_log);
    w.requests = static_cast<std::uint32_t>(w.log.size());
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
  }
}

}  // namespace

WorkloadConfig::WorkloadConfig() = default;
WorkloadConfig::WorkloadConfig(const WorkloadConfig&) = default;
WorkloadConfig::WorkloadConfig(WorkloadConfig&&) noexcept = default;
WorkloadConfig& WorkloadConfig::operator=(const WorkloadConfig&) = default;
WorkloadConfig& WorkloadConfig::operator=(WorkloadConfig&&) noexcept = default;
WorkloadConfig::~WorkloadConfig() = default;

WorkloadConfig read_workload(const YamlMap& root, const std::string& base, Problems& problems) {
  WorkloadConfig w;
  const YamlMap section = root.map("workload");
  w.batch = static_cast<std::uint32_t>(section.integer("batch", 1, 4096, 1));
  w.prefilled = section.boolean("prefilled", false);
  if (section.has("trace")) {
    w.arrivals_per_s = section.number("arrivals_per_s", {0, 1e9}, 0.0);
    w.trace_file = named_file(section.text("trace"), base);
    w.trace_requests = static_cast<std::uint32_t>(section.integer("requests", 0, kMostCounted, 0));
    for (const std::string_view key : {"prompt_tokens", "output_tokens"})
      if (section.has(key))
        section.fail(
            key, "the trace says how many tokens its requests have; leave '" + std::string(key) +
                     "' out (on the command line: --set workload=\"{batch: 1, trace: FILE}\", and "
                     "\"requests: 5\" in it for the trace's first five; fewer tokens: moelab trace slice)");
  } else {
    read_lengths(section, base, problems, w);
    if (section.has("law")) {
      read_law(section, base, problems, w);
      section.done();
      return w;
    }
    for (const std::string_view key : kParameters) w.has_parameters |= section.has(key);
    const GeneratorParameters defaults;
    w.skew = section.number("skew", {0, 10}, defaults.skew);
    w.reuse = section.number("reuse", {0, 1}, defaults.reuse);
    w.drift = section.number("drift", {0, 1}, defaults.drift);
    w.gate_decay = section.number("gate_decay", {0, 10}, defaults.gate_decay);
  }
  section.done();
  return w;
}

std::string named_file(const std::string& name, const std::string& base) {
  std::error_code ignored;
  const std::filesystem::path path(name), there = std::filesystem::path(base) / path;
  if (name.empty() || !path.is_relative() || !std::filesystem::exists(there, ignored)) return name;
  return there.string();
}

}  // namespace moelab
