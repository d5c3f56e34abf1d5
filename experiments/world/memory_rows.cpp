// Memory of published loads of llama.cpp beside what moelab states. usage: world_memory
// [ROWS.csv ...] [--format table|json] [--fit]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/world/arguments.hpp"
#include "experiments/world/memory_points.hpp"
#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::world {
namespace {

using Json = nlohmann::ordered_json;

struct MemoryAnswer {
  MemoryRow row;
  MemoryFigures stated, apart;  // `apart`: by constants that its source had no part in
  std::string why_not;          // of the whole row; empty: it is answered
};

/// Of the items on the GPU.
double gpu_sum(const MemoryFigures& figures) {
  double sum = 0;
  for (const MemoryItem item : {MemoryItem::weights, MemoryItem::kv, MemoryItem::gpu_compute})
    sum += figures[static_cast<std::size_t>(item)].value_or(0);
  return sum;
}

void fill_memory_apart(std::vector<MemoryAnswer>& answers) {
  std::map<std::string, std::vector<MemoryAnswer*>> sources;
  for (MemoryAnswer& a : answers)
    if (a.why_not.empty()) sources[a.row.source].push_back(&a);
  for (auto& [source, own] : sources) {
    std::vector<MemoryRow> others;
    for (const MemoryAnswer& a : answers)
      if (a.why_not.empty() && a.row.source != source) others.push_back(a.row);
    const LawConstants fitted = fit_law(others);
    for (MemoryAnswer* a : own) a->apart = stated_memory(a->row, fitted);
  }
}

std::vector<MemoryAnswer> answers_of(std::vector<MemoryRow> rows) {
  const LawConstants constants = law_constants();
  std::vector<MemoryAnswer> answers;
  for (MemoryRow& row : rows) {
    MemoryAnswer a{std::move(row), {}, {}, {}};
    if (!a.row.whole) a.why_not = a.row.why_not;
    try {
      if (a.why_not.empty()) a.stated = stated_memory(a.row, constants);
    } catch (const InputError& error) {
      a.why_not = error.problems().front().what;
    }
    answers.push_back(std::move(a));
  }
  fill_memory_apart(answers);
  return answers;
}

Json json_of(const MemoryFigures& figures, std::size_t item) {
  return figures[item] ? Json(*figures[item]) : Json(nullptr);
}

void print_memory_json(const std::vector<MemoryAnswer>& answers) {
  Json list = Json::array();
  for (const MemoryAnswer& a : answers) {
    Json item{{"id", a.row.id}, {"source", a.row.source}};
    for (std::size_t i = 0; i < kMemoryItems; ++i) {
      const bool held = a.why_not.empty() && a.row.measured[i].has_value();
      item[std::string(to_string(static_cast<MemoryItem>(i)))] =
          held ? Json{{"measured_mib", *a.row.measured[i]},
                      {"stated_mib", json_of(a.stated, i)},
                      {"source_left_out_mib", json_of(a.apart, i)},
                      {"set_on", a.row.set_on[i]}}
               : Json(nullptr);
    }
    const std::string& why_not = a.why_not.empty() ? a.row.why_not : a.why_not;
    item["why_not"] = why_not.empty() ? Json(nullptr) : Json(why_not);
    list.push_back(std::move(item));
  }
  std::printf("%s\n", list.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
}

std::string terminal_text(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

std::string beside(double measured, double stated) {
  return fixed(measured, measured < 100 ? 1 : 0) + " / " + fixed(stated, stated < 100 ? 1 : 0);
}

std::string cell_of(const MemoryAnswer& a, MemoryItem item) {
  const std::size_t i = static_cast<std::size_t>(item);
  if (!a.row.measured[i]) return "-";
  return beside(*a.row.measured[i], *a.stated[i]) + (a.row.set_on[i] ? " *" : "");
}

void print_answered(const std::vector<MemoryAnswer>& answers) {
  std::vector<std::vector<std::string>> table{{"id", "model", "runtime", "graphs", "weights", "KV cache",
                                               "compute", "sum", "error", "in %", "host's compute"}};
  for (const MemoryAnswer& a : answers) {
    if (!a.why_not.empty()) continue;
    const double measured = gpu_sum(a.row.measured), stated = gpu_sum(a.stated);
    const double error = stated - measured;
    std::vector<std::string> cells;
    for (const std::string& text : {a.row.id, a.row.model, a.row.runtime, a.row.graphs})
      cells.push_back(terminal_text(text));
    for (const MemoryItem item : {MemoryItem::weights, MemoryItem::kv, MemoryItem::gpu_compute})
      cells.push_back(cell_of(a, item));
    cells.push_back(beside(measured, stated));
    cells.push_back((error >= 0 ? "+" : "") + fixed(error, 1) +
                    (near_enough(measured, stated) ? "" : " (!)"));
    cells.push_back(measured > 0 ? fixed(100 * error / measured, 1) : "-");
    cells.push_back(cell_of(a, MemoryItem::host_compute));
    table.push_back(std::move(cells));
  }
  std::printf(
      "MiB, measured / stated; (!): neither within 3 %% nor within 150 MiB; *: a constant was set on it or "
      "the law's form found with it, which predicts nothing.\n\n%s\n",
      align_columns(table, 4).c_str());
}

void print_reasons(const std::vector<MemoryAnswer>& answers) {
  std::vector<std::vector<std::string>> table{{"id", "held against", "why not all"}};
  for (const MemoryAnswer& a : answers) {
    if (a.why_not.empty() && a.row.why_not.empty()) continue;
    const std::string& why_not = a.why_not.empty() ? a.row.why_not : a.why_not;
    table.push_back({terminal_text(a.row.id), a.why_not.empty() ? "in part" : "no", terminal_text(why_not)});
  }
  std::printf("%s\n", align_columns(table, 3).c_str());
}

struct MemoryErrors {
  std::vector<double> mib, percent;
  std::size_t near = 0, near_by_share = 0, near_apart = 0;
  std::vector<double> unset_mib;  // where no constant was set on the item
  std::size_t unset_near = 0;
  void add(double measured, double stated, double apart, bool set_on) {
    const bool is_near = near_enough(measured, stated);
    mib.push_back(std::abs(stated - measured));
    percent.push_back(100 * mib.back() / measured);
    near += is_near ? 1 : 0;
    near_by_share += percent.back() <= 3 ? 1 : 0;
    near_apart += near_enough(measured, apart) ? 1 : 0;
    if (set_on) return;
    unset_mib.push_back(mib.back());
    unset_near += is_near ? 1 : 0;
  }
};

std::string count_of(std::size_t part, std::size_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

/// By item and program; sums where more than one item of the GPUs is held against.
void print_errors(const std::vector<MemoryAnswer>& answers) {
  constexpr std::size_t kSum = kMemoryItems, kGroups = kMemoryItems + 1;
  std::array<std::array<MemoryErrors, 2>, kGroups> groups;
  for (const MemoryAnswer& a : answers) {
    if (!a.why_not.empty()) continue;
    const std::size_t program = a.row.runtime.starts_with("llama.cpp") ? 0 : 1;
    for (std::size_t i = 0; i < kMemoryItems; ++i)
      if (a.row.measured[i])
        groups[i][program].add(*a.row.measured[i], *a.stated[i], *a.apart[i], a.row.set_on[i]);
    const auto on_gpu = a.row.measured.begin() + static_cast<std::ptrdiff_t>(MemoryItem::host_compute);
    if (std::count_if(a.row.measured.begin(), on_gpu, [](const auto& m) { return m.has_value(); }) > 1)
      groups[kSum][program].add(gpu_sum(a.row.measured), gpu_sum(a.stated), gpu_sum(a.apart),
                                a.row.set_on[static_cast<std::size_t>(MemoryItem::gpu_compute)]);
  }
  std::vector<std::vector<std::string>> table{{"median absolute error", "of", "rows", "MiB", "in %",
                                               "within 3 %", "within 3 % or 150 MiB", "source left out",
                                               "not set on: MiB", "not set on: within"}};
  for (std::size_t i = 0; i < kGroups; ++i)
    for (std::size_t program = 0; program < 2; ++program) {
      const MemoryErrors& e = groups[i][program];
      const std::size_t rows = e.mib.size(), unset = e.unset_mib.size();
      if (rows == 0) continue;
      const std::string name = i == kSum ? "sum" : std::string(to_string(static_cast<MemoryItem>(i)));
      table.push_back({name, program == 0 ? "llama.cpp" : "its fork", std::to_string(rows),
                       fixed(median(e.mib), 1), fixed(median(e.percent), 1), count_of(e.near_by_share, rows),
                       count_of(e.near, rows), count_of(e.near_apart, rows),
                       unset > 0 ? fixed(median(e.unset_mib), 1) : "-",
                       unset > 0 ? count_of(e.unset_near, unset) : "-"});
    }
  std::printf("%s", align_columns(table, 2).c_str());
}

void print_law_fit(const std::vector<MemoryAnswer>& answers) {
  std::vector<MemoryRow> rows;
  for (const MemoryAnswer& a : answers)
    if (a.why_not.empty()) rows.push_back(a.row);
  const LawConstants now = law_constants(), fitted = fit_law(rows);
  const std::vector<std::vector<std::string>> table{
      {"constant", "in its file", "fitted"},
      {"hidden_states", fixed(now.hidden_states, 0), fixed(fitted.hidden_states, 0)},
      {"expert_outputs", fixed(now.expert_outputs, 0), fixed(fitted.expert_outputs, 0)},
      {"expert_outputs of the fork", fixed(now.fork_outputs, 0), fixed(fitted.fork_outputs, 0)}};
  std::printf("\n%s", align_columns(table, 1).c_str());
}

int run_memory(const Arguments& arguments) {
  std::vector<std::string> files = arguments.files;
  if (files.empty()) files.emplace_back(MOELAB_SOURCE_DIR "/experiments/world/llamacpp_memory.csv");
  std::vector<MemoryRow> rows;
  for (const std::string& file : files)
    for (MemoryRow& row : read_memory_rows(file)) rows.push_back(std::move(row));
  const std::vector<MemoryAnswer> answers = answers_of(std::move(rows));
  if (arguments.json) {
    print_memory_json(answers);
    return 0;
  }
  const auto answered =
      std::count_if(answers.begin(), answers.end(), [](const MemoryAnswer& a) { return a.why_not.empty(); });
  std::printf("Of %zu loads %td can be expressed, some in part.\n", answers.size(), answered);
  print_answered(answers);
  print_reasons(answers);
  print_errors(answers);
  if (arguments.fit) print_law_fit(answers);
  return 0;
}

}  // namespace
}  // namespace moelab::world

int main(int argc, char** argv) {
  try {
    return moelab::world::run_memory(moelab::world::read_arguments(argc, argv, "experiments/world/memory.sh",
                                                                   {.writes = false, .fits = true}));
  } catch (const std::exception& error) {
    return moelab::world::say_failure(error);
  }
}
