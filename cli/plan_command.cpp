// moelab plan: the subcommands, and zipmoe: pool sizes and expected makespan from inclusion probabilities.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>

#include "cli/commands.hpp"
#include "models/json.hpp"
#include "models/yaml_reader.hpp"
#include "policies/planning/planning.hpp"
#include "traces/counts_routing.hpp"
#include "traces/counts_trace.hpp"
#include "traces/default_trace.hpp"
#include "traces/trace_kind.hpp"

namespace moelab::cli {
namespace {

struct PlanArguments {
  std::string input, trace;
  std::string format = "table";
};

/// The chances that a layer's experts are among a token's, by popularity rank: means over the layers.
struct TraceInclusion {
  std::vector<double> by_rank;
  std::uint32_t k = 0;

  explicit TraceInclusion(std::uint32_t experts) : by_rank(experts) {}
  void add_layer(std::vector<double> chances, std::uint32_t layers) {
    std::sort(chances.rbegin(), chances.rend());
    for (std::size_t r = 0; r < by_rank.size(); ++r) by_rank[r] += chances[r] / layers;
  }
};

/// Of counts: in proportion to them, none above 1 (traces/counts_routing.hpp). `k`: where the counts do not
/// say.
TraceInclusion inclusion_of_counts(const std::string& file, std::uint32_t k) {
  const CountsTrace counts = read_counts_trace(file);
  TraceInclusion inclusion(counts.experts());
  inclusion.k = counts.top_k() != 0 ? counts.top_k() : k;
  if (inclusion.k == 0)
    throw InputError(
        file,
        "does not say how many experts a token is sent to; give 'k' in the plan's input, or import it with "
        "--top-k");
  const std::vector<double> weights = domain_weights(counts, "");
  for (std::uint32_t layer = 0; layer < counts.layers(); ++layer) {
    try {
      inclusion.add_layer(
          inclusion_probabilities(
              std::span(weights).subspan(std::size_t{layer} * counts.experts(), counts.experts()),
              inclusion.k),
          counts.layers());
    } catch (const InputError& error) {
      throw InputError(file, "layer " + std::to_string(layer) + ": " + error.problems().front().what);
    }
  }
  return inclusion;
}

TraceInclusion inclusion_of_routing(const std::string& file) {
  const RoutingTrace trace = open_routing_trace(file);
  std::vector<std::vector<double>> uses(trace.layers(), std::vector<double>(trace.experts()));
  std::vector<double> rows(trace.layers());
  for (std::uint64_t token = 0; token < trace.tokens(); ++token)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      const std::span<const std::uint16_t> experts = trace.experts_of(token, layer);
      if (experts.front() == kNoExpert) continue;
      ++rows[layer];
      for (const std::uint16_t expert : experts) ++uses[layer][expert];
    }
  TraceInclusion inclusion(trace.experts());
  inclusion.k = trace.top_k();
  for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
    for (double& use : uses[layer]) use /= std::max(1.0, rows[layer]);
    inclusion.add_layer(uses[layer], trace.layers());
  }
  return inclusion;
}

/// `inclusion` and `k`: from the input, or the trace.
void read_inclusion(const YamlMap& root, const std::string& trace, PlanInput& in) {
  const std::uint32_t k =
      trace.empty() || root.has("k") ? static_cast<std::uint32_t>(root.integer("k", 1, 4096)) : 0;
  in.k = k;
  if (trace.empty()) {
    for (const YamlNode& item : root.list("inclusion"))
      in.inclusion.push_back(item.number("an inclusion probability", {0, 1}));
    return;
  }
  if (root.has("inclusion"))
    root.fail("inclusion", "'inclusion' is the trace's to say; leave it out, or --trace");
  const bool counts = !is_default_trace(trace) && kind_of_trace(trace) == TraceKind::counts;
  const TraceInclusion found = counts ? inclusion_of_counts(trace, k) : inclusion_of_routing(trace);
  if (root.has("k") && k != found.k)
    root.fail("k", "'k' is " + std::to_string(k) + ", and " + trace + " has tokens of " +
                       std::to_string(found.k) + " experts");
  in.inclusion = found.by_rank;
  in.k = found.k;
}

PlanInput read_plan_input(const YamlDocument& document, const std::string& trace) {
  const YamlMap root = document.root();
  PlanInput in;
  read_inclusion(root, trace, in);
  in.threads = static_cast<std::uint32_t>(root.integer("threads", 1, 4096));
  in.shards = static_cast<std::uint32_t>(root.integer("shards", 1, 4096));
  in.tensors = static_cast<std::uint32_t>(root.integer("tensors", 1, 64));
  in.sm_read_s = root.number("sm_read_s", {0, 1e9});
  in.e_read_s = root.number("e_read_s", {0, 1e9});
  in.decompress_s = root.number("decompress_s", {0, 1e9});
  in.memory_bytes = root.number("memory_bytes", {0, 1e18});
  in.tensor_elements = root.number("tensor_elements", {1, 1e15});
  in.tensor_bytes = root.number("tensor_bytes", {1, 1e16}, 2 * in.tensor_elements);
  in.ratio = root.number("ratio", {0, 1.1, true});
  in.step = root.number("step", {0.0001, 1}, 0.05);
  in.pools = {};
  for (const YamlNode& item : root.list("pools")) {
    const std::string name = item.text("a pool");
    const auto found = std::find(kStateNames.begin(), kStateNames.begin() + 4, name);
    if (found == kStateNames.begin() + 4)
      item.fail("'" + name + "' is no pool; expected F, C, S or E");
    else
      in.pools[static_cast<std::size_t>(found - kStateNames.begin())] = true;
  }
  root.done();
  return in;
}

void print_json(const PlanInput& in, const Plan& plan) {
  nlohmann::ordered_json j;
  for (std::size_t s = 0; s < 4; ++s) {
    if (!in.pools[s]) continue;
    j["ratios"][std::string(kStateNames[s])] = plan.ratios[s];
    j["capacity"][std::string(kStateNames[s])] = plan.capacity[s];
  }
  j["expected_makespan_s"] = plan.expected_makespan_s;
  j["selection_probability"] = plan.selection_probability;
  j["splits_examined"] = plan.splits_examined;
  std::cout << j.dump(2) << "\n";
}

void print_table(const PlanInput& in, const Plan& plan) {
  std::printf("pool  share of memory  experts\n");
  for (std::size_t s = 0; s < 4; ++s)
    if (in.pools[s])
      std::printf("%-4s  %13.1f %%  %7u\n", std::string(kStateNames[s]).c_str(), 100 * plan.ratios[s],
                  plan.capacity[s]);
  std::printf("expected makespan of a layer's loading: %s (of %llu splits examined)\n",
              to_string(Seconds(plan.expected_makespan_s)).c_str(),
              static_cast<unsigned long long>(plan.splits_examined));
}

void plan(const PlanArguments& options) {
  Problems problems;
  const YamlDocument document = YamlDocument::from_file(options.input, problems);
  const PlanInput input = read_plan_input(document, options.trace);
  problems.throw_if_any();
  if (const std::string problem = check_plan_input(input); !problem.empty())
    throw InputError(options.input, problem);
  const Plan result = find_planning_policy("zipmoe")->plan(input);
  options.format == "json" ? print_json(input, result) : print_table(input, result);
}

}  // namespace

void add_plan(CLI::App& program) {
  const auto options = std::make_shared<PlanArguments>();
  CLI::App* command = program.add_subcommand("plan", "Plan ahead of a run");
  command->require_subcommand(1);
  add_example(*command, "moelab plan zipmoe experiments/zipmoe/plan.json");
  CLI::App* zipmoe = command->add_subcommand(
      "zipmoe", "Sizes of the F, C, S and E cache pools of one sparse layer (ZipMoE Alg. 2 to 4)");
  zipmoe
      ->add_option(
          "INPUT", options->input,
          "JSON or YAML: inclusion [f_1..f_N], k, threads, shards, tensors, sm_read_s, e_read_s, "
          "decompress_s, memory_bytes, tensor_elements, [tensor_bytes: 2 a BF16 element], ratio, step, pools")
      ->required();
  zipmoe->add_option(
      "--trace", options->trace,
      "Trace, or counts of experts, that say inclusion and k in INPUT's place (traces/README.md)");
  add_format(*zipmoe, options->format);
  add_example(*zipmoe, "moelab plan zipmoe experiments/zipmoe/plan.json --format json");
  zipmoe->callback([options] { plan(*options); });
  add_plan_placement(*command);
}

}  // namespace moelab::cli
