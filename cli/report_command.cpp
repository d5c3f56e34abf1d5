// moelab report: results as one HTML page.
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/report/report.hpp"
#include "cli/report/result_files.hpp"

namespace moelab::cli {
namespace {

struct Options {
  std::vector<std::string> results;
  std::string out;
  std::string title;
};

void run(const Options& options) {
  check_outputs({options.out}, options.results);
  Report report = read_result_files(options.results);
  if (!options.title.empty()) report.title = options.title;
  write_outputs({{options.out, report_html(report)}});
  std::cout << "report: " << options.out << " (" << report.points.size()
            << (report.points.size() == 1 ? " result" : " results") << "), opens in any browser\n";
}

}  // namespace

void add_report(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "report", "Show results side by side: one HTML page with tables and charts that needs no network");
  command->add_option("RESULT", options->results, "Files that 'moelab run --out' wrote")->required();
  command->add_option("--out", options->out, "HTML file to write")->required()->check(names_a_file);
  command->add_option("--title", options->title, "Title of the page (default: the scenarios' names)");
  add_example(*command,
              "moelab report out/16GB.json out/24GB.json --out out/report.html --title \"Two budgets\"");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
