// moelab schedule: one layer's operations in order, under any schedule policy.
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "sim/schedule_run.hpp"

namespace moelab::cli {
namespace {

struct ScheduleArguments {
  std::string instance;
  std::string policy = "cache-affinity";
  std::string format = "table";
};

void schedule(const ScheduleArguments& options) {
  std::vector<std::string> names;
  for (const SchedulePolicyEntry& entry : schedule_policies()) names.emplace_back(entry.info.name);
  if (std::find(names.begin(), names.end(), options.policy) == names.end())
    throw InputError("--policy " + options.policy,
                     "no such schedule policy" + suggestion(options.policy, names));
  Problems problems;
  const YamlDocument document = YamlDocument::from_file(options.instance, problems);
  const LayerInstance instance = read_layer_instance(document);
  problems.throw_if_any();
  const ScheduleRun run = run_schedule(instance, options.policy);
  std::cout << (options.format == "json" ? schedule_json(run) : schedule_text(instance, run));
}

}  // namespace

void add_schedule(CLI::App& program) {
  const auto options = std::make_shared<ScheduleArguments>();
  CLI::App* command = program.add_subcommand(
      "schedule",
      "Order one sparse layer's operations: Gantt chart, makespan, lower bound (ZipMoE Lemma B.3)");
  command
      ->add_option("INSTANCE", options->instance,
                   "JSON or YAML: threads, shards, sm_read_s, e_read_s, decompress_s, recover_s, experts "
                   "[{id, tensors, state, execute_s}]")
      ->required();
  command->add_option("--policy", options->policy, "Schedule policy (see 'moelab policies')")
      ->capture_default_str();
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command, "moelab schedule experiments/zipmoe/layer.json --policy cache-affinity");
  command->callback([options] { schedule(*options); });
}

}  // namespace moelab::cli
