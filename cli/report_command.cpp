// moelab report: results as one HTML page.
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/report/report.hpp"
#include "cli/report/result_files.hpp"
#include "cli/report/store_points.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"
#include "models/lower_case.hpp"

namespace moelab::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> results;
  std::string out;
  std::string title;
  std::string sweep;
};

/// Result files, or one store.
Report read(const ReportArguments& options, std::uint64_t& missing) {
  const bool any_store = std::any_of(options.results.begin(), options.results.end(), is_database);
  if (any_store && options.results.size() == 1)
    return read_store(options.results.front(), options.sweep, missing,
                      waits_for_lock(options.results.front()));
  if (any_store)
    throw InputError(*std::find_if(options.results.begin(), options.results.end(), is_database),
                     "is a store of results, which is reported alone; expected it to be the only file");
  if (!options.sweep.empty())
    throw InputError("--sweep " + options.sweep, "names a sweep of a store; expected one store, found files");
  return read_result_files(options.results);
}

void run(const ReportArguments& options) {
  if (!lower_case(options.out).ends_with(".html"))
    throw InputError(
        "--out " + options.out,
        "a report is one HTML page; expected a file whose name ends in .html, such as report.html");
  check_outputs({options.out}, options.results);
  std::uint64_t missing = 0;
  Report report = read(options, missing);
  if (!options.title.empty()) report.title = options.title;
  write_outputs({{options.out, report_html(report)}});
  const std::size_t results = report.points.size() + report.loads.size() + report.worlds.size();
  const std::size_t requests = report.requests.size();
  std::cout << "report: " << options.out << " (" << results << (results == 1 ? " result" : " results")
            << (requests == 0   ? ""
                : requests == 1 ? " and a file of requests"
                                : " and files of requests")
            << (missing > 0 ? "; " + std::to_string(missing) + " points have none" : "")
            << "), opens in any browser\n";
}

}  // namespace

void add_report(CLI::App& program) {
  const auto options = std::make_shared<ReportArguments>();
  CLI::App* command = program.add_subcommand(
      "report", "Show results side by side: one HTML page with tables and charts that needs no network");
  command
      ->add_option(
          "RESULT", options->results,
          "Files that 'moelab run --out', 'moelab load --out' or 'experiments/world/run.sh --out' "
          "wrote, requests of 'moelab run --requests' or 'moelab load --records' (.jsonl), or one file "
          "that 'moelab sweep' wrote")
      ->required();
  command->add_option("--out", options->out, "HTML file to write, whose name ends in .html")
      ->required()
      ->check(names_a_file);
  command->add_option("--title", options->title, "Title of the page (default: the scenarios' names)");
  command->add_option("--sweep", options->sweep, "Sweep of a store (default: the only one)");
  add_example(*command,
              "moelab report out/16GB.json out/24GB.json --out out/report.html --title \"Two budgets\"");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
