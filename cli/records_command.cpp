// moelab records: what validations found on many machines, as one table.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "hw/validate/machine_record_table.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

struct RecordsArguments {
  std::vector<std::string> paths;
  std::string format = "table";
};

/// Of a folder those of its files that end in .json, by name.
std::vector<std::string> files_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  if (error) throw InputError(path, "cannot be read: " + error.message());
  if (files.empty())
    throw InputError(path, "has no file that ends in .json; 'moelab validate --record FILE' writes one");
  std::sort(files.begin(), files.end());
  return files;
}

void show(const RecordsArguments& options) {
  std::vector<MachineRecord> records;
  for (const std::string& path : options.paths)
    for (const std::string& file : files_of(path)) records.push_back(read_machine_record(file));
  if (options.format != "json") {
    std::cout << machine_records_report(records, text_form(options.format));
    return;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const MachineRecord& record : records)
    all.push_back(nlohmann::ordered_json::parse(machine_record_json(record)));
  std::cout << json_text(all);
}

}  // namespace

void add_records(CLI::App& program) {
  const auto options = std::make_shared<RecordsArguments>();
  CLI::App* command = program.add_subcommand(
      "records",
      "How far the simulator was from machines: what 'moelab validate --record' wrote on them, as one table");
  command
      ->add_option("PATH", options->paths,
                   "Records, or folders of which all files that end in .json are some")
      ->required()
      ->check(names_a_file);
  add_text_format(*command, options->format);
  add_example(*command,
              "moelab validate --device here.yaml --record out/records/here.json\n"
              "  moelab records out/records");
  command->callback([options] { show(*options); });
}

}  // namespace moelab::cli
