// moelab scenarios, moelab sweeps: the questions that come with the program.
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/list_command.hpp"
#include "cli/wrapped_text.hpp"
#include "models/config_store.hpp"
#include "models/json.hpp"
#include "models/yaml_reader.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The first sentence of the comment that a file begins with.
std::string first_sentence(std::string_view text) {
  std::string comment;
  while (text.starts_with('#')) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    comment += (comment.empty() ? "" : " ") + std::string(text.substr(2, end < 2 ? 0 : end - 2));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return comment.substr(0, comment.find(". "));
}

/// What a file of the kind says of itself.
struct Question {
  std::string name, question;
  Json document;
};

std::vector<Question> questions(const char* kind) {
  std::vector<Question> all;
  for (const std::string& name : config_names(kind)) {
    const ConfigText config = find_config(kind, name);
    Problems problems;
    const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
    std::string question = document.root().text("question", first_sentence(config.text));
    problems.throw_if_any();
    all.push_back({name, std::move(question), Json::parse(document.node().json())});
  }
  return all;
}

/// Names of what a document names, or that stands in it.
std::string name_at(const Json& document, const char* key) {
  if (!document.contains(key)) return "";
  const Json& value = document[key];
  return value.is_string() ? value.get<std::string>() : value.is_object() ? value.value("name", "") : "";
}

void print(const Json& all, const char* heading, const std::string& format) {
  if (format == "json") {
    std::cout << all.dump(2) << "\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{{heading, "question"}};
  for (const Json& one : all) rows.push_back({one["name"], one["question"]});
  std::cout << wrapped_table(rows, output_width());
}

void list_scenarios(const ListOptions& options) {
  Json all = Json::array();
  for (const Question& one : questions("scenarios")) {
    Json systems = Json::array();
    for (const Json& system : one.document["systems"])
      systems.push_back(system.is_string() ? system : system["name"]);
    Json row{{"name", one.name}, {"question", one.question}, {"model", name_at(one.document, "model")}};
    for (const char* key : {"device", "cluster"})
      if (one.document.contains(key)) row[key] = name_at(one.document, key);
    if (one.document.contains("machine")) row["machine"] = one.document["machine"];
    row["systems"] = systems;
    all.push_back(row);
  }
  print(all, "scenario", options.format);
}

void list_sweeps(const ListOptions& options) {
  Json all = Json::array();
  for (const Question& one : questions("sweeps"))
    all.push_back(
        {{"name", one.name}, {"question", one.question}, {"scenario", name_at(one.document, "scenario")}});
  print(all, "sweep", options.format);
}

}  // namespace

void add_scenarios(CLI::App& program) {
  add_list(program, "scenarios", "List the scenarios with the question that each answers (moelab run NAME)",
           list_scenarios);
}
void add_sweeps(CLI::App& program) {
  add_list(program, "sweeps", "List the sweeps with the question that each answers (moelab sweep NAME)",
           list_sweeps);
}

}  // namespace moelab::cli
