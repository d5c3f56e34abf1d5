#include "sim/scenario/instances_config.hpp"

#include "models/yaml_reader.hpp"
#include "policies/batching/batching.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMostInstances = 1024;

KvLink read_link(const YamlMap& section) {
  KvLink link;
  const YamlMap map = section.map("link");
  link.bandwidth = map.quantity<BytesPerSecond>("bandwidth", above(BytesPerSecond(0)));
  link.latency = map.quantity<Seconds>("latency", at_least(Seconds(0)), Seconds(0));
  link.source = map.text("source");
  map.done();
  return link;
}

std::uint32_t read_count(const YamlMap& section, std::string_view key) {
  return static_cast<std::uint32_t>(section.integer(key, 1, kMostInstances));
}

}  // namespace

std::string InstancesConfig::name(std::uint32_t number) const {
  if (colocated > 0) return "server" + std::to_string(number);
  return number < prefill ? "prefill" + std::to_string(number) : "decode" + std::to_string(number - prefill);
}

std::optional<InstancesConfig> read_instances(const YamlMap& root) {
  const auto section = root.optional_map("instances");
  if (!section) return std::nullopt;
  InstancesConfig instances;
  const bool apart = section->has("prefill") || section->has("decode") || section->has("link");
  if (section->has("colocated") && apart)
    section->fail(
        "colocated",
        "instances are all alike, or they are of two kinds: expected 'colocated', or 'prefill' with "
        "'decode' and 'link'");
  if (section->has("colocated") || !apart) instances.colocated = read_count(*section, "colocated");
  if (apart) {
    instances.prefill = read_count(*section, "prefill");
    instances.decode = read_count(*section, "decode");
    instances.link = read_link(*section);
  }
  section->done();
  return instances;
}

void check_instances(const SystemConfig& system, const Scenario& scenario, const YamlNode& where) {
  if (!system.instances || !system.instances->disaggregated()) return;
  const auto refuse = [&](const std::string& what) {
    where.fail("system '" + system.name + "' has instances that only run prompts (instances.prefill); " +
               what);
  };
  const BatchingPolicyEntry& batching = *find_batching_policy(system.batching->policy.name);
  if (!batching.hands_over || !batching.info.library.empty())
    refuse("batching '" + system.batching->policy.name +
           "' neither keeps a request's blocks until they are sent nor takes blocks for what is to come. "
           "Expected 'vllm-v1' or 'continuous'");
  if (scenario.data_parallel > 1)
    refuse(
        "with data parallelism a request's KV cache is on one of the GPUs, and crosses that one's link "
        "alone, "
        "which is not simulated. Expected 'tensor_parallel', where each GPU sends its part");
  if (system.paging->residency.name != "fixed")
    refuse("residency '" + system.paging->residency.name +
           "' takes memory back from the KV cache, of which blocks cannot move while they are sent. Expected "
           "'paging.residency: {policy: fixed}'");
  if (scenario.workload.prefilled)
    refuse("the workload's prompts are run elsewhere already. Expected 'workload.prefilled: false'");
}

}  // namespace moelab
