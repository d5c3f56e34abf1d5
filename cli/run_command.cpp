// moelab run: simulate a scenario's systems side by side.
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "cli/commands.hpp"
#include "cli/run_plot.hpp"
#include "cli/terminal_line.hpp"
#include "models/nothing_fits.hpp"
#include "models/units.hpp"
#include "sim/child_process.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/results/timeline.hpp"
#include "sim/run.hpp"
#include "sim/scenario/changed_systems.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "sim/sweep/run_answer.hpp"
#include "sim/sweep/sweep_file.hpp"
#include "traces/gzip_text.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::cli {
namespace {

constexpr const char* kDefaultScenario = "zipmoe-orin";

struct RunArguments {
  std::string scenario = kDefaultScenario;
  std::vector<std::string> settings;
  std::vector<std::string> only;
  std::string executor;  // "": simgrid where there is a network, else fast
  std::string format = "table";
  std::string out;
  std::string timeline;
  std::string plot;
  std::string requests;
  std::uint64_t timeline_passes = 8;
  std::string timeline_tokens;  // "": by passes
  std::uint64_t seeds = 1;
};

std::vector<std::string> paths_of(const RunArguments& options) {
  return {options.out, options.timeline, options.plot, options.requests};
}

/// What the timeline keeps, and in words.
struct Kept {
  TimelineWindow window;
  std::string words;
};

Kept kept_in_timeline(const RunArguments& options) {
  if (options.timeline_tokens.empty())
    return {{.last_pass = options.timeline_passes - 1},
            "first " + std::to_string(options.timeline_passes) + " passes"};
  return {token_window("--timeline-tokens", options.timeline_tokens), "tokens " + options.timeline_tokens};
}

struct Finished {
  RunResult result;
  std::string events;
};

Finished run_one(const RunArguments& options, const Scenario& scenario, const SystemConfig& system,
                 const RoutingTrace& trace, const RankInclusion* statistics, int number,
                 TerminalLine& progress) {
  Timeline timeline(kept_in_timeline(options).window);
  RunOptions run_options;
  run_options.executor = options.executor == "simgrid" ? ExecutorKind::simgrid : ExecutorKind::fast;
  run_options.statistics = statistics;
  run_options.progress = [&](const SystemConfig& s, std::uint64_t tokens, std::uint64_t all) {
    progress.show(s.name + ": " + std::to_string(tokens) + " of " + std::to_string(all) + " tokens");
  };
  if (!options.timeline.empty()) run_options.observer = [&](const SystemConfig&) { return &timeline; };
  if (!options.timeline_tokens.empty() && !options.timeline.empty() && !scenario.cluster)
    check_reaches(kept_in_timeline(options).window, tokens_of_run(scenario, system, trace),
                  "--timeline-tokens " + options.timeline_tokens);
  Finished one{run_system(scenario, system, trace, run_options), ""};
  if (!options.timeline.empty())
    one.events = timeline.events(timeline_form(options.timeline), one.result,
                                 {.process = number, .name = "", .shift_s = 0});
  return one;
}

// Between processes: the result, a line end (its JSON has none), the events.
std::string pack(const Finished& one) {
  return pack_result(one.result) + "\n" + one.events;
}
Finished unpack(const std::string& text) {
  const std::size_t end = text.find('\n');
  return {unpack_result(text.substr(0, end)), text.substr(end + 1)};
}

/// What the command leaves: files, and what it prints.
struct RunOutputs {
  std::vector<std::pair<std::string, std::string>> files;  // path, content
  std::string printed;
  std::string unfit;  // where no system fits: what is lacking
};

// Between processes: each text behind its length.
std::string pack(const RunOutputs& outputs) {
  std::string packed;
  const auto add = [&](const std::string& text) { packed += std::to_string(text.size()) + "\n" + text; };
  add(outputs.printed), add(outputs.unfit);
  for (const auto& [path, content] : outputs.files) add(path), add(content);
  return packed;
}
RunOutputs unpack_outputs(const std::string& packed) {
  std::size_t at = 0;
  const auto next = [&] {
    const std::size_t size = std::stoull(packed.substr(at, packed.find('\n', at) - at));
    at = packed.find('\n', at) + 1 + size;
    return packed.substr(at - size, size);
  };
  RunOutputs outputs;
  outputs.printed = next();
  outputs.unfit = next();
  while (at < packed.size()) {
    std::string path = next();
    outputs.files.emplace_back(std::move(path), next());
  }
  return outputs;
}

/// In a process of its own, which a policy may end without a word. Throws InputError that names the
/// libraries.
std::string run_libraries(const Scenario& scenario, const std::function<std::string()>& work) {
  try {
    return run_in_child(work);
  } catch (const InputError&) {
    throw;
  } catch (const std::runtime_error& error) {
    std::string files;
    for (const std::string& file : scenario.policy_libraries) files += (files.empty() ? "" : ", ") + file;
    throw InputError(files, "its policies ended the run: " + std::string(error.what()));
  }
}

/// All systems of a scenario, in its order.
std::vector<Finished> run_all(const RunArguments& options, const Scenario& scenario, TerminalLine& progress) {
  const RoutingTrace trace = scenario_trace(scenario);
  const std::optional<RankInclusion> statistics = check_scenario(scenario, trace);
  const RankInclusion* const planning = statistics ? &*statistics : nullptr;
  std::vector<Finished> all;
  for (const SystemConfig& system : scenario.systems) {
    const int number = static_cast<int>(all.size()) + 1;
    const auto run_here = [&] {
      return run_one(options, scenario, system, trace, planning, number, progress);
    };
    all.push_back(options.executor == "simgrid"
                      ? unpack(engine::run_in_simgrid_child([&] { return pack(run_here()); }))
                      : run_here());
  }
  return all;
}

/// What is asked, read and found to be runnable.
struct Asked {
  Scenario scenario;
  std::vector<std::string> marked;  // systems that are not what their files say
};

/// What every system took under each seed, the first of which has been run, for the answer and the table.
struct OverSeeds {
  std::vector<std::vector<SeedOutcome>> outcomes;
  SpeedsBySeed speeds;
};

OverSeeds run_seeds(const RunArguments& options, const Asked& asked, const std::vector<RunResult>& first,
                    TerminalLine& progress) {
  RunArguments plain = options;
  plain.timeline.clear();
  OverSeeds over;
  if (options.seeds > 1)
    for (const RunResult& result : first) over.speeds.push_back({speed_of(result)});
  over.outcomes = outcomes_by_seed(asked.scenario, first, options.seeds, [&](std::uint64_t seed) {
    auto settings = asked.scenario.settings;
    settings.emplace_back("seed", std::to_string(seed));
    const Scenario again = load_scenario(options.scenario, settings, options.only);
    std::vector<RunResult> results;
    for (Finished& one : run_all(plain, again, progress)) {
      over.speeds[results.size()].push_back(speed_of(one.result));
      results.push_back(std::move(one.result));
    }
    return results;
  });
  return over;
}

std::string named_outputs(const RunArguments& options) {
  std::string text;
  if (!options.out.empty()) text += "result: " + options.out + "\n";
  if (!options.timeline.empty())
    text += "timeline (" + kept_in_timeline(options).words + "): " + options.timeline +
            ", opens in https://ui.perfetto.dev\n";
  if (!options.plot.empty()) text += "picture: " + options.plot + "\n";
  if (!options.requests.empty()) text += "requests: " + options.requests + "\n";
  return text;
}

/// Where no system fits: how much more the one that needs least would have to have; else "".
std::string unfit_text(const Scenario& scenario, const std::vector<RunResult>& results) {
  const auto least = std::min_element(
      results.begin(), results.end(),
      [](const RunResult& a, const RunResult& b) { return a.memory.shortfall < b.memory.shortfall; });
  if (!(least->memory.shortfall > Bytes(0))) return "";
  return "system '" + least->system + "' lacks the least: " +
         (scenario.cluster ? lacking_text(*least)
                           : to_string(least->memory.shortfall) + " more than the budget of " +
                                 to_string(scenario.budget));
}

RunOutputs outputs_of(const RunArguments& options, const Asked& asked, const std::vector<RunResult>& results,
                      const std::vector<std::string>& events, const RunAnswer& answer,
                      const SpeedsBySeed& speeds) {
  const bool prints_json = options.format == "json";
  const std::string json = prints_json || !options.out.empty() ? answered_results_json(results, answer) : "";
  RunOutputs outputs;
  auto& files = outputs.files;
  if (!options.out.empty()) files.emplace_back(options.out, json);
  if (!options.timeline.empty())
    files.emplace_back(
        options.timeline,
        packed_by_name(options.timeline, timeline_file(timeline_form(options.timeline), events)));
  if (!options.plot.empty())
    files.emplace_back(options.plot, plot::svg(serving_figure(asked.scenario, results)));
  if (!options.requests.empty())
    files.emplace_back(options.requests, requests_text(options.requests, results));
  outputs.printed = json;
  outputs.unfit = unfit_text(asked.scenario, results);
  if (prints_json) return outputs;
  const TextForm form = text_form(options.format);
  TextReport said(form);
  said.add_lines(answer.text + first_requests_text(answer));
  outputs.printed = results_table(asked.scenario, results, form, asked.marked, speeds) + "\n" + said.text();
  if (options.format == "table") outputs.printed += named_outputs(options);
  return outputs;
}

/// Reads it; what is wrong is refused before anything is computed.
Asked read_asked(RunArguments& options) {
  check_outputs(paths_of(options), {options.scenario});
  check_requests_path("--requests", options.requests);
  if (!options.timeline_tokens.empty() && options.timeline.empty())
    throw InputError("--timeline-tokens " + options.timeline_tokens,
                     "is of a timeline; expected --timeline with it");
  kept_in_timeline(options);
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& text : options.settings) settings.push_back(split_setting(text));
  check_no_sweep(options.scenario, "'moelab sweep'");
  Asked asked{load_scenario(options.scenario, settings, options.only), {}};
  check_listed(asked.scenario, options.only, "--system");
  std::vector<std::string> systems;
  for (const SystemConfig& system : asked.scenario.systems) systems.push_back(system.name);
  check_benchmark_path("--requests", options.requests, systems);
  check_outputs(paths_of(options), scenario_inputs(asked.scenario));
  check_seeds(asked.scenario, options.seeds, "--seeds");
  if (options.executor.empty()) options.executor = asked.scenario.cluster ? "simgrid" : "fast";
  if (!options.plot.empty()) check_serving_figure(asked.scenario);
  asked.marked = changed_systems(asked.scenario, options.scenario, options.only);
  return asked;
}

/// All of it but what it leaves.
RunOutputs run_asked(const RunArguments& options, const Asked& asked) {
  TerminalLine progress;
  std::vector<RunResult> results;
  std::vector<std::string> events;  // of the timeline, by system
  for (Finished& one : run_all(options, asked.scenario, progress)) {
    results.push_back(std::move(one.result));
    events.push_back(std::move(one.events));
  }
  const OverSeeds over = run_seeds(options, asked, results, progress);
  const RunAnswer answer = run_answer(asked.scenario, results, over.outcomes);
  progress.clear();
  return outputs_of(options, asked, results, events, answer, over.speeds);
}

void run(RunArguments options) {
  const Asked asked = read_asked(options);
  const auto run_here = [&] { return run_asked(options, asked); };
  const bool apart = !asked.scenario.policy_libraries.empty() && options.executor != "simgrid";
  const RunOutputs outputs =
      apart ? unpack_outputs(run_libraries(asked.scenario, [&] { return pack(run_here()); })) : run_here();
  write_outputs(outputs.files);
  std::cout << outputs.printed;
  if (!outputs.unfit.empty()) throw NothingFits(asked.scenario.name, outputs.unfit);
}

}  // namespace

void add_run(CLI::App& program) {
  const auto options = std::make_shared<RunArguments>();
  CLI::App* command = program.add_subcommand(
      "run",
      "Simulate a scenario: its systems side by side on one device and workload. Exit status 1 where none of "
      "them fits");
  command->add_option(
      "SCENARIO", options->scenario,
      "Scenario file, or the name of an embedded one (default: " + std::string(kDefaultScenario) + ")");
  command
      ->add_option("--set", options->settings,
                   "Change a value: PATH=VALUE, such as budget=\"16 GB\", workload.batch=4 or "
                   "overrides.system.threads=4")
      ->take_all();
  command
      ->add_option("--system", options->only,
                   "Run only this system of the scenario (may be given several times)")
      ->take_all();
  command
      ->add_option("--executor", options->executor,
                   "What resolves time: fast (durations known at the start), or simgrid (capacities shared "
                   "by SimGrid); default: fast, and simgrid for scenarios with a cluster")
      ->check(CLI::IsMember({"fast", "simgrid"}));
  command->add_option("--out", options->out, "Write the result as JSON to this file");
  command->add_option("--timeline", options->timeline,
                      "Write a timeline for https://ui.perfetto.dev to this file: operations by resource and "
                      "what they wait for, requests, queues and memory; of a cluster, faults and "
                      "migrations; in Perfetto's own form where its name ends in .pftrace, else in JSON, "
                      "more than ten times as large (.json.gz: gzipped)");
  CLI::Option* const passes =
      command
          ->add_option("--timeline-passes", options->timeline_passes,
                       "Forward passes in the timeline, from the first on; of a cluster, of each server")
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
  command
      ->add_option("--timeline-tokens", options->timeline_tokens,
                   "Passes in the timeline by the tokens that they make: 100:120 is from the 100th token "
                   "of the run to its 120th")
      ->excludes(passes);
  add_plot(*command, options->plot,
           "SVG file to draw serving over time into: tokens per second, KV cache, requests, swap "
           "traffic and residency level, of systems with 'weights: paged'");
  command->add_option("--requests", options->requests,
                      "Write a line for each system and request to this file, .jsonl or .csv: when it came, "
                      "began, had its first token and its last, its lengths, how often it was preempted; "
                      "of one system, in .json, what the serving benchmarks of vLLM and SGLang write");
  command
      ->add_option(
          "--seeds", options->seeds,
          "Run all of it with so many seeds, from the scenario's on, for the answer's comparison, seed "
          "by seed, and the means and ranges of the first table; other tables and files are of the first")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}));
  add_text_format(*command, options->format);
  add_policy_library(*command);
  add_example(
      *command,
      "moelab run zipmoe-orin --set budget=\"16 GB\" --set workload.batch=4 --out out/result.json\n"
      "  moelab run fluxmoe-qwen3-next --set workload.arrivals_per_s=2 --requests out/requests.jsonl");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
