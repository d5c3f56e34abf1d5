// moelab trace import: make a routing trace of what other programs recorded.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/import_inputs.hpp"
#include "cli/import_progress.hpp"
#include "cli/trace_import_options.hpp"
#include "models/input_error.hpp"
#include "traces/import/array_import.hpp"
#include "traces/import/sglang_import.hpp"
#include "traces/import/table_import.hpp"

namespace moelab::cli {
namespace {

constexpr const char* kAllPhases = "Phase of every token where none is given";
const std::map<std::string, Phase> kPhases{
    {"prefill", Phase::prefill}, {"decode", Phase::decode}, {"encoder", Phase::encoder}};
const std::map<std::string, RouterScores> kRouterScores{
    {"logits", RouterScores::logits}, {"softmax", RouterScores::softmax}, {"sigmoid", RouterScores::sigmoid}};

/// How much came in, and of which phases. `phase_options`: which options say that a row is a prompt's.
void say(const ImportOptions& options, const ImportCounts& counts, const std::string& phase_options) {
  std::cout << options.target.out.string() << ": " << counts.tokens << " tokens";
  if (counts.prompt_tokens > 0)
    std::cout << ", " << counts.prompt_tokens << " of them of prompts\n";
  else
    std::cout
        << "\nno row is a prompt's, all are of the phase decode, so that a run's TTFT is of one generated "
           "token; where there are prompts, expected "
        << phase_options << "\n";
}

constexpr const char* kPhaseOfRows = "--phase, or --all-phases prefill";

/// Without it a table of many requests would be one long one without a word.
void say_one_request(const RowNames& names, bool one_file) {
  if (names.request.empty())
    std::cout << "all tokens" << (one_file ? "" : " of a file")
              << " are one request: no column says which request a row is of; where there are several, "
                 "expected its name in --request\n";
}

struct TableOptions : ImportOptions {
  RowNames names;
  std::string delimiter = ",";
};

void add_table_options(CLI::App& command, TableOptions& options, const char* column) {
  const std::string of(column);
  command.add_option("--request", options.names.request, of + " that says which request; none: all is one");
  command.add_option("--token", options.names.token,
                     of + " of the token's number, counting up in a request; CSV without it: a token begins "
                          "where the layers do");
  command.add_option("--layer", options.names.layer, of + " of the layer's number");
  command
      .add_option(
          "--expert", options.names.experts,
          of + " of the expert's number, or of a list by falling score; or several, A,B,..., one a rank")
      ->delimiter(',')
      ->required();
  command.add_option("--score", options.names.scores, of + " of the gate's score, in the form of --expert")
      ->delimiter(',');
  command.add_option("--rank", options.names.rank, of + " of the expert's rank, from 0, to be checked");
  command.add_option("--phase", options.names.phase, of + " of the phase: prefill, decode or encoder");
  command.add_option("--domain", options.names.domain,
                     of + " of the kind of prompt; the input is read twice");
  add_choice(command, "--all-phases", options.names.all_phases, kPhases, kAllPhases)->default_str("decode");
}

void add_csv(CLI::App& import) {
  const auto options = std::make_shared<TableOptions>();
  CLI::App* command = import.add_subcommand(
      "csv", "A table with a row for each (token, layer, expert), or for each (token, layer) with a list");
  add_import_options(*command, *options);
  add_table_options(*command, *options, "Column");
  command->add_flag(
      "--any-order", options->names.any_order,
      "Rows in any order, layer by layer say: held in memory and sorted by request, token, layer, rank");
  command->add_option("--delimiter", options->delimiter, "What stands between fields; 'tab' for a tabulator")
      ->default_str(",");
  add_example(
      *command,
      "moelab trace import csv routing.csv --request request --token token --layer layer --expert expert "
      "--score weight --experts 64 --out routing.safetensors");
  command->callback([options] {
    if (options->delimiter == "tab") options->delimiter = "\t";
    if (options->delimiter.size() != 1) throw InputError("--delimiter", "must be one character, or 'tab'");
    begin_import(*options);
    const ImportCounts counts =
        import_files(*options, [&](const std::string& input, const ImportTarget& target) {
          return import_routing_csv(input, options->names, target, options->delimiter.front(),
                                    terminal_progress(input));
        });
    say(*options, counts, kPhaseOfRows);
    say_one_request(options->names, input_files(options->input).size() == 1);
  });
}

void add_jsonl(CLI::App& import) {
  const auto options = std::make_shared<TableOptions>();
  CLI::App* command = import.add_subcommand(
      "jsonl",
      "JSON lines: an expert, a (token, layer), a token [layers][k] or a request [tokens][layers][k] each");
  add_import_options(*command, *options);
  add_table_options(*command, *options, "Name (a.b for a name within)");
  command->add_option("--prompt-tokens", options->names.prompt_tokens,
                      "Name of the number of prefill tokens, where a line is a request");
  add_example(
      *command,
      "moelab trace import jsonl routing.jsonl --expert experts --prompt-tokens prompt --experts 64 --out "
      "routing.safetensors");
  command->callback([options] {
    begin_import(*options);
    const ImportCounts counts =
        import_files(*options, [&](const std::string& input, const ImportTarget& target) {
          return import_routing_jsonl(input, options->names, target, terminal_progress(input));
        });
    say(*options, counts, std::string("--prompt-tokens, ") + kPhaseOfRows);
  });
}

struct ArrayOptions : ImportOptions {
  ArrayNames names;
  std::uint64_t tokens = 0;
};

void add_index_options(CLI::App& command, RequestIndex& index) {
  command.add_option("--index", index.file, "CSV with a row for each request, in the order of the arrays");
  command.add_option("--index-tokens", index.tokens, "Its column: rows of routing of the request");
  command.add_option("--index-prompt-tokens", index.prompt_tokens,
                     "Its column: how many of them are prefill");
  command.add_option("--index-domain", index.domain, "Its column: kind of prompt");
  command.add_option("--index-ids-offset", index.ids_offset,
                     "Its column: byte where the ids begin, to be checked");
  command.add_option("--index-scores-offset", index.scores_offset,
                     "Its column: byte where the scores begin, to be checked; -1: the request has none");
  command.add_flag("--scored-only", index.scored_only, "Leave out requests that have no scores");
}

void add_arrays(CLI::App& import, ArrayKind kind, const std::string& name, const std::string& help,
                const std::string& example) {
  const auto options = std::make_shared<ArrayOptions>();
  CLI::App* command = import.add_subcommand(name, help);
  add_import_options(*command, *options);
  const std::string array = kind == ArrayKind::npz ? "Array" : "File";
  if (kind == ArrayKind::npz)
    command->add_option("--ids", options->names.ids, "Array of expert ids [tokens, layers, k]")->required();
  command->add_option("--scores", options->names.scores, array + " of the gate's scores [tokens, layers, k]");
  if (kind != ArrayKind::raw) {
    command->add_option("--router-scores", options->names.router_scores,
                        array + " of the router's scores of all experts [tokens, layers, experts]");
    add_choice(*command, "--router-kind", options->target.router_scores, kRouterScores, "What those are");
    command->add_option("--offsets", options->names.offsets,
                        array + " of the requests' first rows [requests + 1]");
    command->add_option("--phases", options->names.phases,
                        array + " of phases [tokens]: 0 encoder, 1 prefill, 2 decode");
    command->add_flag("--bf16", options->names.scores_bf16, "Scores of type u2 are bfloat16");
  } else {
    add_number_type(*command, "--type", options->names.ids_type, "Type of the ids", "u1");
    add_number_type(*command, "--scores-type", options->names.scores_type, "Type of the scores", "f4");
    command->add_option("--tokens", options->tokens, "Rows of routing, where there is no index");
  }
  add_index_options(*command, options->names.index);
  add_choice(*command, "--all-phases", options->names.all_phases, kPhases, kAllPhases)->default_str("decode");
  add_example(*command, example);
  command->callback([options, kind] {
    std::vector<std::string> inputs{options->names.index.file};
    if (kind != ArrayKind::npz)  // whose names are of arrays within
      for (const std::string* more : {&options->names.scores, &options->names.router_scores,
                                      &options->names.offsets, &options->names.phases})
        inputs.push_back(*more);
    begin_import(*options, inputs);
    if (options->names.router_scores.empty() != (options->target.router_scores == RouterScores::none))
      throw InputError("--router-scores and --router-kind", "must be given together");
    if (options->tokens != 0) options->names.tokens = options->tokens;
    const std::vector<std::string> files = input_files(options->input);
    const bool beside =
        std::any_of(inputs.begin(), inputs.end(), [](const std::string& file) { return !file.empty(); });
    if (files.size() > 1 && beside)
      throw InputError(options->input,
                       "is " + std::to_string(files.size()) +
                           " files, and scores, offsets, phases or an index in a file of their own belong "
                           "to one; import them one by one and put them together (moelab trace merge)");
    const ImportCounts counts =
        import_files(*options, [&](const std::string& input, const ImportTarget& target) {
          return import_arrays(kind, input, options->names, target, terminal_progress(input));
        });
    say(*options, counts,
        kind == ArrayKind::raw ? "--index-prompt-tokens, or --all-phases prefill"
                               : "--phases, --index-prompt-tokens, or --all-phases prefill");
  });
}

void add_vllm(CLI::App& import) {
  struct VllmOptions : ImportOptions {
    bool drop_last = false;
  };
  const auto options = std::make_shared<VllmOptions>();
  CLI::App* command = import.add_subcommand(
      "vllm", "Responses of vLLM served with --enable-return-routed-experts, one a line as JSON");
  add_import_options(*command, *options);
  command->add_flag("--drop-last", options->drop_last,
                    "Leave out the last row of each choice, where it stands for a token that was never run");
  add_example(*command, "moelab trace import vllm responses.jsonl --experts 128 --out routing.safetensors");
  command->callback([options] {
    begin_import(*options);
    const ImportCounts counts =
        import_files(*options, [&](const std::string& input, const ImportTarget& target) {
          return import_vllm(input, target, options->drop_last, terminal_progress(input));
        });
    say(*options, counts, "usage.prompt_tokens above 0 in the responses");
  });
}

void add_sglang(CLI::App& import) {
  struct SglangOptions : ImportOptions {
    bool per_pass = false;
  };
  const auto options = std::make_shared<SglangOptions>();
  CLI::App* command = import.add_subcommand(
      "sglang", "Recordings (.pt) of SGLang's expert distribution recorder: per_token, per_pass, stat");
  add_import_options(*command, *options, false);
  command->add_flag("--pass-is-request", options->per_pass,
                    "Make a request of each forward pass: the recording does not say which tokens of a batch "
                    "belong together");
  add_example(*command,
              "moelab trace import sglang expert_distribution_recorder_1.pt --out routing.safetensors");
  command->callback([options] {
    begin_import(*options);
    const SglangImported made = import_sglang(options->input, options->target, options->per_pass);
    std::cout << options->target.out.string() << ": " << made.amount
              << (made.counts ? " sets of counts\n" : " tokens\n");
  });
}

}  // namespace

void add_trace_import(CLI::App& trace) {
  CLI::App* import = trace.add_subcommand("import", "Make a trace of what other programs recorded");
  add_example(*import, "moelab trace import vllm responses.jsonl --experts 128 --out routing.safetensors");
  import->require_subcommand(1);
  add_csv(*import);
  add_jsonl(*import);
  add_arrays(*import, ArrayKind::npy, "npy", "A NumPy array of expert ids, others in files of their own",
             "moelab trace import npy ids.npy --scores scores.npy --experts 64 --out routing.safetensors");
  add_arrays(
      *import, ArrayKind::npz, "npz", "Arrays by name from a NumPy archive",
      "moelab trace import npz capture.npz --ids expert_ids --offsets request_offsets --experts 64 --out "
      "routing.safetensors");
  add_arrays(
      *import, ArrayKind::raw, "raw", "Numbers without a header, shapes by options",
      "moelab trace import raw ids.u8.gz --layers 24 --top-k 4 --experts 32 --index index.csv --index-tokens "
      "routed_tokens --out routing.safetensors");
  add_vllm(*import);
  add_sglang(*import);
  add_trace_import_counts(*import);
  add_trace_import_requests(trace);
}

}  // namespace moelab::cli
