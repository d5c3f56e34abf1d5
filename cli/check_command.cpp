// moelab check: say all that is wrong with a scenario, without running it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "cli/commands.hpp"
#include "cli/import_note.hpp"
#include "cli/layer_table.hpp"
#include "cli/terminal_line.hpp"
#include "cli/wrapped_text.hpp"
#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/nothing_fits.hpp"
#include "models/serving_estimate.hpp"
#include "models/timing.hpp"
#include "sim/cluster/cluster_plan.hpp"
#include "sim/cluster/run_cluster.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/text_table.hpp"
#include "sim/run.hpp"
#include "sim/scenario/parallel_config.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/sweep/run_sweep.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CheckArguments {
  std::string scenario;
  std::vector<std::string> settings, only;
  bool yes = false;
  std::string format = "table";
};

std::string draft_item(const MemoryPlan& m) {
  return m.draft > Bytes(0) ? ", weights that draft " + to_string(m.draft) : "";
}

std::string memory_line(const SystemConfig& system, const MemoryPlan& m) {
  if (m.shortfall > Bytes(0))
    return "  " + system.name + ": does not fit, " + to_string(m.shortfall) + " more are needed; " +
           shortfall_text(system.name, m) + "\n";
  const std::string blocks = m.kv_blocks == 0 ? ""
                                              : " = " + std::to_string(m.kv_blocks) + " blocks of " +
                                                    std::to_string(system.kv.block_tokens) + " tokens";
  return "  " + system.name + ": non-expert weights " + to_string(m.non_expert) + draft_item(m) +
         ", KV cache " + to_string(m.kv_cache) + blocks + ", activations " + to_string(m.activations) +
         ", experts in use " + to_string(m.staging) + ", prefetch " + to_string(m.prefetch) +
         ", expert cache " + to_string(m.expert_cache) +
         (m.experts_on_ssd ? "; experts on the SSD, in host memory those read last, "
                           : "; page cache outside the budget ") +
         to_string(m.page_cache) + "\n";
}

/// What llama.cpp's own log would print of this split: experts of the first layers on the host (-ncmoe), the
/// buffers by the law that experiments/world/memory.sh holds against published logs. "" for systems and
/// machines that llama.cpp does not have.
std::string llama_cpp_line(const Scenario& own, const SystemConfig& system, const MemoryPlan& m) {
  const bool splits_layers = system.cache.name == "fixed-layers" && system.execution.name == "cpu-only";
  if (!splits_layers || !own.machine || !system.runtime || !system.runtime->has_buffers() ||
      own.tensor_parallel > 1 || m.shortfall > Bytes(0))
    return "";
  const auto layers = static_cast<int>(own.model.moe_layers().size());
  const FeedForward& ff = own.model.moe();
  // As the cache counts an expert: its matrices.
  const Bytes of_layer = double(ff.experts) * ff.matrices * expert_tensor_bytes(own.model);
  const int held = std::min(layers, static_cast<int>(m.expert_cache.value() / of_layer.value()));
  const double users = own.workload.batch;
  const double tokens = users * (own.workload.prompt_tokens + own.workload.output_tokens);
  if (tokens == 0) return "";  // lengths differ
  MachineParts machine = *own.machine;
  machine.gpus = static_cast<int>(own.gpus());  // the others hold nothing
  const ServingEstimate estimate(own.model, machine, *system.runtime, {.cpu_expert_layers = layers - held});
  LoadOptions options;
  options.sequences = users;
  const SplitMemory buffers = estimate.memory(tokens, options);
  const auto mib = [](double bytes) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.0f MiB", bytes / 1048576);
    return std::string(text.data());
  };
  return "    llama.cpp with -ncmoe " + std::to_string(layers - held) + " for " +
         std::to_string(std::llround(tokens)) + " tokens: model " + mib(buffers.gpu_weights) + ", KV cache " +
         mib(buffers.gpu_kv) + ", compute buffer " + mib(buffers.gpu_compute) + ", driver and libraries " +
         mib(buffers.gpu_context) + ", in all " + mib(buffers.gpu()) + " of the GPU's " +
         mib(own.device.gpu->own->total.value.value()) + "; host: model " + mib(buffers.host) +
         ", compute buffer " + mib(buffers.host_compute) + "\n";
}

/// Whose plan that is, of several instances.
std::string instances_item(const SystemConfig& system) {
  if (!system.instances) return "";
  const InstancesConfig& all = *system.instances;
  return all.disaggregated() ? "; of each of " + std::to_string(all.prefill) + " prefill and " +
                                   std::to_string(all.decode) + " decode instance(s)"
                             : "; of each of " + std::to_string(all.colocated) + " colocated instance(s)";
}

/// As serving engines print it, so that a user can hold the number of blocks against a real run's.
std::string paged_memory_line(const SystemConfig& system, const MemoryPlan& m) {
  std::string line = "  " + system.name + ": experts " + to_string(m.expert_cache) + ", expert window " +
                     to_string(m.staging) +
                     (m.pinned > Bytes(0) ? ", pinned beside it " + to_string(m.pinned) : "") +
                     ", other weights " + to_string(m.non_expert) + draft_item(m) + ", activations " +
                     to_string(m.activations);
  if (m.shortfall > Bytes(0))
    return line + ": does not fit, " + to_string(m.shortfall) + " more are needed\n";
  return line + ", KV cache " + to_string(m.kv_cache) + " = " + std::to_string(m.kv_blocks) + " blocks of " +
         std::to_string(system.kv.block_tokens) + " tokens (" + to_string(m.kv_block) + " each, " +
         std::to_string(m.state_blocks) +
         " a request whatever its length, for states and windows); outside the budget: " +
         std::to_string(m.swap_blocks) + " blocks of swap space, experts " + to_string(m.host_experts) +
         (m.page_cache > Bytes(0) ? ", page cache " + to_string(m.page_cache) : "") + instances_item(system) +
         "\n";
}

/// What a server that loads what it lacks has for that: on its first GPU, and outside the budget.
std::string store_items(const ServerMemory& m) {
  if (m.loading == Bytes(0)) return "";
  std::string items =
      ", loading " + to_string(m.loading) + ", cache of loaded experts " + to_string(m.home.expert_cache);
  if (m.home.host_experts > Bytes(0))
    items += "; in its host memory experts " + to_string(m.home.host_experts);
  if (m.home.page_cache > Bytes(0)) items += "; page cache " + to_string(m.home.page_cache);
  return items;
}

std::string server_line(const Scenario& s, const ClusterPlan& plan, std::uint32_t server) {
  const ServerMemory& m = plan.memory[server];
  const std::uint32_t first = plan.placement.first_gpu(server);
  std::string line = "experts";
  for (std::uint32_t gpu = 0; gpu < m.experts.size(); ++gpu)
    line += (gpu > 0 ? " +" : "") + std::string(" ") + std::to_string(plan.placement.held(first + gpu));
  Bytes room;
  for (const Bytes experts : m.experts) room += experts;
  return line + " of " +
         std::to_string(s.model.moe().experts * static_cast<int>(s.model.moe_layers().size())) + " in " +
         to_string(room) + "; on its first GPU other weights " + to_string(m.non_expert) + ", KV cache " +
         to_string(m.kv_cache) + ", activations " + to_string(m.activations) + store_items(m) +
         "; staging of each " + to_string(m.staging) + "\n";
}

/// A system of a scenario with a cluster.
struct OnCluster {
  const SystemConfig* system;
  std::string lacking;              // memory; "": it has what it needs
  std::optional<ClusterPlan> plan;  // of one whose experts are placed, where it lacks nothing
};

/// Of each system of a scenario with a cluster.
std::vector<OnCluster> plans_on_cluster(const Scenario& s, const RoutingTrace& trace,
                                        const std::vector<std::vector<ServedRequest>>& requests) {
  std::vector<OnCluster> all;
  const ActivationCounts history = history_counts(s, trace);
  for (const SystemConfig& system : s.systems) {
    OnCluster& one = all.emplace_back(OnCluster{&system, check_cluster_system(s, system, trace), {}});
    if (system.placed && one.lacking.empty()) one.plan = plan_cluster(s, system, requests, history);
  }
  return all;
}

/// A system's, on one device; `own` is scenario_of_system().
MemoryPlan memory_of(const Scenario& own, const SystemConfig& system, const RoutingTrace& trace) {
  if (system.paging) return plan_paged(own, system, served_requests(own, trace)).memory;
  const ExpertCosts costs =
      expert_costs(own.model, TimingModel(own.device), system, static_cast<int>(own.tensor_parallel));
  return plan_memory(own, system, costs, trace);
}

/// ", but the budget is too small for all systems"
std::string fit_text(std::size_t fitting, std::size_t systems) {
  if (fitting == systems) return "";
  const std::string what = systems == 1 ? "the system" : "all systems";
  return ", but the budget is too small for " +
         (fitting == 0 ? what
                       : std::to_string(systems - fitting) + " of " + std::to_string(systems) + " systems");
}

/// Of each server: as many experts as its GPUs have room for, and what the rest of the budget is for.
std::string servers_lines(const Scenario& s, const ClusterPlan& plan) {
  constexpr std::size_t kMostServers = 16;
  std::string lines;
  for (std::size_t i = 0; i < std::min(plan.memory.size(), kMostServers); ++i)
    lines += "    " + s.cluster->profile.servers[i].name + ": " +
             server_line(s, plan, static_cast<std::uint32_t>(i));
  if (plan.memory.size() > kMostServers)
    lines += "    and " + std::to_string(plan.memory.size() - kMostServers) + " more\n";
  return lines;
}

/// What is said of a scenario that is valid.
struct Plans {
  std::string lines;  // that it is, and its memory plans
  std::size_t fitting = 0;
};

Plans plans_of_cluster(const Scenario& s, const RoutingTrace& trace) {
  const auto requests = cluster_requests(s, trace);
  std::size_t all = 0, fitting = 0;
  for (const auto& of_server : requests) all += of_server.size();
  std::string lines;
  for (const OnCluster& one : plans_on_cluster(s, trace, requests)) {
    fitting += one.lacking.empty() ? 1 : 0;
    if (!one.lacking.empty()) lines += "  " + one.system->name + ": does not fit: " + one.lacking + "\n";
    if (one.plan) lines += "  " + one.system->name + ":\n" + servers_lines(s, *one.plan);
  }
  return {s.name + ": valid" + fit_text(fitting, s.systems.size()) + ". " + s.model.title + " on " +
              s.cluster->profile.title + ", " + std::to_string(all) + " request(s), " +
              std::to_string(s.cluster->tasks.size()) + " task(s)\n" + lines,
          fitting};
}

Plans plans_of(const Scenario& s, const RoutingTrace& trace) {
  if (s.cluster) return plans_of_cluster(s, trace);
  const bool paged = std::all_of(s.systems.begin(), s.systems.end(),
                                 [](const SystemConfig& system) { return system.paging.has_value(); });
  const std::size_t requests = paged ? served_requests(s, trace).size() : trace.requests().size();
  std::string notes;
  for (const std::string& note : machine_notes(s)) notes += "note: " + note + "\n";
  std::string lines;
  std::size_t fitting = 0;
  for (const SystemConfig& system : s.systems) {
    const Scenario own = scenario_of_system(s, system);
    const MemoryPlan memory = memory_of(own, system, trace);
    fitting += memory.shortfall > Bytes(0) ? 0 : 1;
    lines += system.paging ? paged_memory_line(system, memory)
                           : memory_line(system, memory) + llama_cpp_line(own, system, memory);
  }
  return {s.name + ": valid" + fit_text(fitting, s.systems.size()) + ". " + s.model.title + " on " +
              s.device.title + ", budget " + to_string(s.budget) + ", " + std::to_string(requests) +
              " request(s), " + std::to_string(trace.tokens()) + " rows of routing\n" + notes +
              (s.gpus() > 1 ? "on " + gpus_text(s) + ":\n" : "") + lines,
          fitting};
}

/// Bytes of a server; "experts": by GPU, how many are there at the start and the room for them.
Json server_json(const Scenario& s, const ClusterPlan& plan, std::uint32_t server) {
  const ServerMemory& m = plan.memory[server];
  Json experts = Json::array();
  for (std::uint32_t gpu = 0; gpu < m.experts.size(); ++gpu)
    experts.push_back({{"held", plan.placement.held(plan.placement.first_gpu(server) + gpu)},
                       {"room_bytes", m.experts[gpu].value()}});
  Json j = {{"server", s.cluster->profile.servers[server].name},
            {"memory_bytes",
             {{"budget", m.budget.value()},
              {"non_expert", m.non_expert.value()},
              {"kv_cache", m.kv_cache.value()},
              {"activations", m.activations.value()},
              {"staging", m.staging.value()},
              {"loading", m.loading.value()}}},
            {"experts", experts}};
  if (m.loading > Bytes(0))
    j["memory_bytes"].update({{"expert_cache", m.home.expert_cache.value()},
                              {"host_experts", m.home.host_experts.value()},
                              {"page_cache", m.home.page_cache.value()}});
  return j;
}

Json systems_json(const Scenario& s, const RoutingTrace& trace) {
  Json systems = Json::array();
  if (s.cluster) {
    for (const OnCluster& one : plans_on_cluster(s, trace, cluster_requests(s, trace))) {
      Json j = {{"system", one.system->name}, {"fits", one.lacking.empty()}};
      if (!one.lacking.empty()) j["lacking"] = one.lacking;
      for (std::uint32_t i = 0; one.plan && i < one.plan->memory.size(); ++i)
        j["servers"].push_back(server_json(s, *one.plan, i));
      systems.push_back(j);
    }
    return systems;
  }
  for (const SystemConfig& system : s.systems) {
    const MemoryPlan memory = memory_of(scenario_of_system(s, system), system, trace);
    Json one = {{"system", system.name}, {"fits", memory.shortfall == Bytes(0)}};
    one.update(memory_plan_json(memory, system.paging.has_value()));
    systems.push_back(one);
  }
  return systems;
}

Json scenario_json(const Scenario& s, const RoutingTrace& trace) {
  return {{"scenario", s.name},        {"model", s.model.title},
          {"device", s.place_title()}, {"rows_of_routing", trace.tokens()},
          {"notes", machine_notes(s)}, {"systems", systems_json(s, trace)}};
}

/// What the JSON says of a sweep: how many points there are.
Json check_points(const CheckArguments& options, const Settings& settings) {
  const SweepFile sweep = load_sweep(options.scenario, settings);
  if (sweep.combinations() > kAsksFrom && !options.yes)
    throw InputError("sweep " + sweep.name, "has " + std::to_string(sweep.combinations()) +
                                                " combinations; if all are to be checked, say --yes");
  TerminalLine line;
  const CheckedSweep checked =
      check_sweep(sweep, std::max(1u, std::thread::hardware_concurrency()), [&](std::uint64_t looked) {
        line.show("checking: " + std::to_string(looked) + " of " + std::to_string(sweep.combinations()) +
                  " points");
      });
  line.clear();
  if (options.format != "table")
    return {{"sweep", sweep.name}, {"combinations", sweep.combinations()}, {"points", checked.points.size()}};
  constexpr std::size_t kMostShown = 5;
  std::cout << sweep.name << ": valid. " << checked.points.size() << " points of " << sweep.combinations()
            << " combinations; the first:\n";
  for (std::size_t i = 0; i < std::min(checked.points.size(), kMostShown); ++i)
    std::cout << "  " << to_string(point_of(sweep, checked.combination[i])) << "\n";
  return {};
}

void check(const CheckArguments& options) {
  Json problems = Json::array();
  Json found;         // of what is valid
  std::string unfit;  // a scenario none of whose systems fits
  try {
    std::vector<std::pair<std::string, std::string>> settings;
    for (const std::string& text : options.settings) settings.push_back(split_setting(text));
    if (names_a_sweep(options.scenario)) {
      if (!options.only.empty())
        throw InputError("--system " + options.only.front(),
                         "is of a scenario, and " + options.scenario + " is a sweep");
      found = check_points(options, settings);
    } else {
      const Scenario scenario = load_scenario(options.scenario, settings, options.only);
      check_listed(scenario, options.only, "--system");
      const RoutingTrace trace = scenario_trace(scenario);
      check_scenario(scenario, trace);
      const Plans plans = plans_of(scenario, trace);
      if (plans.fitting == 0) unfit = scenario.name;
      say_import_note(scenario.model);
      if (options.format == "table")
        std::cout << wrapped_lines(plans.lines, line_width());
      else
        found = scenario_json(scenario, trace);
    }
  } catch (const InputError& error) {
    if (options.format == "table") throw;
    for (const Problem& p : error.problems())
      problems.push_back({{"file", p.file}, {"line", p.line}, {"column", p.column}, {"what", p.what}});
  }
  if (options.format == "json") {
    Json all = {{"valid", problems.empty()}, {"problems", problems}};
    if (found.is_object()) all.update(found);
    std::cout << json_text(all);
  }
  if (!problems.empty()) throw CLI::RuntimeError(2);
  if (!unfit.empty()) throw NothingFits(unfit, "none of its systems has the memory that it needs");
}

}  // namespace

void add_check(CLI::App& program) {
  const auto options = std::make_shared<CheckArguments>();
  CLI::App* command = program.add_subcommand(
      "check",
      "Validate a scenario or sweep and everything it names; prints all that is wrong, or the memory plan, "
      "or how many points there are and the first few");
  command->add_option("SCENARIO", options->scenario, "Scenario or sweep file, or the name of an embedded one")
      ->required();
  command->add_flag("--yes", options->yes, "More than 10,000 combinations of a sweep are meant");
  command->add_option("--set", options->settings, "Change a value first, as in 'moelab run'")->take_all();
  command
      ->add_option("--system", options->only,
                   "Check only this system of the scenario (may be given several times)")
      ->take_all();
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command, "moelab check configs/scenarios/zipmoe-orin.yaml");
  command->callback([options] { check(*options); });
}

}  // namespace moelab::cli
