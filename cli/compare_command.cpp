// moelab compare: one system under several policies of a family, on several traces, budgets and seeds, and
// what their differences are worth.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/compare_plot.hpp"
#include "cli/compare_report.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"
#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/comparison_json.hpp"
#include "sim/sweep/leaderboard.hpp"
#include "sim/sweep/sweep_file.hpp"
#include "sim/sweep/utc_time.hpp"

namespace moelab::cli {
namespace {

struct CompareArguments {
  CompareSettings settings;
  std::vector<std::string> set;
  std::map<std::string, std::string> policies;  // by family, as asked: one of them
  std::string traces, laws, budgets;
  std::string leaderboard, plot;
  std::string format = "table";
};

/// "a, b" -> {"a", "b"}, without spaces at the ends. Throws InputError for a part that is empty.
std::vector<std::string> parts_of(const std::string& option, const std::string& text,
                                  const std::string& expected) {
  std::vector<std::string> parts = parts_between_commas(text);
  for (std::string& part : parts) {
    part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
    part.erase(part.find_last_not_of(' ') + 1);
    if (part.empty()) throw InputError(option, "expected " + expected + ", found nothing between commas");
  }
  return parts;
}

/// "20" -> "20 GB"; "20 GB" as it is.
std::string budget_with_unit(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string with_unit = error == std::errc() && rest == end ? text + " GB" : text;
  Bytes bytes;
  std::string expected;
  if (!parse(with_unit, bytes, expected) || !(bytes.value() > 0) || !std::isfinite(bytes.value()))
    throw InputError("--budget", "'" + shown_word(text) +
                                     "' is no budget; expected GB above 0 between commas, such as 16,20");
  return with_unit;
}

/// Refuses what could not be written once everything has run.
void check_files(const CompareArguments& options) {
  std::vector<std::string> inputs = options.settings.traces;
  inputs.insert(inputs.end(), options.settings.laws.begin(), options.settings.laws.end());
  inputs.push_back(options.settings.scenario);
  check_outputs({options.leaderboard, options.plot}, inputs);
  std::error_code none;
  if (std::filesystem::exists(options.leaderboard, none)) read_leaderboard(options.leaderboard);
}

/// The one family that is compared, and its policies that are named.
void read_family(CompareArguments& options) {
  std::vector<std::string> asked;
  for (const auto& [family, text] : options.policies)
    if (!text.empty()) asked.push_back(family);
  if (asked.size() > 1)
    throw InputError("--" + asked[1], "is beside --" + asked[0] + ": expected policies of one family");
  if (asked.empty()) return;  // all caches
  options.settings.family = asked.front();
  const std::string& text = options.policies[asked.front()];
  if (text != "all")
    options.settings.policies =
        parts_of("--" + asked.front(), text, "'all' or names of " + asked.front() + " policies");
}

/// What has been compared, for files and the terminal.
void write_and_print(const CompareArguments& options, const PolicyComparison& comparison) {
  if (!options.plot.empty()) write_outputs({{options.plot, comparison_picture(comparison, options.plot)}});
  if (!options.leaderboard.empty())
    append_to_leaderboard(options.leaderboard, leaderboard_lines(comparison, utc_now()));
  std::cout << (options.format == "json"  ? compare_json(comparison)
                : options.format == "csv" ? compare_csv(comparison)
                                          : compare_table(comparison, text_form(options.format)));
  if (options.format != "table") return;
  if (!options.plot.empty()) std::cout << "picture: " << options.plot << "\n";
  if (!options.leaderboard.empty()) std::cout << "leaderboard: " << options.leaderboard << "\n";
}

void run_comparison(CompareArguments options) {
  check_no_sweep(options.settings.scenario, "'moelab sweep'");
  options.settings.settings_digests = !options.leaderboard.empty();
  CompareSettings& settings = options.settings;
  for (const std::string& text : options.set) settings.settings.push_back(split_setting(text));
  read_family(options);
  if (!options.traces.empty())
    settings.traces = parts_of("--trace", options.traces, "files of routing traces");
  if (!options.laws.empty()) settings.laws = parts_of("--law", options.laws, "routing laws");
  if (!options.budgets.empty())
    for (const std::string& text : parts_of("--budget", options.budgets, "GB above 0"))
      settings.budgets.push_back(budget_with_unit(text));
  check_files(options);
  TerminalLine line;
  const PolicyComparison comparison = compare_policies(settings, [&](std::size_t done, std::size_t all) {
    line.show(std::to_string(done) + " of " + std::to_string(all) + " runs");
  });
  line.clear();
  write_and_print(options, comparison);
}

/// An option for each family: which of its policies are compared.
void add_families(CLI::App& command, CompareArguments& options) {
  for (const ComparedFamily& family : compared_families()) {
    const std::string name(family.name);
    const std::string help =
        name == "cache"
            ? "Cache policies between commas (moelab policies lists them), such as "
              "lru,lru-k:k=3, or all, as without any of these options; belady is always run, as "
              "the bound"
            : "In their place " + name + " policies between commas, or all" +
                  (family.bound.empty()
                       ? ""
                       : "; " + std::string(family.bound) + " is always run, as the bound, where it can be");
    command.add_option("--" + name, options.policies[name], help);
  }
}

/// What is run beside the policies: the system, its routing and budgets, and how often.
void add_axes(CLI::App& command, CompareArguments& options) {
  command.add_option("--system", options.settings.system, "System of the scenario; without it the first");
  command.add_option("--trace", options.traces,
                     "Routing traces between commas, files or the one in the program (moelab traces), each "
                     "in the place of the scenario's routing: as many of its first requests as the workload "
                     "has, or all");
  command.add_option("--law", options.laws,
                     "Routing laws between commas (moelab laws), each likewise; with --trace both are "
                     "compared");
  command.add_option("--budget", options.budgets,
                     "Budgets in GB between commas, such as 16,20,24; without it the scenario's");
  command
      .add_option("--seeds", options.settings.seeds,
                  "Runs of each policy at each budget, each with a seed of its own, from the scenario's on")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str();
  command
      .add_option("--jobs", options.settings.jobs, "Processes at a time; without it as many as processors")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}));
  command
      .add_option("--set", options.set,
                  "Change a value of the scenario: PATH=VALUE, such as workload.output_tokens=64")
      ->take_all();
}

/// Where what has been compared goes.
void add_outputs(CLI::App& command, CompareArguments& options) {
  add_plot(command, options.plot,
           "Draw times, hits and the bound into this file, .svg or .html (a page with the table, "
           "too); of several budgets curves over them, a line for each policy",
           true);
  command
      .add_option("--leaderboard", options.leaderboard,
                  "Append a line for each policy at each budget to this file (JSON Lines), with the digest "
                  "of what was run and of the policy's library: 'moelab leaderboard' ranks them")
      ->check(names_a_file);
  add_text_format(command, options.format, {{"csv", "a line for each run, in SI units"}});
}

}  // namespace

void add_compare(CLI::App& program) {
  const auto options = std::make_shared<CompareArguments>();
  options->settings.seeds = 5;
  options->settings.jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* command = program.add_subcommand(
      "compare",
      "Run a system under several policies of a family, such as its cache, on several "
      "traces and budgets with the same seeds: hits, time per output token or latency, regret to "
      "the bound, ranks, and which differences are noise. Exit status 1 where none of them fits at any "
      "budget");
  command->add_option("SCENARIO", options->settings.scenario, "Scenario file, or the name of an embedded one")
      ->required();
  add_families(*command, *options);
  add_axes(*command, *options);
  add_outputs(*command, *options);
  add_policy_library(*command);
  add_example(*command,
              "moelab compare zipmoe-orin --system zipmoe-lru --cache lru,sieve,arc,s3-fifo --budget 16,20 "
              "--plot out/caches.svg\n"
              "  moelab compare zipmoe-orin --schedule all");
  command->callback([options] { run_comparison(*options); });
}

}  // namespace moelab::cli
