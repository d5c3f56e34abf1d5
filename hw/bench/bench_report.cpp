#include "hw/bench/bench_report.hpp"

#include "models/json.hpp"

namespace moelab {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const MachineContext& context) {
  return {{"cpu", context.cpu},
          {"cores", context.cores},
          {"kernel", context.kernel},
          {"governor", context.governor},
          {"load", context.load},
          {"filesystem", context.filesystem},
          {"memory_bytes", context.memory},
          {"available_memory_bytes", context.available_memory},
          {"gpu", context.gpu},
          {"driver", context.driver},
          {"date", context.date},
          {"program", context.program},
          {"compiler", context.compiler},
          {"libraries", context.libraries},
          {"warnings", context.warnings()}};
}

Json json_of(const BenchParameters& parameters) {
  Json all = Json::object();
  for (const auto& [name, value] : parameters.all())
    std::visit([&, key = name](const auto& one) { all[key] = one; }, value);
  return all;
}

Json json_of(const BenchResult& result) {
  Json json = {{"case", result.name},
               {"parameters", json_of(result.parameters)},
               {"status", to_string(result.status)}};
  if (!result.measured()) {
    json["reason"] = result.reason;
    return json;
  }
  const SampleStatistics& found = result.statistics;
  json.update({{"unit", "s"},
               {"median", found.median},
               {"p10", found.p10},
               {"p90", found.p90},
               {"mean", found.mean},
               {"variation", found.variation},
               {"noisy", result.noisy()}});
  if (result.bytes > 0)
    json.update({{"bytes", result.bytes}, {"bytes_per_second", result.bytes_per_second()}});
  if (result.flops > 0)
    json.update({{"flops", result.flops}, {"flops_per_second", result.flops_per_second()}});
  json.update({{"operations_per_sample", result.operations}, {"samples", result.samples}});
  return json;
}

}  // namespace

std::string to_json(const BenchReport& report) {
  Json results = Json::array();
  for (const BenchResult& result : report.results) results.push_back(json_of(result));
  const Json all = {{"format", "moelab-bench"},
                    {"format_version", 1},
                    {"context", json_of(report.context)},
                    {"quick", report.quick},
                    {"results", std::move(results)}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moelab
