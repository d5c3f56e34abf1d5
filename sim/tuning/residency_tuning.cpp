#include "sim/tuning/residency_tuning.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/guard/policy_error.hpp"
#include "sim/run_paged.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab {
namespace {

double stalled(const Metrics& m, Cause cause) {
  return m.stall_s[static_cast<std::size_t>(cause)];
}

/// Time of all steps, without that in which no request was there.
double time_of_steps(const Metrics& m) {
  return std::accumulate(m.stall_s.begin(), m.stall_s.end(), 0.0);
}

double time_of_a_step(const Metrics& m) {
  return time_of_steps(m) / static_cast<double>(m.serving.steps);
}

bool takes_gpu_memory(const std::string& backend) {
  return backend != "host" && backend != "ssd";
}

/// Why a level could not be run, where no memory of the GPU would mend it; "" where it could.
std::string refusal_of(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace) {
  try {
    check_paged_system(scenario, system, trace);
  } catch (const PolicyError&) {  // no refusal
    throw;
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "";
}

/// Experts of a layer that have a place of storage: all but those pinned for good.
std::uint32_t stored_experts(const Scenario& scenario, const SystemConfig& system) {
  const auto all = static_cast<std::uint32_t>(scenario.model.moe().experts);
  if (!system.paging || !find_cache_policy(system.cache.name)->preloads) return all;
  return all - std::min(all, system.paging->pinned * scenario.expert_ranks());
}

/// What can be said of the system without running it.
void check_backends(const Scenario& scenario, const SystemConfig& system) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(scenario.name, "system '" + system.name + "' " + what);
  };
  if (!system.paging)
    refuse(
        "does not page its experts, so there is no residency level to tune; expected one with 'weights: "
        "paged'");
  if (stored_experts(scenario, system) == 0)
    refuse("pins all experts of every layer (cache.experts), so there is none to move; expected fewer");
  const std::vector<std::string>& backends = system.paging->backends;
  if (backends.size() < 2)
    refuse("has one storage backend, '" + backends.front() +
           "'; expected one in the GPU's memory and, as the last, one outside it, such as 'backends: [" +
           (takes_gpu_memory(backends.front()) ? backends.front() : "resident") + ", host]'");
  if (takes_gpu_memory(backends.back()))
    refuse("has '" + backends.back() +
           "' as its last storage backend, which takes GPU memory, so that experts there leave the KV cache "
           "little or nothing; expected 'host' or 'ssd'");
}

}  // namespace

std::vector<std::uint32_t> residency_grid(std::uint32_t experts, std::uint32_t steps, double most) {
  assert(steps >= 1 && most > 0 && most <= 1);
  std::vector<std::uint32_t> grid;
  for (std::uint32_t i = 0; i <= steps; ++i) {
    const auto offloaded = static_cast<std::uint32_t>(std::lround(most * experts * i / steps));
    if (grid.empty() || grid.back() != offloaded) grid.push_back(offloaded);
  }
  return grid;
}

ResidencyTuning::ResidencyTuning(const Scenario& scenario, const SystemConfig& system,
                                 const RoutingTrace& trace)
    : scenario_(scenario),
      at_once_(scenario),
      requests_come_later_(scenario.workload.arrivals_per_s > 0 || scenario.workload.closed_loop ||
                           has_conversations(scenario.workload)),
      system_(system),
      trace_(trace),
      experts_(stored_experts(scenario, system)) {
  check_backends(scenario, system);
  at_once_.workload.arrivals_per_s = 0;
  at_once_.workload.closed_loop.reset();
  at_once_.workload.left_out = {};
  for (RequestClass& of : at_once_.workload.mix)  // turns come one behind the other all the same
    if (of.conversations) of.conversations->think_s = 0;
  for (RequestRecord& request : at_once_.workload.log) {
    requests_come_later_ = requests_come_later_ || request.arrival_s > 0;
    request.arrival_s = 0;
  }
}

SystemConfig ResidencyTuning::system_at(std::uint32_t offloaded) const {
  SystemConfig system = system_;
  system.paging->storage = {"fixed", {{"offloaded", static_cast<double>(offloaded) / experts_}}};
  system.paging->residency = {"fixed", {}};
  return system;
}

RunResult ResidencyTuning::run(const Scenario& scenario, std::uint32_t offloaded, std::string_view what,
                               const Progress& progress) const {
  RunOptions options;
  if (progress)
    options.progress = [&](const SystemConfig&, std::uint64_t tokens, std::uint64_t all) {
      progress(what, tokens, all);
    };
  return run_system(scenario, system_at(offloaded), trace_, options);
}

// A budget that leaves as many blocks to the KV cache, on a GPU as large as that takes; half a block more,
// against rounding.
Scenario ResidencyTuning::with_memory_for_all(const MemoryPlan& level) const {
  const MemoryPlan m = plan_paged(at_once_, system_at(0), served_requests(at_once_, trace_)).memory;
  Scenario scenario = at_once_;
  scenario.budget = m.non_expert + m.draft + m.activations + m.pinned + m.staging + m.expert_cache +
                    (static_cast<double>(level.kv_blocks) + 0.5) * m.kv_block;
  GpuMemory& gpu = *scenario.device.gpu->own;
  gpu.total.value = std::max(gpu.total.value, scenario.budget + gpu.reserve.value);
  scenario.budget_given = true;
  if (scenario.machine) scenario.machine->gpu->memory = gpu.total.value;
  return scenario;
}

ResidencyLevel ResidencyTuning::level(std::uint32_t offloaded, const Progress& progress) {
  ResidencyLevel level;
  level.offloaded = offloaded;
  level.residency = 1 - static_cast<double>(offloaded) / experts_;
  level.refusal = refusal_of(scenario_, system_at(offloaded), trace_);
  if (!level.refusal.empty()) return level;
  const RunResult served = run(scenario_, offloaded, "as asked", progress);
  warnings_ = served.warnings;
  level.memory = served.memory;
  if (!level.fits()) return level;
  const Metrics& m = served.metrics;
  level.tokens_per_s = static_cast<double>(m.tokens) / m.wall_s;
  level.requests_a_step = static_cast<double>(m.tokens) / static_cast<double>(m.serving.steps);
  level.load_share = stalled(m, Cause::prefetch) / time_of_steps(m);
  level.swap_share = stalled(m, Cause::kv_swap) / time_of_steps(m);

  const Metrics all_there =
      requests_come_later_ ? run(at_once_, offloaded, "with all requests at once", progress).metrics : m;
  level.step_s = time_of_a_step(all_there);
  level.step_load_s = stalled(all_there, Cause::prefetch) / static_cast<double>(all_there.serving.steps);
  level.resident_step_s =
      offloaded == 0
          ? level.step_s
          : time_of_a_step(
                run(with_memory_for_all(level.memory), 0, "with memory for all experts", progress).metrics);
  return level;
}

ResidencyChoice choose_residency(std::span<const ResidencyLevel> levels, double tolerance) {
  assert(tolerance >= 0 && tolerance < 1);
  ResidencyChoice choice;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (!levels[i].fits()) continue;
    if (!choice.highest) choice.highest = i;
    if (!choice.best || levels[i].tokens_per_s > levels[*choice.best].tokens_per_s) choice.best = i;
    if (choice.past_knee) continue;
    (levels[i].slowdown() <= 1 + tolerance ? choice.knee : choice.past_knee) = i;
  }
  for (std::size_t i = 0; i < levels.size(); ++i)
    if (levels[i].fits() && levels[i].tokens_per_s >= (1 - tolerance) * levels[*choice.best].tokens_per_s)
      choice.leanest = i;
  return choice;
}

std::optional<std::uint32_t> nearer_to_knee(std::span<const ResidencyLevel> levels,
                                            const ResidencyChoice& choice) {
  if (!choice.knee || !choice.past_knee) return std::nullopt;
  const std::uint32_t knee = levels[*choice.knee].offloaded, past = levels[*choice.past_knee].offloaded;
  if (past - knee < 2) return std::nullopt;
  return knee + (past - knee) / 2;
}

}  // namespace moelab
