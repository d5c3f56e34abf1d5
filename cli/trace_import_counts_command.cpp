// moelab trace import counts | counts-raw | counts-npy | counts-pt | eplb | imatrix: what is not routing
// token by token. And the options that importing commands share.
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/import_inputs.hpp"
#include "cli/import_progress.hpp"
#include "cli/trace_import_options.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/import/counts_import.hpp"

namespace moelab::cli {
namespace {

void write_table(const ImportOptions& options, const CountsTable& table) {
  write_counts(table, options.target);
  std::cout << options.target.out.string() << ": " << table.prompts << " prompts, " << table.layers
            << " layers, " << table.experts << " experts\n";
}

std::vector<std::pair<std::string, std::string>> pairs(const char* option,
                                                       const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& text : texts) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at == 0) throw InputError(option, "expected COLUMN=VALUE, found " + text);
    result.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
  return result;
}

void add_counts(CLI::App& import) {
  struct TraceImportCountsArguments : ImportOptions {
    CountColumns columns;
    std::vector<std::string> where, except;
  };
  const auto options = std::make_shared<TraceImportCountsArguments>();
  CLI::App* command = import.add_subcommand("counts", "A table of how often each expert was used");
  add_import_identity(*command, *options);
  command->add_option("--prompt", options->columns.prompt, "Columns that together say which prompt, A,B,...")
      ->delimiter(',');
  command->add_option("--layer", options->columns.layer, "Column of the layer's number")->required();
  command->add_option("--expert", options->columns.expert, "Column of the expert's number");
  command->add_option("--count", options->columns.count, "Column of the count");
  command
      ->add_option("--expert-columns", options->columns.experts, "Instead: a column for each expert, A,B,...")
      ->delimiter(',');
  command->add_option("--experts", options->columns.expert_count, "Routed experts a layer");
  command->add_flag("--sparse", options->columns.sparse,
                    "Experts without a row were never used, also where the last layer alone lacks some");
  command->add_option("--where", options->where, "COLUMN=VALUE: only rows with that value; may be repeated")
      ->take_all();
  command->add_option("--except", options->except, "COLUMN=VALUE: no rows with that value; may be repeated")
      ->take_all();
  command
      ->add_option("--scale", options->columns.scale,
                   "Multiply numbers by this and then expect whole ones: 10000 for shares of four decimals")
      ->check(is_above_zero);
  command->add_option("--top-k", options->target.top_k, "Experts a token, where known");
  add_example(
      *command,
      "moelab trace import counts counts.csv --prompt family --layer layer --expert expert --count count "
      "--experts 128 --out counts.safetensors");
  command->callback([options] {
    begin_import(*options);
    if (options->columns.experts.empty() ==
        (options->columns.expert.empty() || options->columns.count.empty()))
      throw InputError("--expert and --count", "must both be given, or --expert-columns instead");
    options->columns.where = pairs("--where", options->where);
    options->columns.except = pairs("--except", options->except);
    write_table(*options,
                import_counts_csv(options->input, options->columns, terminal_progress(options->input)));
  });
}

void add_counts_raw(CLI::App& import) {
  struct TraceImportCountsArguments : ImportOptions {
    RawCounts how;
  };
  const auto options = std::make_shared<TraceImportCountsArguments>();
  CLI::App* command =
      import.add_subcommand("counts-raw", "Counts as numbers without a header, [prompts, layers, experts]");
  add_import_identity(*command, *options);
  add_number_type(*command, "--type", options->how.type, "Type of the numbers", "u2");
  command->add_option("--layers", options->how.layers, "Layers")->required();
  command->add_option("--experts", options->how.experts, "Routed experts a layer")->required();
  command->add_option("--index", options->how.index, "CSV with a row for each group of prompts, in order")
      ->required();
  command->add_option("--index-prompts", options->how.prompts, "Its column: number of prompts")->required();
  command->add_option("--index-domain", options->how.domain, "Its column: kind of prompt");
  command->add_option("--top-k", options->target.top_k, "Experts a token, where known");
  add_example(
      *command,
      "moelab trace import counts-raw use.u16.gz --layers 32 --experts 8 --index index.csv --index-prompts "
      "questions --index-domain subject --out counts.safetensors");
  command->callback([options] {
    begin_import(*options, {options->how.index});
    write_table(*options, import_counts_raw(options->input, options->how, terminal_progress(options->input)));
  });
}

/// Counts of all files that INPUT means, a prompt or several each.
void write_tables(const ImportOptions& options,
                  const std::function<CountsTable(const std::string& input)>& read) {
  const std::vector<std::string> files = input_files(options.input);
  CountsTable table;
  for (const std::string& file : files) append_counts(table, read(file), file, files.front());
  write_table(options, table);
}

void add_counts_file(CLI::App& import, const std::string& name, const std::string& help,
                     CountsTable (*read)(const std::filesystem::path&, const Progress&)) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* command = import.add_subcommand(name, help);
  add_import_identity(*command, *options);
  command->add_option("--top-k", options->target.top_k, "Experts a token, where known");
  add_example(*command, "moelab trace import " + name + " INPUT --out counts.safetensors");
  command->callback([options, read] {
    begin_import(*options);
    write_tables(*options, [&](const std::string& input) { return read(input, terminal_progress(input)); });
  });
}

void add_counts_torch(CLI::App& import) {
  struct TorchArguments : ImportOptions {
    std::string tensor;
  };
  const auto options = std::make_shared<TorchArguments>();
  CLI::App* command = import.add_subcommand(
      "counts-pt",
      "Counts from files of torch.save (.pt), [layers, experts] or [prompts, layers, experts] each");
  add_import_identity(*command, *options);
  command->add_option("--tensor", options->tensor,
                      "Name of the tensor, where the file is a dictionary of several");
  command->add_option("--top-k", options->target.top_k, "Experts a token, where known");
  add_example(*command, "moelab trace import counts-pt \"counts/prompt-*.pt\" --out counts.safetensors");
  command->callback([options] {
    begin_import(*options);
    write_tables(*options,
                 [&](const std::string& input) { return import_counts_torch(input, options->tensor); });
  });
}

}  // namespace

void add_import_identity(CLI::App& command, ImportOptions& options) {
  command
      .add_option("INPUT", options.input,
                  "File to read; .gz is unpacked on the way. '*' and '?' in its name: all that match, as one")
      ->required();
  command.add_option("--out", options.target.out, "File to write; it appears when all of the input was good")
      ->required()
      ->check(names_a_file);
  command.add_option("--model", options.target.model, "Identity of the model, such as openai/gpt-oss-20b");
  command.add_option("--provenance", options.target.provenance,
                     "How the input came to be; its file's name where not given");
  command.add_flag("--synthetic", options.target.synthetic, "The input was made up, not recorded");
}

void begin_import(ImportOptions& options, std::vector<std::string> more_inputs) {
  for (std::string& file : input_files(options.input)) more_inputs.push_back(std::move(file));
  check_outputs({options.target.out.string()}, more_inputs);
  if (!options.target.provenance.empty()) return;
  // In quotes, and of a name that is not UTF-8 what is.
  const nlohmann::json name = std::filesystem::path(options.input).filename().string();
  options.target.provenance =
      "imported from " + name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void add_import_options(CLI::App& command, ImportOptions& options, bool experts_required) {
  add_import_identity(command, options);
  command.add_option("--experts", options.target.experts, "Routed experts a layer")
      ->required(experts_required);
  command.add_option("--layers", options.target.layers, "Layers, where they are to be checked");
  command.add_option("--top-k", options.target.top_k,
                     "Experts a token and layer, where they are to be checked");
  command
      .add_option("--skip-layers", options.target.skip_layers, "Layers of the input to leave out: 0,1,...")
      ->delimiter(',');
}

void add_number_type(CLI::App& command, const std::string& option, NpyType& type, const std::string& help,
                     const std::string& usual) {
  std::map<std::string, NpyType> types;
  for (int i = 0; i <= static_cast<int>(NpyType::bf16); ++i)
    types.emplace(name_of(static_cast<NpyType>(i)), static_cast<NpyType>(i));
  add_choice(command, option, type, types, help)->default_str(usual);
}

void add_trace_import_counts(CLI::App& import) {
  add_counts(import);
  add_counts_raw(import);
  add_counts_file(import, "counts-npy",
                  "Counts as a NumPy array [prompts, layers, experts] or [layers, experts]",
                  import_counts_npy);
  add_counts_file(
      import, "eplb", "Counts as JSON, as expert-parallel load balancers read them (logical_count)",
      [](const std::filesystem::path& input, const Progress&) { return import_counts_json(input); });
  add_counts_torch(import);
  add_counts_file(
      import, "imatrix",
      "Counts of experts in an importance matrix of llama.cpp (llama-imatrix --output-format gguf)",
      [](const std::filesystem::path& input, const Progress&) { return import_counts_imatrix(input); });
}

}  // namespace moelab::cli
