// moelab compare: one system under several cache policies, budgets and seeds, and what their differences are
// worth.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/compare_report.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"
#include "sim/sweep/comparison_json.hpp"
#include "sim/sweep/leaderboard.hpp"
#include "sim/sweep/sweep_file.hpp"
#include "sim/sweep/utc_time.hpp"

namespace moelab::cli {
namespace {

struct CompareArguments {
  CompareSettings settings;
  std::vector<std::string> set;
  std::string caches = "all", traces, laws, budgets;
  std::string leaderboard;
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
void check_leaderboard(const CompareArguments& options) {
  check_outputs({options.leaderboard}, {options.settings.scenario});
  std::error_code none;
  if (std::filesystem::exists(options.leaderboard, none)) read_leaderboard(options.leaderboard);
}

void run_comparison(CompareArguments options) {
  check_no_sweep(options.settings.scenario, "'moelab sweep'");
  check_leaderboard(options);
  options.settings.settings_digests = !options.leaderboard.empty();
  CompareSettings& settings = options.settings;
  for (const std::string& text : options.set) settings.settings.push_back(split_setting(text));
  if (options.caches != "all")
    settings.policies = parts_of("--cache", options.caches, "'all' or names of cache policies");
  if (!options.traces.empty())
    settings.traces = parts_of("--trace", options.traces, "files of routing traces");
  if (!options.laws.empty()) settings.laws = parts_of("--law", options.laws, "routing laws");
  if (!options.budgets.empty())
    for (const std::string& text : parts_of("--budget", options.budgets, "GB above 0"))
      settings.budgets.push_back(budget_with_unit(text));
  TerminalLine line;
  const PolicyComparison comparison = compare_policies(settings, [&](std::size_t done, std::size_t all) {
    line.show(std::to_string(done) + " of " + std::to_string(all) + " runs");
  });
  line.clear();
  if (!options.leaderboard.empty())
    append_to_leaderboard(options.leaderboard, leaderboard_lines(comparison, utc_now()));
  std::cout << (options.format == "json"  ? compare_json(comparison)
                : options.format == "csv" ? compare_csv(comparison)
                                          : compare_table(comparison));
  if (options.format == "table" && !options.leaderboard.empty())
    std::cout << "leaderboard: " << options.leaderboard << "\n";
}

}  // namespace

void add_compare(CLI::App& program) {
  const auto options = std::make_shared<CompareArguments>();
  options->settings.seeds = 5;
  options->settings.jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* command =
      program.add_subcommand("compare",
                             "Run a system under several cache policies at several budgets with the same "
                             "seeds: hits, time per output "
                             "token, regret to belady, ranks, and which differences are noise");
  command->add_option("SCENARIO", options->settings.scenario, "Scenario file, or the name of an embedded one")
      ->required();
  command
      ->add_option("--cache", options->caches,
                   "Cache policies between commas (moelab policies lists them), such as lru,lru-k:k=3, or "
                   "all; belady is always run, as the bound")
      ->default_str("all");
  command->add_option("--system", options->settings.system, "System of the scenario; without it the first");
  command->add_option("--trace", options->traces,
                      "Routing traces between commas, files or the one in the program (moelab traces), each "
                      "in the place of the scenario's routing: as many of its first requests as the workload "
                      "has, or all");
  command->add_option("--law", options->laws,
                      "Routing laws between commas (moelab laws), each likewise; with --trace both are "
                      "compared");
  command->add_option("--budget", options->budgets,
                      "Budgets in GB between commas, such as 16,20,24; without it the scenario's");
  command
      ->add_option("--seeds", options->settings.seeds,
                   "Runs of each policy at each budget, each with a seed of its own, from the scenario's on")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str();
  command
      ->add_option("--jobs", options->settings.jobs, "Processes at a time; without it as many as processors")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}));
  command
      ->add_option("--set", options->set,
                   "Change a value of the scenario: PATH=VALUE, such as workload.output_tokens=64")
      ->take_all();
  command
      ->add_option("--leaderboard", options->leaderboard,
                   "Append a line for each policy at each budget to this file (JSON Lines), with the digest "
                   "of what was run and of the policy's library: 'moelab leaderboard' ranks them")
      ->check(names_a_file);
  command
      ->add_option("--format", options->format,
                   "How to print: table (for people), json or csv (a line for each run, in SI units)")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->default_str("table");
  add_policy_library(*command);
  add_example(*command,
              "moelab compare zipmoe-orin --system zipmoe-lru --cache lru,sieve,arc,s3-fifo --budget 16,20");
  command->callback([options] { run_comparison(*options); });
}

}  // namespace moelab::cli
