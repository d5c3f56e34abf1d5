#include "cli/residency_report.hpp"

#include <cmath>
#include <cstdlib>

#include "cli/layer_table.hpp"
#include "models/json.hpp"
#include "models/units.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

std::string percent(double share) {
  return fixed(100 * share, 1);
}

/// A tolerance as a person would write it: "2 %", "0.5 %".
std::string percents(double share) {
  std::string digits = fixed(100 * share, 3);
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return digits + " %";
}

std::string name_of(const ResidencyLevel& level) {
  return fixed(level.residency, 4);
}

std::string why_not(const ResidencyLevel& level) {
  return "does not fit: " +
         (level.refusal.empty() ? to_string(level.memory.shortfall) + " more" : one_line(level.refusal));
}

/// What a level was chosen as.
std::string marks(const ResidencyReport& r, std::size_t place) {
  std::string text;
  const auto add = [&](const std::optional<std::size_t>& chosen, const std::string& name) {
    if (chosen == place) text += (text.empty() ? "" : ", ") + name;
  };
  add(r.choice.knee, "knee");
  add(r.choice.best, "best");
  add(r.choice.leanest, "leanest");
  return text;
}

std::vector<std::string> row_of(const ResidencyReport& r, std::size_t place) {
  const ResidencyLevel& level = r.levels[place];
  if (!level.fits()) return {name_of(level), "-", "-", "-", "-", "-", "-", "-", "-", why_not(level)};
  return {name_of(level),
          fixed(level.memory.expert_cache.value() / 1e9, 2),
          std::to_string(level.memory.kv_blocks),
          fixed(level.tokens_per_s, 1),
          fixed(level.requests_a_step, 1),
          fixed(1e3 * level.step_s, 2),
          fixed(1e3 * level.resident_step_s, 2),
          percent(level.load_share),
          percent(level.swap_share),
          marks(r, place)};
}

/// "22.1 % more", "3.0 % fewer".
std::string change(double from, double to, const std::string& more, const std::string& less) {
  return percent(std::abs(to / from - 1)) + " % " + (to < from ? less : more);
}

std::string experts_at(const ResidencyReport& r, const ResidencyLevel& level) {
  return std::to_string(r.experts - level.offloaded) + " of a layer's " + std::to_string(r.experts) +
         " experts on '" + r.on_gpu + "'";
}

/// What giving up experts brings, in words.
std::string exchange(const ResidencyReport& r, const ResidencyLevel& level) {
  const ResidencyLevel& from = r.levels[*r.choice.highest];
  if (level.offloaded == from.offloaded) return fixed(level.tokens_per_s, 1) + " tokens/s";
  const auto blocks = static_cast<double>(from.memory.kv_blocks);
  const auto more =
      static_cast<std::int64_t>(level.memory.kv_blocks) - static_cast<std::int64_t>(from.memory.kv_blocks);
  return "give up " + percent(from.residency - level.residency) +
         " % of the experts: " + std::to_string(std::abs(more)) + (more < 0 ? " fewer" : " more") +
         " KV blocks (" + change(blocks, static_cast<double>(level.memory.kv_blocks), "more", "fewer") +
         "), " + change(from.tokens_per_s, level.tokens_per_s, "more", "fewer") +
         " tokens/s than at residency " + name_of(from);
}

std::string longer(const ResidencyReport& r, const ResidencyLevel& level) {
  return "a step takes " + fixed(level.slowdown(), 3) + " times as long as with all experts on '" + r.on_gpu +
         "'";
}

std::string knee_line(const ResidencyReport& r) {
  if (!r.choice.knee) {
    const ResidencyLevel& highest = r.levels[*r.choice.highest];
    return "knee: none; even at residency " + name_of(highest) + ", the highest that fits, " +
           longer(r, highest);
  }
  const ResidencyLevel& knee = r.levels[*r.choice.knee];
  std::string text =
      "knee: residency " + name_of(knee) + " (" + experts_at(r, knee) + "): " + exchange(r, knee) + "; ";
  if (!r.choice.past_knee) return text + "no level that was run is past it";
  const ResidencyLevel& past = r.levels[*r.choice.past_knee];
  return text + "at " + name_of(past) + " " + longer(r, past);
}

std::string verdict(const ResidencyReport& r) {
  if (!r.choice.best) return "no residency level fits\n";
  const ResidencyLevel& best = r.levels[*r.choice.best];
  const ResidencyLevel& leanest = r.levels[*r.choice.leanest];
  std::string text = knee_line(r) + "\n";
  text += "best: residency " + name_of(best);
  if (r.choice.best != r.choice.knee) text += " (" + experts_at(r, best) + "): " + exchange(r, best);
  text += "\nleanest: residency " + name_of(leanest) + ", the lowest within " + percents(r.tolerance) +
          " of the best's tokens/s";
  if (r.choice.leanest != r.choice.best && r.choice.leanest != r.choice.knee)
    text += ": " + exchange(r, leanest);
  text += "\n";
  const ResidencyLevel& highest = r.levels[*r.choice.highest];
  if (highest.offloaded == 0 && highest.load_share > r.tolerance)
    text += "note: with all experts on '" + r.on_gpu + "', making them ready is on the critical path for " +
            percent(highest.load_share) + " % of the time already; the knee is where it takes longer\n";
  return text;
}

std::string legend(const ResidencyReport& r) {
  const std::string gpu = "'" + r.on_gpu + "'";
  return "residency: share of the experts on " + gpu + ", in GPU memory; the others are on '" + r.off_gpu +
         "'\nstep: mean, with all requests there from the start; all on GPU: the same steps with all experts "
         "on " +
         gpu + ",\n  were there memory for them\n" +
         "loads, KV swap: of the time of all steps, with that on the critical path\n" +
         "knee: the lowest residency with steps at most " + percents(r.tolerance) +
         " longer than with all experts on " + gpu + ", as at all higher ones that fit\n";
}

Json json_of(const ResidencyLevel& level) {
  const MemoryPlan& m = level.memory;
  Json json{{"residency", level.residency},
            {"offloaded_experts_a_layer", level.offloaded},
            {"fits", level.fits()},
            {"shortfall_bytes", m.shortfall.value()},
            {"refusal", level.refusal.empty() ? Json() : Json(level.refusal)}};
  if (!level.refusal.empty()) return json;
  json["memory_bytes_a_gpu"] = {{"stored_experts", m.expert_cache.value()},
                                {"expert_window", m.staging.value()},
                                {"kv_cache", m.kv_cache.value()},
                                {"kv_block", m.kv_block.value()},
                                {"kv_blocks", m.kv_blocks},
                                {"host_experts", m.host_experts.value()}};
  if (!level.fits()) return json;
  json["tokens_per_s"] = level.tokens_per_s;
  json["requests_a_step"] = level.requests_a_step;
  json["load_share"] = level.load_share;
  json["kv_swap_share"] = level.swap_share;
  json["step_s"] = level.step_s;
  json["step_load_s"] = level.step_load_s;
  json["resident_step_s"] = level.resident_step_s;
  json["slowdown"] = level.slowdown();
  return json;
}

/// The residency of a level that was chosen; null where none was.
Json chosen(const ResidencyReport& r, const std::optional<std::size_t>& place) {
  return place ? Json(r.levels[*place].residency) : Json();
}

template <class Figure>
plot::Series over_levels(const ResidencyReport& r, const std::string& name, const Figure& figure) {
  plot::Series series{.name = name};
  for (const ResidencyLevel& level : r.levels) {
    if (!level.fits()) continue;
    series.x.push_back(level.residency);
    series.y.push_back(figure(level));
  }
  return series;
}

template <class Figure>
void add_marks(const ResidencyReport& r, const Figure& figure, plot::Panel& panel) {
  const auto add = [&](const std::optional<std::size_t>& place, const std::string& name) {
    if (!place) return;
    const ResidencyLevel& level = r.levels[*place];
    panel.series.push_back(
        {.name = name, .x = {level.residency}, .y = {figure(level)}, .mark = plot::Mark::dots});
  };
  add(r.choice.knee, "knee");
  add(r.choice.best, "best");
}

const plot::Axis kResidency{.label = "share of experts in GPU memory"};

plot::Panel speed_panel(const ResidencyReport& r) {
  const auto speed = [](const ResidencyLevel& level) { return level.tokens_per_s; };
  plot::Panel panel{.title = "Throughput",
                    .x = kResidency,
                    .y = {.label = "tokens/s"},
                    .series = {over_levels(r, "tokens/s", speed)}};
  add_marks(r, speed, panel);
  return panel;
}

plot::Panel step_panel(const ResidencyReport& r) {
  const auto step = [](const ResidencyLevel& level) { return level.step_s; };
  plot::Panel panel{.title = "Time of a step",
                    .x = kResidency,
                    .y = {.label = "time", .unit = "s"},
                    .series = {over_levels(r, "step", step),
                               over_levels(r, "all experts on the GPU",
                                           [](const ResidencyLevel& level) { return level.resident_step_s; }),
                               over_levels(r, "of it, loads on the critical path",
                                           [](const ResidencyLevel& level) { return level.step_load_s; })}};
  add_marks(r, step, panel);
  return panel;
}

plot::Panel memory_panel(const ResidencyReport& r) {
  return {
      .title = "Memory of a GPU",
      .x = kResidency,
      .y = {.label = "memory", .unit = "B"},
      .series = {over_levels(r, "experts",
                             [](const ResidencyLevel& level) { return level.memory.expert_cache.value(); }),
                 over_levels(r, "KV cache",
                             [](const ResidencyLevel& level) { return level.memory.kv_cache.value(); })}};
}

}  // namespace

std::string residency_table(const ResidencyReport& r) {
  Rows rows{{"residency", "experts GB", "KV blocks", "tokens/s", "requests a step", "step ms",
             "all on GPU ms", "loads %", "KV swap %", ""}};
  for (std::size_t i = 0; i < r.levels.size(); ++i) rows.push_back(row_of(r, i));
  std::string text = one_line(r.scenario + ", " + r.system + ", " + r.model) + "\n" + legend(r) + "\n" +
                     align_columns(rows, 0) + "\n" + verdict(r);
  for (const std::string& warning : r.warnings) text += "warning: " + one_line(warning) + "\n";
  return text;
}

std::string residency_json(const ResidencyReport& r) {
  Json levels = Json::array();
  for (const ResidencyLevel& level : r.levels) levels.push_back(json_of(level));
  return json_text({{"scenario", r.scenario},
                    {"system", r.system},
                    {"model", r.model},
                    {"on_gpu", r.on_gpu},
                    {"off_gpu", r.off_gpu},
                    {"experts_a_layer", r.experts},
                    {"tolerance", r.tolerance},
                    {"highest_residency", chosen(r, r.choice.highest)},
                    {"best_residency", chosen(r, r.choice.best)},
                    {"leanest_residency", chosen(r, r.choice.leanest)},
                    {"knee_residency", chosen(r, r.choice.knee)},
                    {"past_knee_residency", chosen(r, r.choice.past_knee)},
                    {"levels", levels},
                    {"warnings", r.warnings}});
}

plot::Figure residency_figure(const ResidencyReport& r) {
  plot::Figure figure{.title = r.system + ", " + r.model,
                      .caption = r.choice.best ? knee_line(r) : "no residency level fits",
                      .columns = 3};
  figure.panels = {speed_panel(r), step_panel(r), memory_panel(r)};
  return figure;
}

}  // namespace moelab::cli
