// moelab trace import-requests: request logs of what other programs recorded.
#include <iostream>
#include <limits>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/import_progress.hpp"
#include "cli/trace_import_options.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"
#include "traces/import/request_import.hpp"
#include "traces/request_cut.hpp"

namespace moelab::cli {
namespace {

const std::map<std::string, RequestLogKind> kLogKinds{
    {"mooncake", RequestLogKind::mooncake}, {"azure", RequestLogKind::azure},
    {"burstgpt", RequestLogKind::burstgpt}, {"benchmark", RequestLogKind::benchmark},
    {"log", RequestLogKind::log},           {"lengths", RequestLogKind::lengths},
    {"sharegpt", RequestLogKind::sharegpt}, {"bailian", RequestLogKind::bailian},
    {"servegen", RequestLogKind::servegen}};
const std::map<std::string, double> kTimeUnits{{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}};

struct RequestImportArguments {
  std::string input, out;
  RequestImport how;
  RequestCut cut;
  std::int64_t shuffle = -1;  // seed; negative: none
};

void add_request_cut(CLI::App& command, RequestImportArguments& options) {
  command.add_option("--from", options.cut.from_s, "Keep requests from this second of the log on")
      ->check(number_from(0, kLatestArrival));
  command.add_option("--until", options.cut.until_s, "Keep requests that come before this second")
      ->check(number_from(0, kLatestArrival));
  command.add_option("--skip", options.cut.skip, "Leave out so many requests at the beginning")
      ->check(number_from(0, 0x1p40));
  command.add_option("--requests", options.cut.count, "Keep so many at most")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command
      .add_option("--shuffle", options.shuffle,
                  "Seed: give the requests' lengths to each other's arrivals, in random order")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
}

/// Options that the kind of input has no use for.
void check_used(const CLI::App& command, RequestLogKind kind) {
  Problems problems;
  for (const char* option : {"--arrival", "--arrival-unit", "--prompt", "--output"})
    if (kind != RequestLogKind::lengths && command.count(option) > 0)
      problems.add({option, 0, 0,
                    "is of kind 'lengths' alone: inputs of other kinds have columns or keys of known "
                    "names; leave it out"});
  for (const char* option : {"--characters-per-token", "--conversations-per-s", "--turn-gap"})
    if (kind != RequestLogKind::sharegpt && command.count(option) > 0)
      problems.add(
          {option, 0, 0,
           "is of kind 'sharegpt' alone: inputs of other kinds say lengths in tokens; leave it out"});
  if (kind == RequestLogKind::log && command.count("--skip-failed") > 0)
    problems.add({"--skip-failed", 0, 0,
                  "leaves out requests without output, and in a request log each has some; leave it out"});
  problems.throw_if_any();
}

/// What the file did not say.
void print_made_up(const ShareGptImport& how, std::uint64_t conversations) {
  std::cout << "of " << conversations << (conversations == 1 ? " conversation" : " conversations")
            << "; a token is taken to be " << shortest_text(how.characters_per_token) << " characters\n"
            << "arrivals are made up: conversations begin at " << shortest_text(how.conversations_per_s)
            << " a second, turns come " << shortest_text(how.turn_gap_s)
            << " s apart; a workload's 'rate' stretches both\n";
}

void import_log(RequestImportArguments options) {
  check_outputs({options.out}, {options.input});
  if (options.cut.from_s >= options.cut.until_s)
    throw InputError("--until", "is not behind --from; expected a later second");
  ImportedRequests made = import_requests(options.input, options.how, terminal_progress(options.input));
  if (options.shuffle >= 0) options.cut.shuffle_seed = static_cast<std::uint64_t>(options.shuffle);
  const std::size_t all = made.requests.size();
  const std::vector<RequestRecord> kept = cut_requests(made.requests, options.cut);
  if (kept.empty())
    throw InputError(options.input, "none of its " + std::to_string(all) +
                                        " requests is left by --from, --until and --skip");
  write_request_log(kept, options.out);
  std::cout << options.out << ": " << kept.size();
  if (kept.size() < all) std::cout << " of " << all;
  std::cout << " requests";
  if (made.skipped != 0) std::cout << ", " << made.skipped << " failed ones left out";
  std::cout << "\n";
  if (options.how.kind == RequestLogKind::sharegpt) print_made_up(options.how.sharegpt, made.conversations);
}

}  // namespace

void add_trace_import_requests(CLI::App& trace) {
  const auto options = std::make_shared<RequestImportArguments>();
  CLI::App* command =
      trace.add_subcommand("import-requests", "Make a request log of what other programs recorded");
  add_choice(
      *command, "KIND", options->how.kind, kLogKinds,
      "What the input is; benchmark: JSON of vLLM's or SGLang's serving benchmark; sharegpt: conversations "
      "as texts; log: a request log; lengths: CSV, columns by options")
      ->required();
  command->add_option("INPUT", options->input, "File to read; .gz is unpacked on the way")->required();
  command->add_option("--out", options->out, "CSV file to write")->required()->check(names_a_file);
  command->add_option("--arrival", options->how.arrival,
                      "lengths: column of the arrival; none: all come at 0");
  add_choice(*command, "--arrival-unit", options->how.arrival_units_per_s, kTimeUnits, "lengths: its unit")
      ->default_str("s");
  command->add_option("--prompt", options->how.prompt, "lengths: column of the prompt's tokens")
      ->capture_default_str();
  command->add_option("--output", options->how.output, "lengths: column of the output's tokens")
      ->capture_default_str();
  command
      ->add_option(
          "--characters-per-token", options->how.sharegpt.characters_per_token,
          "sharegpt: how many characters a token has, by which lengths are counted; 4.38 by Qwen3.5's "
          "tokenizer, 3.88 by GPT-2's")
      ->check(number_from(0.1, 100))
      ->capture_default_str();
  command
      ->add_option("--conversations-per-s", options->how.sharegpt.conversations_per_s,
                   "sharegpt: conversations that begin a second")
      ->check(number_from(1e-3, 1e6))
      ->capture_default_str();
  command
      ->add_option("--turn-gap", options->how.sharegpt.turn_gap_s,
                   "sharegpt: seconds from a request of a conversation to its next")
      ->check(number_from(0, 1e6))
      ->capture_default_str();
  command->add_flag("--skip-failed", options->how.skip_failed, "Leave out requests without output");
  add_example(*command,
              "moelab trace import-requests azure AzureLLMInferenceTrace_conv.csv --out requests.csv");
  add_request_cut(*command, *options);
  command->callback([options, command] {
    check_used(*command, options->how.kind);
    import_log(*options);
  });
}

}  // namespace moelab::cli
