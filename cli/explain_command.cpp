// moelab explain: why a run took as long as it did, and what would change that.
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/explain_report.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"

namespace moelab::cli {
namespace {

struct ExplainArguments {
  std::string result, other;
  std::string system, other_system;
  std::string format = "table";
  std::string out;
};

/// The other file's result that this one is held against: the one that was named, the one of the same system,
/// or the only one.
const ResultFile& counterpart(const ResultFile& result, const std::vector<ResultFile>& others,
                              const ExplainArguments& options) {
  if (!options.other_system.empty() || others.size() == 1)
    return result_of_system(others, options.other_system);
  return result_of_system(others, result.system);
}

/// "explain: hybrimoe, system 2 of 5: run 3 of 11, with link infinitely fast, 40 of 64 tokens"
std::string progress_text(const std::string& system, std::size_t number, std::size_t systems,
                          const ExplainProgress& now) {
  std::string text = "explain: " + system;
  if (systems > 1) text += ", system " + std::to_string(number) + " of " + std::to_string(systems);
  text += ": run " + std::to_string(now.run);
  if (now.runs > 0) text += " of " + std::to_string(now.runs);
  text += ", " + now.what;
  if (now.all > 0) text += ", " + std::to_string(now.tokens) + " of " + std::to_string(now.all) + " tokens";
  return text;
}

void run(const ExplainArguments& options) {
  check_outputs({options.out}, {options.result, options.other});
  std::vector<ResultFile> results = read_results(options.result);
  if (!options.system.empty()) results = {ResultFile(result_of_system(results, options.system))};
  const std::vector<ResultFile> others =
      options.other.empty() ? std::vector<ResultFile>() : read_results(options.other);
  if (others.empty() && !options.other_system.empty())
    throw InputError("--other-system " + options.other_system, "is of a second result; there is none");

  TerminalLine progress;
  std::vector<ExplainedResult> explained;
  for (const ResultFile& result : results) {
    ExplainedResult x;
    if (!others.empty()) x.other = counterpart(result, others, options);
    if (x.other && result.tokens > 0 && x.other->tokens > 0) x.comparison = compare(result, *x.other);
    x.explanation = explain(result, [&](const ExplainProgress& now) {
      progress.show(progress_text(result.system, explained.size() + 1, results.size(), now));
    });
    progress.clear();
    if (options.format != "json") std::cout << explanation_text(x) << std::flush;
    explained.push_back(std::move(x));
  }
  if (!options.out.empty()) write_outputs({{options.out, explanations_json(explained)}});
  if (options.format == "json") std::cout << explanations_json(explained);
  if (options.format != "json" && !options.out.empty()) std::cout << "explanation: " << options.out << "\n";
}

}  // namespace

void add_explain(CLI::App& program) {
  const auto options = std::make_shared<ExplainArguments>();
  CLI::App* command = program.add_subcommand(
      "explain",
      "Say what bounds a run, what each faster part would bring, and why two runs differ: simulates the "
      "result's scenario again with one kind of resources at a time infinitely fast, and with the best and "
      "no cache");
  command->add_option("RESULT", options->result, "Result of 'moelab run --out'; of one system or several")
      ->required()
      ->check(names_a_file);
  command->add_option("OTHER", options->other, "A second result: why does it differ?")->check(names_a_file);
  command->add_option("--system", options->system,
                      "Explain only this system's result (default: all of them in turn)");
  command->add_option("--other-system", options->other_system,
                      "System of the second result (default: the same system, or the only one)");
  command->add_option("--out", options->out, "Write the explanation as JSON to this file")
      ->check(names_a_file);
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command, "moelab explain out/zipmoe-orin.json --system zipmoe");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
