// moelab results: what is in a store of results.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/repeated_points.hpp"
#include "cli/results_compare.hpp"
#include "cli/results_report.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/shell_word.hpp"
#include "sim/results/text_report.hpp"
#include "sim/store/store_repair.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;
using Outcomes = std::vector<StoredOutcome>;

struct ResultsArguments {
  std::string store;
  std::string sweep;
  std::vector<std::string> axes;
  std::string where;
  bool failed = false;
  std::string sort;
  bool reverse = false;
  bool each_seed = false;
  std::string compare, compare_store;
  std::string csv, repair;
  std::optional<std::uint64_t> result;
  std::string out;
  std::string format = "table";

  bool compares() const { return !compare.empty() || !compare_store.empty(); }
  /// Whether something is asked of one sweep.
  bool needs_sweep() const {
    return !sweep.empty() || !where.empty() || !axes.empty() || failed || !sort.empty() || each_seed ||
           compares() || !csv.empty() || result;
  }
};

ListedSweep with_counts(const ResultStore& store, StoredSweep sweep) {
  const SweepCounts counts = store.counts(sweep.name);
  return {std::move(sweep), counts};
}

/// The points that the options choose: the one place where rows are left out.
void keep_chosen(Outcomes& points, const ResultsArguments& options) {
  std::vector<ResultFilter> filters = axis_filters(points, options.axes);
  if (options.failed) filters.emplace_back(is_failed);
  if (!options.where.empty()) filters.push_back(condition_filter(points, options.where));
  keep_wanted(points, filters);
}

void print(const Json& json) {
  std::cout << json_text(json);
}

void write_result(const ResultsArguments& options, const ResultStore& store, const Outcomes& points) {
  const std::string option = "--result " + std::to_string(*options.result);
  const auto found = std::find_if(points.begin(), points.end(),
                                  [&](const StoredOutcome& o) { return o.point.number == *options.result; });
  if (found == points.end())
    throw InputError(
        option, "the sweep has no such point; it has " + std::to_string(points.size()) +
                    (points.empty() ? ""
                                    : ", numbered " + std::to_string(points.front().point.number) + " to " +
                                          std::to_string(points.back().point.number)));
  if (!found->run) throw InputError(option, "the point did not run yet");
  const std::optional<StoredRun> run = store.run(found->point.run, true);
  if (is_failed(*found) || !run || run->result.empty())
    throw InputError(option, "the point has no result: " + status_of(*found) + ": " + found->run->error);
  if (options.out.empty())
    std::cout << run->result;
  else
    write_outputs({{options.out, run->result}});
}

void write_csv(const ResultsArguments& options, const Outcomes& points) {
  write_outputs({{options.csv, points_csv(points)}});
  if (options.format == "json")
    print({{"csv", options.csv}, {"points", points.size()}});
  else
    std::cout << options.csv << ": " << points.size() << " points\n";
}

void compare_sweeps(const ResultsArguments& options, const ResultStore& store, const StoredSweep& sweep,
                    const Outcomes& here) {
  std::optional<ResultStore> other;
  if (!options.compare_store.empty())
    other.emplace(options.compare_store, ResultStore::Access::read, waits_for_lock(options.compare_store));
  const ResultStore& to = other ? *other : store;
  const std::string file = other ? options.compare_store : options.store;
  const std::vector<StoredSweep> sweeps = to.sweeps();
  // In another store, a sweep of the same name where none is named.
  const bool same_there = std::any_of(sweeps.begin(), sweeps.end(),
                                      [&](const StoredSweep& one) { return one.name == sweep.name; });
  const std::string wanted = options.compare.empty() && same_there ? sweep.name : options.compare;
  const std::string name = to.sweep(wanted, "--compare").name;
  Outcomes there = to.outcomes(name);
  keep_chosen(there, options);
  const ComparedNames names = other ? ComparedNames{options.store + ": " + sweep.name, file + ": " + name}
                                    : ComparedNames{sweep.name, name};
  const SweepComparison comparison = compare(here, there);
  if (options.format == "json")
    print(comparison_json(comparison, here, there, names));
  else
    std::cout << comparison_table(comparison, here, there, names, text_form(options.format));
}

/// Points as the table has them: repeats together, in the order that is asked for.
std::vector<RepeatedPoint> shown_points(const ResultsArguments& options, const Outcomes& points) {
  std::vector<RepeatedPoint> shown = options.each_seed ? each_alone(points) : over_seeds(points);
  if (!options.sort.empty()) sort_by(shown, options.sort, options.reverse);
  return shown;
}

void show_points(const ResultsArguments& options, const ListedSweep& sweep, const Outcomes& points) {
  if (options.format == "json")
    return print({{"sweeps", sweeps_json({sweep})}, {"points", points_json(points)}});
  TextReport report(text_form(options.format));
  report.add_table(sweeps_table({sweep}));
  report.join_next();
  report.add_lines(sweep.sweep.question.empty() ? "" : one_line(sweep.sweep.question) + "\n");
  if (options.failed)
    report.add_lines(failed_list(points));
  else
    report.add_table(points_table(shown_points(options, points)));
  std::cout << report.text();
}

void show_sweeps(const ResultsArguments& options, const ResultStore& store,
                 const std::vector<StoredSweep>& all) {
  std::vector<ListedSweep> sweeps;
  for (const StoredSweep& sweep : all) sweeps.push_back(with_counts(store, sweep));
  if (options.format == "json") return print({{"sweeps", sweeps_json(sweeps)}});
  TextReport report(text_form(options.format));
  report.add_table(sweeps_table(sweeps));
  report.join_next();
  if (!all.empty())
    report.add_lines("points of one: moelab results " + shell_word(options.store) + " --sweep " +
                     shell_word(all.front().name) + "\n");
  std::cout << report.text();
}

void repair(const ResultsArguments& options) {
  const StoreRepair r = repair_store(options.store, options.repair);
  if (options.format == "json")
    return print({{"store", options.store},
                  {"copy", options.repair},
                  {"sweeps", r.sweeps},
                  {"points", r.points},
                  {"runs", r.runs},
                  {"lost_points", r.lost_points},
                  {"lost_runs", r.lost_runs},
                  {"lost_more", r.lost_more}});
  std::cout << options.repair << ": " << r.sweeps << " sweeps, " << r.points << " points, " << r.runs
            << " runs of " << options.store << " are whole\nlost: " << r.lost_points << " points, "
            << r.lost_runs << " runs" << (r.lost_more ? ", and what only damaged pages tell of" : "")
            << "\nthe same 'moelab sweep' with --db " << shell_word(options.repair)
            << " runs what is missing\n";
}

void results(const ResultsArguments& options) {
  if (!options.repair.empty()) return repair(options);
  check_outputs({options.csv, options.out}, {options.store, options.compare_store});
  const ResultStore store(options.store, ResultStore::Access::read, waits_for_lock(options.store));
  const std::vector<StoredSweep> sweeps = store.sweeps();
  if (!options.needs_sweep() && sweeps.size() != 1) return show_sweeps(options, store, sweeps);
  const ListedSweep sweep = with_counts(store, store.sweep(options.sweep, "--sweep"));
  Outcomes points = store.outcomes(sweep.sweep.name);
  if (options.result) return write_result(options, store, points);
  keep_chosen(points, options);
  if (options.compares()) return compare_sweeps(options, store, sweep.sweep, points);
  if (!options.sort.empty()) sort_by(points, options.sort, options.reverse);
  if (!options.csv.empty()) return write_csv(options, points);
  show_points(options, sweep, points);
}

void add_point_options(CLI::App& command, ResultsArguments& options) {
  command.add_option("STORE", options.store, "Results of sweeps (SQLite)")->required()->check(names_a_file);
  command.add_option("--sweep", options.sweep, "Points of this sweep (default: the only one)");
  command
      .add_option(
          "--axis", options.axes,
          "Only points with this value on an axis: NAME=VALUE (may be given several times: any of the "
          "values of one axis, all of the axes)")
      ->take_all();
  command.add_option("--where", options.where,
                     "Only points for which this holds, of axes, columns and the metrics of 'moelab tune', "
                     "as in \"tpot < 60 "
                     "ms and system == zipmoe\"");
  command.add_flag(
      "--each-seed", options.each_seed,
      "A line for each seed; without it repeats are one line: means, with (least–most). JSON and "
      "CSV always have each");
  command.add_flag("--failed", options.failed, "Only points that failed, with their errors");
  CLI::Option* const sort =
      command.add_option("--sort", options.sort,
                         "Order by a column, such as tpot_s (of repeats their mean), an axis, "
                         "status or cpu_s");
  command.add_flag("--reverse", options.reverse, "Largest first")->needs(sort);
}

void add_outputs(CLI::App& command, ResultsArguments& options) {
  CLI::Option* const compare = command.add_option(
      "--compare", options.compare,
      "Which points moved in this other sweep, by how much, and which only one has. Points are the same "
      "where axes, series, system and seed are");
  CLI::Option* const compare_store = command.add_option(
      "--compare-db", options.compare_store,
      "Compare with the sweep of the same name in another store (or the one that --compare names)");
  CLI::Option* const csv =
      command.add_option("--csv", options.csv, "Write the points to this file, all columns in SI units");
  CLI::Option* const result = command.add_option(
      "--result", options.result, "Result of the point of this number, as 'moelab run' wrote it (JSON)");
  command.add_option("--out", options.out, "Write that to this file")->needs(result);
  csv->excludes(compare, compare_store, result);
  result->excludes(compare, compare_store, command.get_option("--axis"), command.get_option("--failed"),
                   command.get_option("--sort"));
  for (CLI::Option* const one : {compare, compare_store})
    one->excludes(command.get_option("--sort"), command.get_option("--failed"));
  command
      .add_option("--repair", options.repair,
                  "Copy what is whole of a damaged store into a new one of this name, and say what is lost")
      ->excludes(compare, compare_store, csv, result);
  add_text_format(command, options.format);
}

}  // namespace

void add_results(CLI::App& program) {
  const auto options = std::make_shared<ResultsArguments>();
  CLI::App* command = program.add_subcommand(
      "results",
      "What a store of results holds: its sweeps, the points of one with their metrics, what failed, what "
      "moved since another sweep. The file opens in any SQLite tool; sim/store/README.md has its tables. It "
      "can be read while a sweep writes it");
  add_point_options(*command, *options);
  add_outputs(*command, *options);
  add_example(*command,
              "moelab results results.db --sweep budgets --axis budget=\"12 GB\" --sort tpot_s\n"
              "  moelab results results.db --sweep budgets --compare budgets-before\n"
              "  moelab results results.db --csv out/budgets.csv\n"
              "  moelab results results.db --repair repaired.db");
  command->callback([options] { results(*options); });
}

}  // namespace moelab::cli
