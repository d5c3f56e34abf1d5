#include "experiments/load/kernel_tables.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::replay {
namespace {

namespace fs = std::filesystem;

std::string letters_and_digits(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// "rtx4090_llama3.1-8b" of "rtx4090_llama3.1-8b_dense.csv.gz"; nothing: it is no table of this kind.
std::optional<std::string> prefix_of(std::string name, const std::string& kind) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const std::string end = kind + ".csv";
  if (!name.ends_with(end)) return {};
  name.resize(name.size() - end.size());
  if (!name.empty() && name.back() != '_') return {};
  if (!name.empty()) name.pop_back();
  return name;
}

class TableFiles {
 public:
  TableFiles(std::string folder, std::string_view gpu, std::string_view model)
      : folder_(std::move(folder)),
        board_(letters_and_digits(gpu.substr(0, gpu.rfind('-')))),
        model_(letters_and_digits(model)) {
    std::error_code none;
    if (!fs::is_directory(folder_, none))
      throw InputError(folder_,
                       "is no folder: expected one with tables of kernels (GPU_MODEL_dense.csv, ...)");
    for (const auto& entry : fs::directory_iterator(folder_, none))
      names_.push_back(entry.path().filename().string());
    std::sort(names_.begin(), names_.end());
  }

  /// The file of this GPU and model; nothing: there is none.
  std::optional<std::string> find(const std::string& kind) const {
    for (const std::string& name : names_) {
      const std::optional<std::string> prefix = prefix_of(name, kind);
      if (prefix && (prefix->empty() || letters_and_digits(*prefix) == board_ + model_))
        return (fs::path(folder_) / name).string();
    }
    return {};
  }
  std::string need(const std::string& kind) const {
    if (std::optional<std::string> file = find(kind)) return *std::move(file);
    std::string there;
    for (const std::string& name : names_)
      if (prefix_of(name, kind)) there += (there.empty() ? "" : ", ") + name;
    throw InputError(folder_, "has no table '" + kind + "' of this GPU and model (" + board_ + "_" + model_ +
                                  "_" + kind + ".csv); " +
                                  (there.empty() ? "there is none of that kind" : "there: " + there));
  }

 private:
  std::string folder_, board_, model_;
  std::vector<std::string> names_;
};

double seconds_at(const CsvReader& csv, std::size_t column) {
  const double us = csv.number_at(column, "microseconds");
  if (!(us > 0 && us < 1e9)) csv.fail(column, "expected microseconds above 0");
  return us * 1e-6;
}

double amount_at(const CsvReader& csv, std::size_t column) {
  const double amount = csv.number_at(column, "a number of at least 0");
  if (!(amount >= 0 && amount < 1e9)) csv.fail(column, "expected a number of at least 0");
  return amount;
}

std::map<std::string, Interpolated> read_layers(const std::string& file, const std::string& over) {
  CsvReader csv(file);
  const std::size_t layer = csv.column("layer"), amount = csv.column(over), time = csv.column("time_us");
  std::map<std::string, Interpolated> layers;
  while (csv.next()) layers[std::string(csv.field(layer))].set(amount_at(csv, amount), seconds_at(csv, time));
  return layers;
}

AttentionTable read_attention(const std::string& file) {
  CsvReader csv(file);
  const std::array columns{csv.column("prefill_chunk"), csv.column("kv_prefill"), csv.column("n_decode"),
                           csv.column("kv_decode")};
  const std::size_t time = csv.column("time_us");
  AttentionTable table;
  while (csv.next()) {
    AttentionTable::Point point{};
    for (std::size_t i = 0; i < point.size(); ++i) point[i] = amount_at(csv, columns[i]);
    table.set(point, seconds_at(csv, time));
  }
  if (table.empty()) throw InputError(file, "has no rows");
  table.finish();
  return table;
}

std::map<double, Interpolated> read_experts(const std::string& file) {
  CsvReader csv(file);
  const std::size_t tokens = csv.column("tokens"), experts = csv.column("activated_experts"),
                    time = csv.column("time_us");
  std::map<double, Interpolated> table;
  while (csv.next()) table[amount_at(csv, tokens)].set(amount_at(csv, experts), seconds_at(csv, time));
  if (table.empty()) throw InputError(file, "has no rows");
  return table;
}

/// Values of `map` below and above x, with the share of the upper one, which is above 1 beyond the last.
template <class Value>
auto around(const std::map<double, Value>& map, double x) {
  auto above = map.lower_bound(x);
  if (above == map.end()) --above;
  auto below = above;
  if (above != map.begin() && above->first != x) --below;
  const double share = below == above ? 0 : (x - below->first) / (above->first - below->first);
  return std::tuple(below, above, share);
}

}  // namespace

double Interpolated::at(double x) const {
  const auto [below, above, share] = around(values_, x);
  const double between = below->second + share * (above->second - below->second);
  return share > 1 ? std::max(between, above->second) : between;  // last times that fall are noise
}

void AttentionTable::finish() {
  for (std::size_t i = 0; i < kArguments; ++i) {
    axes_[i].clear();
    for (const auto& [point, seconds] : seconds_) axes_[i].push_back(point[i]);
    std::sort(axes_[i].begin(), axes_[i].end());
    axes_[i].erase(std::unique(axes_[i].begin(), axes_[i].end()), axes_[i].end());
  }
}

double AttentionTable::at(const Point& asked) const {
  struct Ends {
    double low = 0, high = 0, share = 0;
  };
  std::array<Ends, kArguments> cell;
  double beyond = 1;
  for (std::size_t i = 0; i < kArguments; ++i) {
    const std::vector<double>& axis = axes_[i];
    const double x = std::clamp(asked[i], axis.front(), axis.back());
    if (asked[i] > axis.back() && axis.back() > 0) beyond *= asked[i] / axis.back();
    const auto above = std::lower_bound(axis.begin(), axis.end(), x);
    const auto below = *above == x ? above : above - 1;
    cell[i] = {*below, *above, below == above ? 0 : (x - *below) / (*above - *below)};
  }
  double sum = 0, weights = 0;
  for (std::size_t corner = 0; corner < std::size_t{1} << kArguments; ++corner) {
    Point point{};
    double weight = 1;
    for (std::size_t i = 0; i < kArguments; ++i) {
      const bool high = (corner >> i & 1) != 0;
      point[i] = high ? cell[i].high : cell[i].low;
      weight *= high ? cell[i].share : 1 - cell[i].share;
    }
    const auto found = weight > 0 ? seconds_.find(point) : seconds_.end();
    if (found == seconds_.end()) continue;
    sum += weight * found->second;
    weights += weight;
  }
  if (weights > 0) return beyond * sum / weights;
  if (asked[0] == 0 && asked[2] == 0) return 0;  // neither a prompt's rows nor any that decode
  throw InputError("attention table", "has no time near " + std::to_string(std::llround(asked[0])) +
                                          " rows of prompts after " + std::to_string(std::llround(asked[1])) +
                                          " and " + std::to_string(std::llround(asked[2])) +
                                          " that decode after " + std::to_string(std::llround(asked[3])));
}

double KernelTables::moe_seconds(double tokens, double experts) const {
  const auto [below, above, share] = around(moe, tokens);
  const double low = below->second.at(experts);
  const double high = above->second.at(experts), between = low + share * (high - low);
  return share > 1 ? std::max(between, high) : between;
}

KernelTables read_kernel_tables(const std::string& folder, std::string_view gpu, std::string_view model,
                                bool with_experts) {
  const TableFiles files(folder, gpu, model);
  KernelTables tables;
  const std::string dense = files.need("dense");
  tables.dense = read_layers(dense, "tokens");
  std::vector<std::string> needed{"layernorm", "qkv_proj", "rotary_emb", "o_proj"};
  if (!with_experts) needed.insert(needed.end(), {"gate_up_proj", "act_fn", "down_proj"});
  std::vector<std::string> there;
  for (const auto& [layer, curve] : tables.dense) there.push_back(layer);
  for (const std::string& layer : needed)
    if (!tables.dense.contains(layer))
      throw InputError(dense, "has no rows of layer '" + layer + "'" + suggestion(layer, there));
  tables.attention = read_attention(files.need("attention"));
  if (with_experts) tables.moe = read_experts(files.need("moe"));
  if (const std::optional<std::string> file = files.find("per_sequence"))
    tables.per_sequence = read_layers(*file, "sequences");
  return tables;
}

}  // namespace moelab::replay
