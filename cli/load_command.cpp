// moelab load: throughput and latency over the request rate, and the highest rate that meets a service level.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/load_report.hpp"
#include "cli/terminal_line.hpp"
#include "models/lower_case.hpp"
#include "models/nothing_fits.hpp"
#include "sim/sweep/request_rate.hpp"
#include "sim/sweep/sweep_file.hpp"

namespace moelab::cli {
namespace {

constexpr double kLowestRate = 1e-9;  // as workload.arrivals_per_s
constexpr double kTooHighRate = 1e6;  // no machine answers a million requests a second

struct LoadArguments {
  LoadSettings settings;
  std::vector<std::string> set;
  std::string rates;
  bool find = false;
  std::string level;
  double share = 0;  // percent; 0: by the level's statistics
  double tolerance = 0.02;
  std::string executor;  // "": fast, of a cluster simgrid
  std::string format = "table";
  std::string out, csv, records, plot;

  std::vector<std::string> outputs() const { return {out, csv, records, plot}; }
};

double rate_of(const std::string& text) {
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, rate);
  if (error != std::errc() || rest != end || !std::isfinite(rate))
    throw InputError("--rates", "'" + shown_word(text) + "' is no number of requests a second");
  if (rate <= 0)
    throw InputError("--rates", shown_word(text) + " requests a second: expected a rate above 0");
  if (rate < kLowestRate)
    throw InputError("--rates", shown_word(text) + " requests a second: expected at least 1e-9");
  if (rate >= kTooHighRate)
    throw InputError("--rates", shown_word(text) +
                                    " requests a second are more than any machine answers; expected less "
                                    "than 1e6");
  return rate;
}

std::vector<double> rates_of(const std::string& text) {
  std::vector<double> rates;
  Problems problems;
  for (const std::string& part : parts_between_commas(text)) {
    try {
      rates.push_back(rate_of(part));
    } catch (const InputError& error) {
      problems.add(error.problems().front());
    }
  }
  problems.throw_if_any();
  return rates;
}

void check_asked(const LoadArguments& options) {
  if (options.rates.empty() && !options.find)
    throw InputError("moelab load",
                     "expected --rates, such as 1,2,4,8, or --find for the highest rate, or both");
  if (options.share > 0 && options.level.empty())
    throw InputError("--share", "is of the requests that meet the limits of --slo; expected --slo with it");
  const std::string records = lower_case(options.records);
  if (!records.empty() && !records.ends_with(".jsonl") && !records.ends_with(".csv"))
    throw InputError("--records " + options.records,
                     "expected a file that ends in .jsonl (a JSON object a request) or .csv");
}

/// Rates around those that were found, for the table and the picture.
std::vector<std::vector<double>> rates_around(const std::vector<HighestRate>& found) {
  std::vector<std::vector<double>> rates;
  for (const HighestRate& one : found) {
    const double at = one.median() > 0 ? one.median() : 1;
    rates.push_back(
        {0.25 * at, 0.5 * at, 0.8 * at, one.median() > 0 ? std::min(at, one.low()) : at, 1.25 * at});
    std::erase_if(rates.back(), [](double rate) { return rate <= 0 || rate >= kTooHighRate; });
  }
  return rates;
}

void print(const LoadArguments& options, const LoadReport& report) {
  std::vector<std::pair<std::string, std::string>> files;
  if (!options.out.empty()) files.emplace_back(options.out, load_json(report));
  if (!options.csv.empty()) files.emplace_back(options.csv, load_csv(report));
  if (!options.records.empty()) files.emplace_back(options.records, load_records(report, options.records));
  if (!options.plot.empty()) files.emplace_back(options.plot, plot::svg(load_figure(report)));
  write_outputs(files);
  if (options.format == "json") {
    std::cout << load_json(report);
    return;
  }
  std::cout << load_table(report, text_form(options.format));
  if (options.format != "table") return;
  if (!options.out.empty()) std::cout << "results: " << options.out << "\n";
  if (!options.csv.empty()) std::cout << "runs: " << options.csv << "\n";
  if (!options.records.empty()) std::cout << "requests: " << options.records << "\n";
  if (!options.plot.empty()) std::cout << "picture: " << options.plot << "\n";
}

void load(LoadArguments options) {
  check_asked(options);
  check_outputs(options.outputs(), {options.settings.scenario});
  check_no_sweep(options.settings.scenario, "'moelab sweep'");
  std::vector<double> rates;
  if (!options.rates.empty()) rates = rates_of(options.rates);
  for (const std::string& text : options.set) options.settings.settings.push_back(split_setting(text));
  const Scenario as_read = load_as_read(options.settings);
  if (options.executor == "simgrid" || (options.executor.empty() && as_read.cluster))
    options.settings.executor = ExecutorKind::simgrid;
  if (!options.level.empty())
    options.settings.level = parse_service_level("--slo", options.level, class_names(as_read.workload));
  options.settings.keep_records = !options.records.empty();
  LoadRuns runs(options.settings);
  check_outputs(options.outputs(), scenario_inputs(runs.scenario()));

  TerminalLine line;
  const auto progress_of = [&](const std::string& what) {
    return [&line, what](std::size_t done, std::size_t all) {
      line.show(what + ": " + std::to_string(done) + " of " + std::to_string(all) + " runs");
    };
  };
  runs.settle(progress_of("how long runs have to be"));
  LoadReport report;
  report.runs = &runs;
  report.tolerance = options.tolerance;
  if (options.share > 0) report.rule.share = options.share / 100;
  if (options.find)
    report.found = find_highest_rates(runs, report.rule, options.tolerance, progress_of("highest rate"));
  report.points = load_curve(runs, report.rule,
                             rates.empty() ? rates_around(report.found) : std::vector(runs.systems(), rates),
                             progress_of("curve"));
  line.clear();
  print(options, report);
  const auto refused = [](const LoadPoint& point) { return !point.samples.front().refusal.empty(); };
  if (!report.points.empty() && std::all_of(report.points.begin(), report.points.end(), refused))
    throw NothingFits(runs.scenario().name, "system '" +
                                                runs.scenario().systems[report.points.front().system].name +
                                                "' " + report.points.front().samples.front().refusal);
}

void add_what_is_run(CLI::App& command, LoadArguments& options) {
  command.add_option("SCENARIO", options.settings.scenario, "Scenario file, or the name of an embedded one")
      ->required();
  command
      .add_option("--set", options.set,
                  "Change a value of the scenario: PATH=VALUE, such as budget=\"16 GB\" or "
                  "workload.arrivals=\"{process: gamma, burstiness: 0.5}\"")
      ->take_all();
  command
      .add_option("--system", options.settings.only,
                  "Run only this system of the scenario (may be given several times)")
      ->take_all();
  command
      .add_option("--requests", options.settings.requests,
                  "Requests of a run; without it the scenario's, and " + std::to_string(kLeastRequests) +
                      " where it draws fewer")
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1'000'000}));
  command
      .add_option("--seeds", options.settings.seeds,
                  "Runs at each rate, each with a seed of its own, from the scenario's on")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str();
  command
      .add_option("--jobs", options.settings.jobs, "Processes at a time; without it as many as processors")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}));
  command
      .add_option("--executor", options.executor,
                  "What resolves time: fast (durations known at the start), or simgrid (capacities shared by "
                  "SimGrid; default on a cluster)")
      ->check(CLI::IsMember({"fast", "simgrid"}));
}

}  // namespace

void add_load(CLI::App& program) {
  const auto options = std::make_shared<LoadArguments>();
  options->settings.seeds = kRateSeeds;
  options->settings.jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* command = program.add_subcommand(
      "load",
      "Run a scenario's systems at several request rates: latencies, throughput and goodput over the rate, "
      "where each saturates, and the highest rate that meets a service level. A point is saturated where, "
      "with most seeds, a queue stands through the second half of the time in which requests come and fewer "
      "are started there than are offered, or what is under way piles up there; such a point is never the "
      "best. Exit status 1 where "
      "no system fits");
  add_what_is_run(*command, *options);
  command->add_option("--rates", options->rates, "Requests a second, between commas: 1,2,4,8");
  command->add_flag("--find", options->find,
                    "Find the highest rate at which a system keeps up and meets --slo, by bisection, for "
                    "each seed; without --rates the table has rates around it");
  command
      ->add_option("--slo", options->level,
                   "Service level: conditions between commas, of ttft, tpot, itl, e2e, normalised (e2e "
                   "over output tokens) or queueing, each mean or a percentile: \"ttft p95 < 500 ms, tpot "
                   "p99 < 50 ms\". Of a class of requests (workload.classes) where it begins with the "
                   "class's name: \"chat ttft p95 < 500 ms\"")
      ->check([](const std::string& text) {
        return std::string(text.empty() ? "is empty; expected limits, such as 'ttft p95 < 500 ms'" : "");
      });
  command
      ->add_option("--share", options->share,
                   "Percent of requests that must be within all limits of --slo at once, in place of its "
                   "means and percentiles")
      ->check(number_from(0.01, 100));
  command
      ->add_option("--tolerance", options->tolerance,
                   "How near --find comes: at 1 + this times the rate the level is missed")
      ->check(number_from(1e-4, 1))
      ->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "Write all results to this file as JSON, which 'moelab report' draws the curves of")
      ->check(names_a_file);
  command->add_option(
      "--csv", options->csv,
      "Write a line for each system, rate and seed, and each class of requests, to this file, "
      "all in SI units");
  command
      ->add_option(
          "--records", options->records,
          "Write a line for each request of each run of the curve to this file, .jsonl or .csv: its system "
          "and rate, and what 'moelab run --requests' has of it; 'moelab report' draws the requests of a "
          ".jsonl")
      ->check(names_a_file);
  add_plot(*command, options->plot,
           "SVG file to draw TTFT, TPOT and what was served over the rate into, and throughput over p99");
  add_text_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command,
              "moelab load expert-parallel-qwen3 --rates 1,2,4,8 --slo \"ttft p95 < 2 s, tpot p99 < 100 ms\" "
              "--plot out/load.svg");
  command->callback([options] { load(*options); });
}

}  // namespace moelab::cli
