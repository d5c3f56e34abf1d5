// moelab tune KEY: where a condition holds over a number of the scenario, or where a metric is best.
#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/goal_report.hpp"
#include "cli/keys/key_table.hpp"
#include "cli/name_lists.hpp"
#include "cli/terminal_line.hpp"
#include "cli/tune_subject.hpp"
#include "models/input_error.hpp"
#include "sim/sweep/request_rate.hpp"
#include "sim/sweep/sweep_file.hpp"

namespace moelab::cli {
namespace {

struct TuneGoalArguments {
  TuneOptions common;
  std::string key;
  std::string condition, most, least;
  std::uint64_t seeds = 0;  // 0: by the key
  GoalSettings goal;
};

bool takes_number(const KeyRow& row) {
  return std::any_of(row.forms.begin(), row.forms.end(), [](const AskedKey& form) {
    return form.path.empty() &&
           (form.form == AskedKey::Form::integer || form.form == AskedKey::Form::number ||
            form.form == AskedKey::Form::time || form.form == AskedKey::Form::size ||
            form.form == AskedKey::Form::bandwidth || form.form == AskedKey::Form::operations ||
            form.form == AskedKey::Form::operation_rate);
  });
}

/// Only whole numbers, whatever its policy.
bool takes_whole(const KeyRow& row) {
  return std::all_of(row.forms.begin(), row.forms.end(),
                     [](const AskedKey& form) { return form.form == AskedKey::Form::integer; });
}

/// As --set has a key of `moelab keys`: "system.threads" is "overrides.system.threads".
std::string path_of_row(const std::string& path) {
  if (path.starts_with("scenario.")) return path.substr(std::string("scenario.").size());
  return "overrides." + path;
}

/// "system.threads" and "device.ssd.readers" are the files', others the scenario's.
std::string path_of_dotted(const std::string& key) {
  for (const char* file : {"system.", "device.", "model.", "cluster."})
    if (key.starts_with(file)) return "overrides." + key;
  return key;
}

std::string last_word(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

/// The scenario's own keys go before those of systems, and these before others.
int order_of(const std::string& path) {
  return !path.starts_with("overrides.") ? 0 : path.starts_with("overrides.system.") ? 1 : 2;
}

/// The keys that a word without dots may mean, as --set has them.
std::vector<std::string> paths_of_word(const std::string& word, const std::vector<KeyRow>& table) {
  std::vector<std::string> paths;
  for (const KeyRow& row : table) {
    const bool one_place = row.path.find("[]") == row.path.npos && row.path.find("NAME") == row.path.npos;
    const std::string path = path_of_row(row.path);
    if (!one_place || !takes_number(row) || last_word(row.path) != word) continue;
    if (path == word) return {path};
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  }
  int first = 2;
  for (const std::string& path : paths) first = std::min(first, order_of(path));
  std::erase_if(paths, [first](const std::string& path) { return order_of(path) > first; });
  return paths;
}

std::string path_of_key(const std::string& key, const std::vector<KeyRow>& table) {
  if (key.find('.') != key.npos) return path_of_dotted(key);
  const std::vector<std::string> paths = paths_of_word(key, table);
  if (paths.size() == 1) return paths.front();
  if (paths.empty()) {
    std::vector<std::string> known = {"alpha", "residency"};
    for (const KeyRow& row : table)
      if (takes_number(row)) known.push_back(last_word(row.path));
    throw InputError("moelab tune " + shown_word(key),
                     "is no number of a scenario" + suggestion(key, known) +
                         "; expected one by its name, such as budget or threads, or by its path, such as "
                         "workload.batch or system.cache.k (moelab keys)");
  }
  throw InputError("moelab tune " + shown_word(key),
                   "may be any of " + between_commas(paths) + "; expected one of these");
}

bool is_whole_key(const std::string& path, const std::vector<KeyRow>& table) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const KeyRow& row) { return path_of_row(row.path) == path; });
  return found != table.end() && takes_whole(*found);
}

/// What is wanted, of exactly one of the three options.
void read_goal(TuneGoalArguments& options) {
  const std::string* const asked[] = {&options.condition, &options.most, &options.least};
  if (std::count_if(std::begin(asked), std::end(asked),
                    [](const std::string* text) { return !text->empty(); }) != 1)
    throw InputError("moelab tune",
                     "expected one of --for \"tpot < 100 ms\", --max tokens_per_s and --min tpot");
  GoalSettings& goal = options.goal;
  if (!options.condition.empty()) {
    goal.condition = parse_goal_condition("--for", options.condition);
    goal.metric = goal.condition->metric;
    return;
  }
  goal.smallest = options.most.empty();
  goal.metric =
      goal.smallest ? parse_goal_metric("--min", options.least) : parse_goal_metric("--max", options.most);
}

void tune_goal(TuneGoalArguments options) {
  if (options.key.empty() || options.common.scenario.empty())
    throw InputError(
        "moelab tune",
        "expected a key and a scenario, such as 'moelab tune budget zipmoe-orin', or one of alpha and "
        "residency");
  read_goal(options);
  check_no_sweep(options.common.scenario, "'moelab sweep'");
  check_outputs({options.common.plot}, {options.common.scenario});
  GoalSettings& goal = options.goal;
  const std::vector<KeyRow> table = key_table();
  goal.path = path_of_key(options.key, table);
  goal.domain.whole = is_whole_key(goal.path, table);
  goal.seeds = options.seeds > 0 ? options.seeds : is_request_rate(goal.path) ? kRateSeeds : 1;
  goal.scenario = options.common.scenario;
  goal.system = options.common.system;
  for (const std::string& text : options.common.settings) goal.settings.push_back(split_setting(text));
  TerminalLine line;
  const GoalFound found = search_goal(goal, [&](std::size_t done, std::size_t wanted) {
    line.show(goal.path + ": " + std::to_string(done) + " of " + std::to_string(wanted) + " runs so far");
  });
  line.clear();
  finish_tuning(options.common, goal_figure(goal, found),
                options.common.format == "json" ? goal_json(goal, found)
                                                : goal_table(goal, found, text_form(options.common.format)));
}

void add_goal_options(CLI::App& command, TuneGoalArguments& options) {
  command.add_option(
      "--for", options.condition,
      "Where this holds: a metric, <, <=, > or >=, and a limit with its unit: \"tpot < 100 ms\", "
      "\"ttft p95 < 2 s\", \"tokens_per_s >= 12\", \"hits > 80 %\"");
  command.add_option(
      "--max", options.most,
      "Where this metric is largest: tokens_per_s, input_tokens_per_s, requests_per_s or hits; or a "
      "latency of requests (ttft, tpot, itl, e2e, normalised, queueing), with mean or a percentile");
  command.add_option("--min", options.least, "Where a metric is smallest, such as tpot or \"ttft p95\"");
  command.add_option("--from", options.goal.domain.from,
                     "Least value, with its unit (default: a quarter of the scenario's)");
  command.add_option(
      "--to", options.goal.domain.to,
      "Largest value (default: four times the scenario's; of a budget at most what the device has)");
  command.add_option(
      "--step", options.goal.domain.step,
      "Values are these apart (default: whole numbers one, others a hundredth of the range or less)");
  command
      .add_option(
          "--points", options.goal.points,
          "Values, the ends among them, that show the curve before the search: whether it changes once")
      ->check(CLI::Range(std::size_t{2}, std::size_t{1000}))
      ->capture_default_str();
  command
      .add_option(
          "--seeds", options.seeds,
          "Runs at each value, each with a seed of its own, from the scenario's on: what noise leaves open "
          "is said (default: 1; 3 where the key is workload.arrivals_per_s, as 'moelab load')")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}));
  command
      .add_option("--requests", options.goal.requests,
                  "Requests of a run; without it the scenario's, and " + std::to_string(kLeastRequests) +
                      " where it draws fewer and the key is "
                      "workload.arrivals_per_s, as 'moelab load'")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
  command.add_option("--jobs", options.goal.jobs, "Processes at a time; without it as many as processors")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}));
}

}  // namespace

void add_tune_goal(CLI::App& tune_app) {
  const auto options = std::make_shared<TuneGoalArguments>();
  options->goal.jobs = std::max(1u, std::thread::hardware_concurrency());
  tune_app.add_option(
      "KEY", options->key,
      "A number of the scenario: budget, threads, or a path as --set and 'moelab keys' have it "
      "(workload.batch, system.cache.k, device.ssd.readers)");
  tune_app.add_option("SCENARIO", options->common.scenario, "Scenario file, or the name of an embedded one");
  tune_app.add_option("--system", options->common.system, "System of the scenario; without it the first");
  add_goal_options(tune_app, *options);
  add_tune_outputs(tune_app, options->common);
  add_text_format(tune_app, options->common.format);
  add_policy_library(tune_app);
  tune_app.callback([options, &tune_app] {
    if (tune_app.get_subcommands().empty()) tune_goal(*options);
  });
}

}  // namespace moelab::cli
