// moelab plan placement: which server of a scenario's cluster would hold which experts, by policy.
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "policies/guard/policy_error.hpp"
#include "sim/cluster/cluster_plan.hpp"
#include "sim/cluster/cluster_requests.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanPlacementArguments {
  std::string scenario = "prism-deepseek-bigbench";
  std::vector<std::string> settings;
  std::vector<std::string> policies;
  std::string format = "table";
};

struct Planned {
  std::string policy;
  ClusterPlan plan;
};

/// A policy that cannot place what the scenario asks for, and why.
struct Refused {
  std::string policy, why;
};

/// What the policies are asked for: a system of the scenario that places experts, or one with nothing but
/// that.
SystemConfig base_system(const Scenario& s) {
  for (const SystemConfig& system : s.systems)
    if (system.placed) return system;
  SystemConfig system;
  system.name = "placement";
  system.placed.emplace();
  return system;
}

/// All there are, but `optimal` only where it is asked for: it has a limit of size.
std::vector<std::string> wanted_policies(const PlanPlacementArguments& options) {
  std::vector<std::string> known;
  for (const PlacementPolicyEntry& entry : placement_policies()) known.emplace_back(entry.info.name);
  for (const std::string& name : options.policies)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError("--policy " + name, "there is no such placement policy" + suggestion(name, known));
  if (!options.policies.empty()) return options.policies;
  std::erase(known, "optimal");
  return known;
}

double all_activations(const ActivationCounts& counts) {
  double sum = 0;
  for (std::size_t server = 0; server < counts.servers(); ++server)
    for (const double count : counts.of_server(server)) sum += count;
  return sum;
}

std::uint64_t held(const Placement& placement, std::size_t server) {
  std::uint64_t experts = 0;
  for (std::uint32_t gpu = placement.first_gpu(server); gpu < placement.first_gpu(server + 1); ++gpu)
    experts += placement.held(gpu);
  return experts;
}

void print_table(const Scenario& s, const ActivationCounts& counts, const std::vector<Planned>& plans,
                 const std::vector<Refused>& refused) {
  constexpr std::size_t kMostColumns = 8;
  const auto& servers = s.cluster->profile.servers;
  const double all = all_activations(counts);
  std::vector<std::vector<std::string>> rows = {{"placement", "called at home %"}};
  for (std::size_t i = 0; i < std::min(servers.size(), kMostColumns); ++i)
    rows[0].push_back(servers[i].name + " holds");
  for (const Planned& p : plans) {
    const double remote = remote_mass(counts, p.plan.placement);
    rows.push_back({p.policy, all > 0 ? fixed(100 * (1 - remote / all), 1) : "-"});
    for (std::size_t i = 0; i < std::min(servers.size(), kMostColumns); ++i)
      rows.back().push_back(std::to_string(held(p.plan.placement, i)));
  }
  std::cout << s.name << ": " << s.model.moe_layers().size() << " layers of " << s.model.moe().experts
            << " experts on " << s.cluster->profile.title << "\n"
            << align_columns(rows, 1);
  for (const Refused& r : refused) std::cout << r.policy << ": " << r.why << "\n";
}

/// By layer, the experts that a server holds.
Json experts_json(const Placement& placement, std::size_t server) {
  Json layers = Json::array();
  for (std::uint32_t layer = 0; layer < placement.layers(); ++layer) {
    Json experts = Json::array();
    for (std::uint32_t expert = 0; expert < placement.experts(); ++expert)
      if (placement.on_server(server, layer, expert)) experts.push_back(expert);
    layers.push_back(std::move(experts));
  }
  return layers;
}

void print_json(const Scenario& s, const ActivationCounts& counts, const std::vector<Planned>& plans,
                const std::vector<Refused>& refused) {
  Json all = Json::array();
  for (const Planned& p : plans) {
    Json servers = Json::array();
    for (std::size_t i = 0; i < s.cluster->profile.servers.size(); ++i)
      servers.push_back({{"name", s.cluster->profile.servers[i].name},
                         {"local_activations", local_mass(counts, p.plan.placement, i)},
                         {"experts_by_layer", experts_json(p.plan.placement, i)}});
    all.push_back({{"policy", p.policy},
                   {"activations", all_activations(counts)},
                   {"remote_activations", remote_mass(counts, p.plan.placement)},
                   {"servers", servers}});
  }
  for (const Refused& r : refused) all.push_back({{"policy", r.policy}, {"refused", r.why}});
  std::cout << all.dump(2) << "\n";
}

void plan(const PlanPlacementArguments& options) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& text : options.settings) settings.push_back(split_setting(text));
  const Scenario s = load_scenario(options.scenario, settings);
  if (!s.cluster)
    throw InputError(s.name, "the scenario has one device; experts are placed on the servers of a 'cluster'");
  const RoutingTrace rows = task_rows(s);
  const ActivationCounts counts = history_counts(s, rows);
  const auto requests = cluster_requests(s, rows);
  std::vector<Planned> plans;
  std::vector<Refused> refused;
  for (const std::string& policy : wanted_policies(options)) {
    SystemConfig system = base_system(s);
    system.placed->placement = {policy, {}};
    try {
      plans.push_back({policy, plan_cluster(s, system, requests, counts)});
    } catch (const PolicyError&) {  // no refusal
      throw;
    } catch (const InputError& error) {
      if (!options.policies.empty()) throw;  // it was asked for by name
      refused.push_back({policy, error.problems().front().what});
    }
  }
  if (plans.empty()) throw InputError(s.name, refused.front().policy + ": " + refused.front().why);
  options.format == "json" ? print_json(s, counts, plans, refused) : print_table(s, counts, plans, refused);
}

}  // namespace

void add_plan_placement(CLI::App& plan_command) {
  const auto options = std::make_shared<PlanPlacementArguments>();
  CLI::App* command = plan_command.add_subcommand(
      "placement", "Which server of a cluster would hold which experts, and how many calls stay at home");
  command
      ->add_option("SCENARIO", options->scenario, "Scenario with a cluster, or the name of an embedded one")
      ->capture_default_str();
  command
      ->add_option("--policy", options->policies, "Only this placement policy (may be given several times)")
      ->take_all();
  command->add_option("--set", options->settings, "Change a value first, as in 'moelab run'")->take_all();
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command, "moelab plan placement prism-deepseek-bigbench --policy prism --policy optimal");
  command->callback([options] { plan(*options); });
}

}  // namespace moelab::cli
