#include "sim/scenario/system_fit.hpp"

#include <algorithm>

namespace moelab {
namespace {

/// Where experts may lie on the device, and that there is a GPU to page them into.
void check_paging(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  if (!scenario.device.is_discrete() || scenario.device.has_stand_in()) {
    where.fail(who + "pages its experts into a GPU's own memory, which device '" + scenario.device.name +
               "' has not");
    return;
  }
  std::vector<std::string> known = {"resident", "host", "ssd"};
  for (const auto& [name, codec] : scenario.device.gpu->codecs) known.push_back(name);
  for (const std::string& backend : system.paging->backends)
    if (std::find(known.begin(), known.end(), backend) == known.end())
      where.fail(who + "has backend '" + backend +
                 "', which is none of 'resident', 'host', 'ssd' and the gpu.codecs of device '" +
                 scenario.device.name + "'" + suggestion(backend, known));
  const PagingConfig& paging = *system.paging;
  if (scenario.workload.batch > paging.max_tokens)
    where.fail(who + "runs at most " + std::to_string(paging.max_tokens) +
               " tokens a step (paging.max_tokens), fewer than one of each of the batch's " +
               std::to_string(scenario.workload.batch) + " requests");
  const MemoryProfile& host = scenario.device.memory;
  const Bytes usable = host.total.value - host.system_reserve.value;
  if (const Bytes swap = scenario.tensor_parallel * paging.swap_space; swap > usable)
    where.fail(who + "swaps into " + to_string(swap) +
               " of host memory (paging.swap_space of each GPU), of " + to_string(usable) + " that device '" +
               scenario.device.name + "' has to give");
}

/// What only systems with pages can do of a scenario.
void check_without_paging(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const WorkloadConfig& w = scenario.workload;
  const auto refuse = [&](const std::string& what) {
    where.fail("system '" + system.name + "' serves one batch after another" + what +
               ", which only systems with 'weights: paged' do");
  };
  if (scenario.tensor_parallel > 1) refuse(" on one GPU; the scenario has tensor_parallel");
  if (w.prefilled) refuse(", prompts included; the workload is prefilled");
  if (!w.request_log.empty() || w.arrivals_per_s > 0) refuse("; the workload's requests come when they come");
}

/// A codec that the device has a speed for, and cores for its threads.
void check_codec(const SystemConfig& system, const DeviceProfile& device, const YamlNode& where) {
  if (!system.compressed) return;
  if (!device.codecs.contains(system.codec)) {
    std::vector<std::string> known;
    for (const auto& [name, codec] : device.codecs) known.push_back(name);
    where.fail("system '" + system.name + "' uses codec '" + system.codec + "', which device '" +
               device.name + "' has no speed for" + suggestion(system.codec, known));
  }
  if (system.threads > static_cast<std::uint32_t>(device.cpu.threads.value))
    where.fail("system '" + system.name + "' wants " + std::to_string(system.threads) +
               " decompression threads, but device '" + device.name + "' has " +
               std::to_string(device.cpu.threads.value) + " cores");
}

/// What is different where there are several servers.
void check_on_cluster(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  if (!scenario.cluster) {
    where.fail(who + (system.placed ? "places experts on several servers" : "redirects requests") +
               "; the scenario has one device: expected 'cluster' in the place of 'device'");
    return;
  }
  if (system.paging)
    where.fail(who +
               "has weights 'paged'; on the servers of a cluster experts are 'placed', or 'whole' or "
               "'compressed' on each server alone");
  for (const DeviceProfile& device : scenario.cluster->profile.devices)
    if (!device.is_discrete()) check_codec(system, device, where);  // there it cannot be: run.cpp says why
  if (system.placed && system.placed->copies > scenario.cluster->profile.servers.size())
    where.fail(who + "keeps each expert on " + std::to_string(system.placed->copies) +
               " servers (placement.copies); cluster '" + scenario.cluster->profile.name + "' has " +
               std::to_string(scenario.cluster->profile.servers.size()));
}

}  // namespace

void check_on_device(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if (scenario.cluster || system.placed || system.redirection != Redirection::none) {
    check_on_cluster(system, scenario, where);
    return;
  }
  if (system.paging)
    check_paging(system, scenario, where);
  else
    check_without_paging(system, scenario, where);
  check_codec(system, scenario.device, where);
}

/// A compressed tensor is a BF16 one, split into two planes of a byte an element.
void check_on_model(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if ((system.paging || scenario.cluster) && scenario.model.has_encoder())
    where.fail("system '" + system.name + "' batches requests as they come and go; model '" +
               scenario.model.name + "' has an encoder, which it cannot");
  if (system.compressed && scenario.model.bytes_per_weight != 2)
    where.fail("system '" + system.name + "' compresses BF16 weights, but those of model '" +
               scenario.model.name + "' take " + std::to_string(scenario.model.bytes_per_weight) +
               " bytes each");
}

}  // namespace moelab
