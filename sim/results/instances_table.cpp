#include "sim/results/instances_table.hpp"

#include "sim/results/result_json.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

TextTable instances_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"instances", "instance", "GPUs", "requests", "steps", "tokens a step", "computing %", "KV peak %"}};
  for (const RunResult& r : results) {
    const auto& servers = r.instances.servers;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      const InstanceResult& one = servers[i];
      rows.push_back(
          {i == 0 ? r.system : "", one.name, std::to_string(r.instances.gpus / servers.size()),
           std::to_string(one.requests), std::to_string(one.steps),
           one.steps == 0 ? "-" : fixed(static_cast<double>(one.rows) / static_cast<double>(one.steps), 1),
           percent(one.computed_s, r.metrics.wall_s), percent(one.most_kv_use, 1)});
    }
  }
  return {rows};
}

TextTable transfers_table(const std::vector<RunResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"KV caches sent", "requests", "GB a GPU", "MB a request", "wait for blocks ms", "on the way ms"}};
  for (const RunResult& r : results) {
    const TransferCounts& c = r.instances.transfers;
    if (c.transfers == 0) continue;
    const auto count = static_cast<double>(c.transfers);
    rows.push_back({r.system, std::to_string(c.transfers), three_digits(c.bytes / 1e9, 2),
                    three_digits(c.bytes / count / 1e6, 1), three_digits(1e3 * c.wait_s / count, 2),
                    three_digits(1e3 * c.send_s / count, 2)});
  }
  return {rows};
}

}  // namespace

void add_instances(const std::vector<RunResult>& results, TextReport& report) {
  report.add_table(instances_table(results));
  report.add_table(transfers_table(results));
}

nlohmann::ordered_json instances_json(const InstancesResult& instances) {
  using Json = nlohmann::ordered_json;
  Json servers = Json::array();
  for (const InstanceResult& one : instances.servers)
    servers.push_back({{"name", one.name},
                       {"kind", to_string(one.kind)},
                       {"requests", one.requests},
                       {"steps", one.steps},
                       {"rows", one.rows},
                       {"computed_s", one.computed_s},
                       {"most_kv_use", one.most_kv_use},
                       {"stall_s", stall_json(one.stall_s)}});
  Json busiest = Json::array();
  for (const std::size_t place : instances.busiest()) busiest.push_back(instances.servers[place].name);
  Json j = {{"gpus", instances.gpus}, {"busiest", busiest}, {"servers", servers}};
  const TransferCounts& c = instances.transfers;
  if (c.transfers == 0) return j;
  const auto count = static_cast<double>(c.transfers);
  j["transfers"] = {{"requests", c.transfers},
                    {"bytes", c.bytes},
                    {"wait_s", c.wait_s / count},
                    {"send_s", c.send_s / count}};
  return j;
}

}  // namespace moelab
