// moelab schema: JSON Schemas, with which editors complete and check files.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/json_schema.hpp"
#include "cli/layer_table.hpp"
#include "cli/wrapped_text.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

void list_kinds() {
  std::vector<std::vector<std::string>> rows = {{"kind", "of files that say"}};
  for (const FileKind& kind : kFileKinds) rows.push_back({std::string(kind.name), std::string(kind.title)});
  std::cout << wrapped_table(rows, output_width());
}

void print_schema(const std::string& kind, const std::string& file) {
  std::vector<std::string> known;
  for (const FileKind& one : kFileKinds) known.emplace_back(one.name);
  if (std::find(known.begin(), known.end(), kind) == known.end())
    throw InputError("moelab schema", "no kind of files '" + kind + "'" + suggestion(kind, known) +
                                          "; `moelab schema` lists those that have a schema");
  const std::string text = json_text(json_schema(kind, key_table()));
  if (file.empty())
    std::cout << text;
  else
    write_outputs({{file, text}});
}

/// Each kind's in the folder, as KIND.schema.json.
void write_schemas(const std::filesystem::path& folder) {
  std::error_code wrong;
  std::filesystem::create_directories(folder, wrong);
  if (wrong) throw InputError(folder.string(), "cannot be made: " + wrong.message());
  const std::vector<KeyRow> table = key_table();
  std::vector<std::pair<std::string, std::string>> files;
  for (const FileKind& kind : kFileKinds)
    files.emplace_back((folder / (std::string(kind.name) + ".schema.json")).string(),
                       json_text(json_schema(kind.name, table)));
  write_outputs(files);
}

/// "scenario, system, ... or part"
std::string any_kind() {
  std::string text;
  for (const FileKind& kind : kFileKinds)
    text += (text.empty() ? "" : &kind == &kFileKinds.back() ? " or " : ", ") + std::string(kind.name);
  return text;
}

struct SchemaArguments {
  std::string kind;
  std::string file;  // or a folder
};

}  // namespace

void add_schema(CLI::App& program) {
  const auto arguments = std::make_shared<SchemaArguments>();
  CLI::App* command = program.add_subcommand(
      "schema", "Print the JSON Schema of a kind of files, for editors; without a kind: which there are");
  command->add_option(
      "KIND", arguments->kind,
      any_kind() +
          ". An editor with YAML's language server (VS Code: "
          "the extension YAML by Red Hat) takes the schema for a file that begins with the line: # "
          "yaml-language-server: "
          "$schema=scenario.schema.json");
  command
      ->add_option("--out", arguments->file,
                   "File to write it to; without KIND: folder to write all to, as KIND.schema.json")
      ->check(names_a_file);
  add_policy_library(*command);
  add_example(*command,
              "moelab schema scenario --out scenario.schema.json\n"
              "  moelab schema --out schemas                            # all of them\n"
              "  moelab schema system --policy-library ./libmine.so     # with policies of your own");
  command->callback([arguments] {
    if (!arguments->kind.empty()) return print_schema(arguments->kind, arguments->file);
    if (!arguments->file.empty()) return write_schemas(arguments->file);
    list_kinds();
  });
}

}  // namespace moelab::cli
