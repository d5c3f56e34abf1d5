#include "hw/validate/validation_fit.hpp"

#include <algorithm>
#include <ranges>

#include "hw/codec/codec.hpp"
#include "models/input_error.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

/// Why a system that pages its experts cannot be validated; empty: it can.
std::string why_no_window(const SystemConfig& system, const DeviceProfile& device, bool gpu) {
  const PagingConfig& paging = *system.paging;
  if (!device.is_discrete() || !(gpu || device.has_stand_in()))
    return "pages its experts, whole layers at a time ('paging'), in a GPU with memory of its own: "
           "expected its profile with --compute gpu, or one of 'moelab calibrate --stand-in-gpu', whose GPU "
           "the CPU plays";
  if (!device.gpu->remap)
    return "pages its experts; device '" + device.name +
           "' does not say what remapping takes (gpu.remap), which 'moelab calibrate' measures, with "
           "--stand-in-gpu where the CPU plays the GPU";
  if (paging.residency.name != "fixed")
    return "moves experts while it serves (residency '" + paging.residency.name +
           "'): what has come by a step depends on how fast copies are, so the two runs would not do the "
           "same: expected 'residency: {policy: fixed}'";
  if (paging.pinned > 0)
    return "keeps experts beside its window ('pinned'); the executor's pages are those of whole layers: "
           "expected none pinned";
  if (paging.fetch != PagingConfig::Fetch::layer)
    return "brings the experts that a gate chose, one by one ('fetch'); the executor's window takes whole "
           "layers: expected 'fetch: layer'";
  if (system.routing.name != "model")
    return "has routing '" + system.routing.name +
           "', which may use other experts than the trace has; the executor's window computes those of the "
           "trace: expected 'routing: {policy: model}'";
  if (std::ranges::find(paging.backends, "ssd") != paging.backends.end())
    return "feeds its window from the SSD (backend 'ssd') in pieces of a layer, which are no experts: the "
           "executor's is fed from the GPU's and the host's memory; expected 'resident', 'host' or a codec "
           "of gpu.codecs";
  return "";
}

}  // namespace

void require_fit_for_hardware(const Scenario& scenario, bool gpu) {
  Problems problems;
  if (scenario.model.stored.of(WeightPart::experts) != 2)
    problems.add({scenario.name, 0, 0,
                  "model '" + scenario.model.name + "' has experts as " + scenario.model.stored.name +
                      "; what validate packs and computes with is BF16: expected 'weights: bf16'"});
  for (const SystemConfig& system : scenario.systems) {
    const auto fail = [&](const std::string& what) {
      problems.add({scenario.name, 0, 0, "system '" + system.name + "' " + what});
    };
    if (system.page_cache && !system.paging)
      fail(
          "reads through the page cache, whose contents cannot be promised: write page_cache: false "
          "(--set overrides.system.page_cache=false for systems by name)");
    if (system.prefetch.name != "none")
      fail("prefetches: what it does depends on how fast things are, so the two runs would not do the same");
    if (system.paging)
      if (const std::string why = why_no_window(system, scenario.device, gpu); !why.empty()) fail(why);
    if (system.compressed && scenario.device.is_discrete())
      fail("stores its experts compressed; what validate runs for a GPU with memory of its own (device '" +
           scenario.device.name + "') lies in the host's memory as it is: expected 'weights: whole'");
  }
  if (scenario.cluster)
    problems.add({scenario.name, 0, 0, "serves on a cluster; this is one machine: expected 'device'"});
  const auto alone = [&](const char* key, std::uint32_t gpus, const char* shares) {
    if (gpus > 1)
      problems.add({scenario.name, 0, 0,
                    std::string(key) + ": " + std::to_string(gpus) + " shares " + shares +
                        " over GPUs; on hardware one runs: expected 1"});
  };
  alone("tensor_parallel", scenario.tensor_parallel, "layers");
  alone("data_parallel", scenario.data_parallel, "requests");
  problems.throw_if_any();
}

std::uint32_t shards_of(const Scenario& scenario) {
  std::uint32_t shards = 0;
  for (const SystemConfig& system : scenario.systems) {
    if (!system.compressed) continue;
    if (shards != 0 && system.shards != shards)
      throw InputError(scenario.name, "its systems read " + std::to_string(shards) + " and " +
                                          std::to_string(system.shards) +
                                          " shards a tensor: validate packs one store a codec");
    shards = system.shards;
  }
  return std::max(1U, shards);
}

std::string window_codec_of(const Scenario& scenario) {
  std::string codec;
  for (const SystemConfig& system : scenario.systems) {
    if (!system.paging) continue;
    for (const std::string& backend : system.paging->backends) {
      if (backend == "resident" || backend == "host" || backend == codec) continue;
      if (!codec.empty())
        throw InputError(scenario.name, "its systems have experts compressed by '" + codec + "' and '" +
                                            backend + "' in the GPU's memory: validate packs one store");
      find_codec(backend);  // one that is ours
      codec = backend;
    }
  }
  return codec;
}

}  // namespace moelab
