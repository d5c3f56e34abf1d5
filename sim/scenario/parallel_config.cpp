#include "sim/scenario/parallel_config.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/tensor_parallel.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMostGpus = 1024;
constexpr std::uint32_t kMostSimulated = 64;  // a graph has so many GPUs' resources

/// The key that a problem with the number of GPUs is said of.
const char* key_of(const Scenario& s) {
  return s.data_parallel > 1 ? "data_parallel" : "tensor_parallel";
}

/// Whether one key divides the work.
bool is_one_group(const YamlMap& root, const Scenario& s) {
  if (s.data_parallel == 1 || s.tensor_parallel == 1) return true;
  root.fail(
      "data_parallel",
      "data_parallel stands beside tensor_parallel: groups of GPUs would exchange rows at once over links "
      "that they share, and device profiles say how long one group takes (gpu.node.all_reduce). Expected one "
      "of the two above 1; what would make both possible: times of several groups at once. Groups that share "
      "nothing, each with all experts, are servers of their own: a run of one, with its tensor_parallel and "
      "its share of the requests, stands for each");
  return false;
}

/// Whether the device has so many GPUs, and says how long these exchange.
bool has_gpus(const YamlMap& root, const Scenario& s) {
  const int wanted = static_cast<int>(s.gpus());
  const std::string gpus = std::to_string(wanted) + " GPUs";
  const std::optional<NodeProfile> node = s.device.gpu ? s.device.gpu->node : std::nullopt;
  if (!node || node->gpus.value < wanted) {
    root.fail(key_of(s), key_of(s) + (" takes " + gpus) + "; device '" + s.device.name + "' has " +
                             std::to_string(node ? node->gpus.value : 1));
    return false;
  }
  if (node->all_reduce.empty() || node->all_reduce.back().gpus < wanted) {
    root.fail(key_of(s), "device '" + s.device.name + "' does not say what an all-reduce over " + gpus +
                             " takes (gpu.node.all_reduce)");
    return false;
  }
  return true;
}

bool can_divide(const YamlMap& root, const Scenario& s) {
  const std::string ranks = std::to_string(s.gpus());
  if (s.simulated_gpus() > kMostSimulated) {
    root.fail(key_of(s), key_of(s) + (" is " + ranks) +
                             "; GPUs that differ are simulated one by one, at most " +
                             std::to_string(kMostSimulated));
    return false;
  }
  if (s.data_parallel > 1 && !s.model.is_moe()) {
    root.fail("data_parallel", "data_parallel is of GPUs whose rows meet in the experts; model '" +
                                   s.model.name +
                                   "' has none, so that each GPU would be a server of its own: expected one "
                                   "scenario with its share of the requests, or tensor_parallel");
    return false;
  }
  const auto experts = static_cast<std::uint32_t>(s.model.experts_or_none().experts);
  if (s.expert_ranks() > 1 && s.expert_ranks() > experts) {
    root.fail("expert_parallel", "expert_parallel leaves GPUs without experts: model '" + s.model.name +
                                     "' has " + std::to_string(experts) + " in a layer for " + ranks +
                                     " GPUs; expected no more GPUs than that, or expert_parallel: false");
    return false;
  }
  return true;
}

}  // namespace

void read_parallelism(const YamlMap& root, bool known, Scenario& s) {
  s.tensor_parallel = static_cast<std::uint32_t>(root.integer("tensor_parallel", 1, kMostGpus, 1));
  s.data_parallel = static_cast<std::uint32_t>(root.integer("data_parallel", 1, kMostGpus, 1));
  s.expert_parallel = root.boolean("expert_parallel", false);
  if (!known || s.gpus() == 1 || !is_one_group(root, s) || !has_gpus(root, s) || !can_divide(root, s)) return;
  const std::uint32_t slices = s.expert_parallel ? 1 : s.gpus();
  try {
    s.model = parallel_part(s.model, static_cast<int>(s.tensor_parallel), static_cast<int>(slices));
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) root.fail(key_of(s), problem.what);
  }
}

void check_on_gpus(const SystemConfig& system, const Scenario& s, const YamlNode& where) {
  if (s.simulated_gpus() == 1) return;
  const std::string who = "system '" + system.name + "' ";
  const std::string key = s.expert_parallel ? "expert_parallel" : "data_parallel";
  if (!system.paging) {
    where.fail(who + "keeps experts one by one in a cache; with " + key +
               " each GPU would have a cache, a link and misses of its own, and one is simulated. Expected "
               "tensor_parallel alone, or a system whose weights are 'paged' (vllm)");
    return;
  }
  const std::vector<std::string>& backends = system.paging->backends;
  const bool streams =
      std::any_of(backends.begin(), backends.end(), [](const auto& name) { return name != "resident"; });
  if (streams && static_cast<std::uint32_t>(s.model.experts_or_none().experts) % s.expert_ranks() != 0)
    where.fail(who + "streams experts, and " + std::to_string(s.gpus()) +
               " GPUs have unlike numbers of the " + std::to_string(s.model.moe().experts) +
               " experts of a layer, so that their windows differ; one division of a layer is planned. "
               "Expected GPUs that divide the experts evenly, or 'backends: [resident]'");
  if (s.data_parallel > 1 && system.paging->residency.name != "fixed")
    where.fail(
        who + "has residency '" + system.paging->residency.name +
        "', which moves experts for the KV cache of a GPU; with data_parallel GPUs have unlike ones, and "
        "one division is kept for all. Expected 'residency: {policy: fixed}', or tensor_parallel");
}

namespace {

bool divides(const Architecture& model, int ranks) {
  try {
    (void)tensor_parallel_part(model, ranks);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// "1 of the machine's 2 GPUs takes part; --set tensor_parallel=2 makes both take part"; "" where all do.
std::string idle_gpus_text(const Scenario& s) {
  if (!s.machine || s.machine->gpus <= static_cast<int>(s.gpus())) return "";
  const int ranks = static_cast<int>(s.data_parallel), each = s.machine->gpus / ranks;
  const std::string idle = std::to_string(s.gpus()) + " of the machine's " + std::to_string(s.machine->gpus) +
                           (s.gpus() == 1 ? " GPUs takes part" : " GPUs take part");
  if (s.machine->gpus % ranks != 0 || !divides(s.model, each)) return idle;
  return idle + "; --set tensor_parallel=" + std::to_string(each) + " makes " +
         (s.machine->gpus == 2 ? "both" : "all of them") + " take part";
}

}  // namespace

std::vector<std::string> machine_notes(const Scenario& s) {
  std::vector<std::string> notes;
  if (!s.machine) return notes;
  for (std::string note : {idle_gpus_text(s), s.machine->slot_note()})
    if (!note.empty()) notes.push_back(std::move(note));
  return notes;
}

std::string gpus_text(const Scenario& s) {
  if (s.gpus() == 1) return "";
  std::string how;
  if (s.data_parallel > 1) how = s.expert_parallel ? "data and expert parallel" : "data parallel";
  if (s.data_parallel == 1 && s.expert_parallel) how = "tensor and expert parallel";
  return "each of " + std::to_string(s.gpus()) + " GPUs" + (how.empty() ? "" : " (" + how + ")");
}

}  // namespace moelab
