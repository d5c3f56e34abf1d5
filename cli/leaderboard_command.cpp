// moelab leaderboard: the policies that `moelab compare --leaderboard` measured, ranked.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/wrapped_text.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/units.hpp"
#include "policies/policy_families.hpp"
#include "sim/results/text_table.hpp"
#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/leaderboard_ranks.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LeaderboardArguments {
  std::string file;
  std::string format = "table";
};

/// The default of a parameter of a policy of moelab's own; nothing of one that this program has not.
std::optional<double> known_default(const LeaderboardLine& line, const std::string& parameter) {
  if (!line.library.starts_with("moelab ")) return std::nullopt;
  for (const PolicyFamily& family : policy_families())
    for (const PolicyInfo& info : family.policies)
      if (family.name == line.family && info.name == line.policy && info.library.empty())
        for (const PolicyParameter& p : info.parameters)
          if (p.name == parameter) return p.default_value;
  return std::nullopt;
}

/// "lru-k:k=3": with the parameters that are not known to be defaults.
std::string name_of(const LeaderboardLine& line) {
  std::string name = line.policy;
  for (const auto& [parameter, value] : line.parameters)
    if (known_default(line, parameter) != value) name += ":" + parameter + "=" + shortest_text(value);
  return name;
}

/// To the microsecond.
std::string in_unit(double seconds, JudgedBy by) {
  const double per_second = judged_words(by).per_second;
  return fixed(per_second * seconds, 6 - static_cast<int>(std::lround(std::log10(per_second))));
}

std::string seeds_text(const LeaderboardLine& line) {
  return line.seeds == 1 ? "seed " + std::to_string(line.first_seed)
                         : "seeds " + std::to_string(line.first_seed) + " to " +
                               std::to_string(line.first_seed + line.seeds - 1);
}

std::string heading(const LeaderboardLine& line) {
  const std::string routing = !line.trace.empty() ? ", " + line.trace
                              : !line.law.empty() ? ", law " + line.law
                                                  : "";
  return one_line(line.family + " policies in " + line.scenario + ", system " + line.system + ": " +
                  line.model + " on " + line.device + routing + ", " + to_string(Bytes(line.budget_bytes)) +
                  ", " + seeds_text(line) + " (setting " + line.setting.substr(0, 8) + ")");
}

std::string rank_text(const PairedRank& rank) {
  if (!rank.best_rank || *rank.best_rank == *rank.worst_rank) return std::to_string(rank.rank);
  return std::to_string(*rank.best_rank) + "-" + std::to_string(*rank.worst_rank);
}

std::string behind_text(const PairedRank& rank, JudgedBy by) {
  if (rank.place == 1) return "-";
  return in_unit(rank.behind.mean, by) + (rank.best_rank ? " ± " + in_unit(rank.behind.half_width, by) : "");
}

std::vector<std::string> row_of(const LeaderboardLine& line, const PairedRank* rank) {
  return {name_of(line),
          line.library,
          line.date.substr(0, 10),
          rank == nullptr ? "bound" : rank_text(*rank),
          in_unit(line.mean_s, line.by) + " ± " + in_unit(line.half_width_s, line.by),
          rank == nullptr ? "-" : behind_text(*rank, line.by),
          line.hit_share ? fixed(100 * *line.hit_share, 1) : "-",
          line.regret_s ? in_unit(*line.regret_s, line.by) : "-",
          rank == nullptr   ? ""
          : rank->rank == 1 ? "best"
          : rank->noise()   ? "noise"
                            : ""};
}

/// Versions of the program by which the setting's lines were measured: another one may compute other times.
std::string versions_note(const RankedSetting& setting) {
  std::vector<std::string> versions;
  const auto add = [&](const LeaderboardLine& line) {
    if (std::find(versions.begin(), versions.end(), line.moelab) == versions.end())
      versions.push_back(line.moelab);
  };
  for (const RankedLine& one : setting.rivals) add(one.line);
  for (const LeaderboardLine& line : setting.bounds) add(line);
  if (versions.size() == 1) return "";
  std::string text = "measured by several versions of moelab, which may compute other times:";
  for (const std::string& version : versions) text += " " + version;
  return text + "\n";
}

std::string setting_table(const RankedSetting& setting) {
  const LeaderboardLine& first =
      setting.rivals.empty() ? setting.bounds.front() : setting.rivals.front().line;
  const JudgedWords& words = judged_words(first.by);
  const std::string unit(words.unit);
  std::vector<std::vector<std::string>> rows = {
      {"policy", "library", "date", "rank", std::string(words.name) + " " + unit, "behind the best",
       std::string(compared_family(first.family).hits()) + " %", "regret " + unit, ""}};
  for (const RankedLine& one : setting.rivals) rows.push_back(row_of(one.line, &one.rank));
  for (const LeaderboardLine& line : setting.bounds) rows.push_back(row_of(line, nullptr));
  return heading(first) + "\n" + align_columns(rows, 3, line_width()) + versions_note(setting);
}

Json line_json(const LeaderboardLine& line) {
  return Json::parse(leaderboard_text(line));
}

Json setting_json(const RankedSetting& setting) {
  Json rivals = Json::array(), bounds = Json::array();
  for (const RankedLine& one : setting.rivals) {
    Json json = {{"rank", one.rank.rank}, {"behind_best_s", one.rank.behind.mean}};
    if (one.rank.best_rank) {
      json["behind_best_half_width_s"] = one.rank.behind.half_width;
      json["ranks"] = {*one.rank.best_rank, *one.rank.worst_rank};
      json["noise"] = one.rank.place > 1 && one.rank.noise();
    }
    json["line"] = line_json(one.line);
    rivals.push_back(json);
  }
  for (const LeaderboardLine& line : setting.bounds) bounds.push_back(line_json(line));
  return {{"rivals", rivals}, {"bounds", bounds}};
}

void show(const LeaderboardArguments& options) {
  const std::vector<RankedSetting> settings = rank_leaderboard(read_leaderboard(options.file));
  if (options.format == "json") {
    Json all = Json::array();
    for (const RankedSetting& setting : settings) all.push_back(setting_json(setting));
    std::cout << json_text({{"settings", all}});
    return;
  }
  if (settings.empty()) std::cout << "no lines; 'moelab compare --leaderboard FILE' appends some\n";
  for (std::size_t i = 0; i < settings.size(); ++i)
    std::cout << (i > 0 ? "\n" : "") << setting_table(settings[i]);
  if (!settings.empty())
    std::cout << "\nbehind the best: mean of differences seed by seed ± half of their 95 % interval "
                 "(Student's t), each\nfor itself; noise: it holds 0; regret: to the bound that was run "
                 "beside\n";
}

}  // namespace

void add_leaderboard(CLI::App& program) {
  const auto options = std::make_shared<LeaderboardArguments>();
  CLI::App* command = program.add_subcommand(
      "leaderboard",
      "The policies of a leaderboard, ranked: those that were measured in the same setting, at the same "
      "budget and with the same seeds. Of a policy measured again the latest line counts");
  command->add_option("FILE", options->file, "Leaderboard that 'moelab compare --leaderboard' appended to")
      ->required()
      ->check(names_a_file);
  add_format(*command, options->format);
  add_example(
      *command,
      "moelab compare zipmoe-orin --system zipmoe-lru --cache lru,sieve --leaderboard out/board.jsonl\n"
      "  moelab leaderboard out/board.jsonl");
  command->callback([options] { show(*options); });
}

}  // namespace moelab::cli
