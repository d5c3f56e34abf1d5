#include "sim/scenario/system_fit.hpp"

#include <algorithm>
#include <cmath>

#include "models/expert_parallel.hpp"
#include "models/runtime_fit.hpp"
#include "policies/batching/batching.hpp"
#include "sim/scenario/parallel_config.hpp"

namespace moelab {
namespace {

/// Where experts may lie on the device.
void check_paging(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  const DeviceProfile& device = scenario.device;
  std::vector<std::string> known = {"resident", "ssd"};
  if (device.is_discrete()) known.emplace_back("host");
  if (device.gpu)
    for (const auto& [name, codec] : device.gpu->codecs) known.push_back(name);
  for (const std::string& backend : system.paging->backends) {
    if (std::find(known.begin(), known.end(), backend) != known.end()) continue;
    if (backend == "host")
      where.fail(who + "has backend 'host', memory that the GPU reaches over a link; device '" + device.name +
                 "' has one memory for CPU and GPU: expected 'resident', or 'ssd' for what does not fit");
    else
      where.fail(who + "has backend '" + backend + "', which is none of 'resident', " +
                 (device.is_discrete() ? "'host', " : "") + "'ssd' and the gpu.codecs of device '" +
                 device.name + "'" + suggestion(backend, known));
  }
}

/// As many as a layer has on a GPU.
void check_pinned(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const int all = most_experts_of_rank(scenario.model.experts_or_none().experts,
                                       static_cast<int>(scenario.expert_ranks()));
  if (system.paging->pinned > static_cast<std::uint32_t>(all))
    where.fail("system '" + system.name + "' pins " + std::to_string(system.paging->pinned) +
               " experts of each layer (cache.experts); a layer of model '" + scenario.model.name + "' has " +
               std::to_string(all) + (scenario.expert_ranks() > 1 ? " on each GPU" : ""));
}

/// Room for the requests of a step, and for what is swapped.
void check_batching(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  const BatchingConfig& batching = *system.batching;
  if (scenario.workload.batch > batching.max_tokens)
    where.fail(who + "runs at most " + std::to_string(batching.max_tokens) +
               " tokens a step (batching.max_tokens), fewer than one of each of the batch's " +
               std::to_string(scenario.workload.batch) + " requests");
  const MemoryProfile& host = scenario.device.memory;
  const Bytes usable = host.total.value - host.system_reserve.value;
  const Bytes swap = scenario.gpus() * system.kv.swap_space;
  if (scenario.device.is_discrete() && swap > usable)
    where.fail(who + "swaps into " + to_string(swap) + " of host memory (kv.swap_space of each GPU), of " +
               to_string(usable) + " that device '" + scenario.device.name + "' has to give");
}

/// Of a dense model every weight is used by every token: there is nothing that a policy could leave out of
/// the GPU's memory and fetch when it is chosen.
void check_on_dense(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  const std::string dense = "model '" + scenario.model.name +
                            "' has no experts: each step reads all of its "
                            "weights, and none waits to be chosen. Expected ";
  if (!system.paging) {
    where.fail(who + "caches experts one by one; " + dense +
               "a system of 'weights: paged' with 'paging.backends: [resident]', as vllm is");
    return;
  }
  for (const std::string& backend : system.paging->backends)
    if (backend != "resident")
      where.fail(who + "keeps experts in '" + backend + "'; " + dense + "'paging.backends: [resident]'");
  if (system.paging->fetch != PagingConfig::Fetch::layer)
    where.fail(who + "fetches experts by their gate; " + dense + "'paging.fetch: layer'");
}

/// A codec that a part of the device has a speed for.
template <class Codecs>
bool has_codec(const SystemConfig& system, const DeviceProfile& device, const Codecs& codecs,
               const std::string& part, const YamlNode& where) {
  if (codecs.contains(system.codec)) return true;
  std::vector<std::string> known;
  for (const auto& [name, codec] : codecs) known.push_back(name);
  where.fail("system '" + system.name + "' uses codec '" + system.codec + "', which device '" + device.name +
             "' has no speed for" + part + suggestion(system.codec, known));
  return false;
}

/// A GPU that decodes in its own memory.
void check_gpu_codec(const SystemConfig& system, const DeviceProfile& device, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' has decoder 'gpu'";
  if (!device.is_discrete() || device.has_stand_in()) {
    where.fail(who + ", which decodes in a GPU's own memory; device '" + device.name +
               (device.has_stand_in() ? "' has a GPU that the CPU plays" : "' has none") +
               ": expected 'decoder: cpu'");
    return;
  }
  if (!has_codec(system, device, device.gpu->codecs, " on its GPU (gpu.codecs)", where)) return;
  const GpuCodecProfile& codec = device.gpu->codecs.at(system.codec);
  if (!(codec.exponent_ratio() > 0))
    where.fail(who + "; codec '" + system.codec + "' of device '" + device.name +
               "' makes weights half as long or less, so it codes more than exponents: expected another one");
}

/// A codec that the device has a speed for, and cores for its threads.
void check_codec(const SystemConfig& system, const DeviceProfile& device, const YamlNode& where) {
  if (!system.compressed) return;
  if (system.decoder == Decoder::gpu) return check_gpu_codec(system, device, where);
  has_codec(system, device, device.codecs, "", where);
  if (system.threads > static_cast<std::uint32_t>(device.cpu.threads.value))
    where.fail("system '" + system.name + "' wants " + std::to_string(system.threads) +
               " decompression threads, but device '" + device.name + "' has " +
               std::to_string(device.cpu.threads.value) + " cores");
}

/// What is different where there are several servers.
void check_on_cluster(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  const std::string who = "system '" + system.name + "' ";
  if (!scenario.cluster) {
    where.fail(who +
               (system.placed                             ? "places experts on several servers"
                : system.redirection != Redirection::none ? "redirects requests"
                                                          : "looks for servers that have left (detection)") +
               "; the scenario has one device: expected 'cluster' in the place of 'device'");
    return;
  }
  if (system.paging)
    where.fail(who +
               "has weights 'paged'; on the servers of a cluster experts are 'placed', or 'whole' or "
               "'compressed' on each server alone");
  for (const DeviceProfile& device : scenario.cluster->profile.devices) check_codec(system, device, where);
  if (system.placed && system.placed->copies > scenario.cluster->profile.servers.size())
    where.fail(who + "keeps each expert on " + std::to_string(system.placed->copies) +
               " servers (placement.copies); cluster '" + scenario.cluster->profile.name + "' has " +
               std::to_string(scenario.cluster->profile.servers.size()));
}

}  // namespace

void check_on_device(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if (scenario.machine && system.runtime)
    if (const std::string why = cannot_run_on(*system.runtime, *scenario.machine); !why.empty())
      where.fail("system '" + system.name + "' cannot be served so: " + why +
                 ". `moelab advise` says which runtimes a machine has");
  if (scenario.cluster || system.placed || system.redirection != Redirection::none || system.detection) {
    check_on_cluster(system, scenario, where);
    return;
  }
  if (system.paging) check_paging(system, scenario, where);
  if (system.paging) check_pinned(system, scenario, where);
  check_on_gpus(system, scenario, where);
  if (system.batching) check_batching(system, scenario, where);
  check_instances(system, scenario, where);
  check_codec(system, scenario.device, where);
}

/// A compressed tensor is a BF16 one, split into two planes of a byte an element.
void check_on_model(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if (const std::string why = cannot_speculate(system, scenario); !why.empty()) where.fail(why);
  const bool come_and_go =
      system.batching && !find_batching_policy(system.batching->policy.name)->static_batches;
  if ((system.paging || scenario.cluster || come_and_go) && scenario.model.has_encoder())
    where.fail("system '" + system.name + "' batches requests as they come and go; model '" +
               scenario.model.name +
               "' has an encoder: one that gives way would run its answer through it. Expected 'batching: "
               "{policy: static}', or none, with experts whole or compressed on one device");
  if (!scenario.model.is_moe() && !scenario.cluster) check_on_dense(system, scenario, where);
  if (system.compressed && scenario.model.stored.of(WeightPart::experts) != 2)
    where.fail(
        "system '" + system.name + "' compresses BF16 weights, but those of model '" + scenario.model.name +
        "' take " + shortest_text(std::round(100 * scenario.model.stored.of(WeightPart::experts)) / 100) +
        " bytes each (" + scenario.model.stored.name + "). What would make it possible: weights: bf16");
}

}  // namespace moelab
