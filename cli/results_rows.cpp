#include "cli/results_rows.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "models/input_error.hpp"
#include "models/units.hpp"
#include "sim/sweep/expression.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::cli {
namespace {

/// A text as a number of base units; the kind keeps bytes from seconds.
struct Size {
  int kind = 0;
  double value = 0;
  auto operator<=>(const Size&) const = default;
};

template <class Quantity>
bool read_size(const std::string& text, int kind, std::optional<Size>& size) {
  Quantity quantity;
  std::string expected;
  if (!parse(text, quantity, expected)) return false;
  size = Size{kind, quantity.value()};
  return true;
}

std::optional<Size> size_of(const std::string& text) {
  if (const auto number = parse_number(text)) return Size{0, *number};
  std::optional<Size> size;
  read_size<Seconds>(text, 1, size) || read_size<Bytes>(text, 2, size) ||
      read_size<BytesPerSecond>(text, 3, size) || read_size<Flops>(text, 4, size) ||
      read_size<FlopsPerSecond>(text, 5, size);
  return size;
}

bool is_same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::optional<Size> size = size_of(a);
  return size && size == size_of(b);
}

/// What a cell is sorted by: sizes, then texts, then nothing.
struct SortKey {
  int group = 2;
  Size size{};
  std::string text{};
  auto operator<=>(const SortKey&) const = default;
};

SortKey key_of(const ResultCell& cell) {
  if (const double* const number = std::get_if<double>(&cell)) return {0, {0, *number}, ""};
  const auto* const text = std::get_if<std::string>(&cell);
  if (text == nullptr) return {};
  if (const auto size = size_of(*text)) return {0, *size, ""};
  return {1, {}, *text};
}

ResultColumn point_column(const char* name, std::string StoredPoint::*member) {
  return {name, [member](const StoredOutcome& o) { return ResultCell(o.point.*member); }};
}

template <class Member>
ResultColumn run_column(const char* name, Member StoredRun::*member) {
  return {name, [member](const StoredOutcome& o) -> ResultCell {
            if (!o.run) return {};
            if constexpr (std::is_same_v<Member, std::string>)
              return (*o.run).*member;
            else
              return static_cast<double>((*o.run).*member);
          }};
}

ResultColumn metric_column(std::size_t metric) {
  return {kMetricColumns[metric].name, [metric](const StoredOutcome& o) -> ResultCell {
            const std::optional<double>& value = o.metrics[metric];
            return value ? ResultCell(*value) : ResultCell();
          }};
}

/// All but the point's number, which is the first, and the axes.
std::vector<ResultColumn> columns_of_every_sweep() {
  std::vector<ResultColumn> columns = {point_column("series", &StoredPoint::series),
                                       point_column("system", &StoredPoint::system),
                                       {"status", [](const StoredOutcome& o) { return status_of(o); }}};
  for (std::size_t m = 0; m < kMetricColumns.size(); ++m) columns.push_back(metric_column(m));
  columns.push_back(run_column("error", &StoredRun::error));
  columns.push_back(run_column("scenario", &StoredRun::scenario));
  columns.push_back(run_column("executor", &StoredRun::executor));
  // As a text: a double does not hold all seeds.
  columns.push_back({"seed", [](const StoredOutcome& o) {
                       return o.run ? ResultCell(std::to_string(o.run->seed)) : ResultCell();
                     }});
  columns.push_back(run_column("version", &StoredRun::version));
  columns.push_back(run_column("started", &StoredRun::started));
  columns.push_back(run_column("wall_s", &StoredRun::wall_s));
  columns.push_back(run_column("cpu_s", &StoredRun::cpu_s));
  columns.push_back(run_column("peak_bytes", &StoredRun::peak_bytes));
  columns.push_back(run_column("host", &StoredRun::host));
  columns.push_back(point_column("run", &StoredPoint::run));
  return columns;
}

std::vector<std::string> names_of(const std::vector<ResultColumn>& columns) {
  std::vector<std::string> names;
  for (const ResultColumn& column : columns) names.push_back(column.name);
  return names;
}

std::vector<std::string> values_on(const std::vector<StoredOutcome>& points, const std::string& axis) {
  std::vector<std::string> values;
  for (const StoredOutcome& o : points)
    if (const std::string* value = axis_value(o.point, axis);
        value != nullptr && std::find(values.begin(), values.end(), *value) == values.end())
      values.push_back(*value);
  return values;
}

/// "budget=12 GB" -> ("budget", "12 GB"), both of which some point has.
std::pair<std::string, std::string> read_axis(const std::vector<StoredOutcome>& points,
                                              const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw InputError("--axis " + text, "expected NAME=VALUE, such as budget=\"12 GB\"");
  std::pair<std::string, std::string> setting{text.substr(0, at), text.substr(at + 1)};
  const std::vector<std::string> names = axis_names(points);
  if (std::find(names.begin(), names.end(), setting.first) == names.end())
    throw InputError("--axis " + text,
                     "the sweep has no axis '" + setting.first + "'" + suggestion(setting.first, names));
  const std::vector<std::string> values = values_on(points, setting.first);
  if (std::none_of(values.begin(), values.end(),
                   [&](const std::string& value) { return is_same_value(value, setting.second); }))
    throw InputError("--axis " + text,
                     "no point has '" + setting.second + "' there" + suggestion(setting.second, values));
  return setting;
}

/// A cell as a condition sees it; nothing where there is no value.
std::optional<Value> value_of_cell(const std::string& column, const ResultCell& cell) {
  if (const std::string* text = std::get_if<std::string>(&cell)) return value_of_text(*text);
  const double* number = std::get_if<double>(&cell);
  if (number == nullptr) return std::nullopt;
  const Measure::Unit unit = column.ends_with("per_s")    ? Measure::Unit::none
                             : column.ends_with("_s")     ? Measure::Unit::seconds
                             : column.ends_with("_bytes") ? Measure::Unit::bytes
                                                          : Measure::Unit::none;
  return Measure{*number, unit};
}

/// What --for of `moelab tune` calls the mean of a metric, and the column that has it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kShortNames = {
    {{"ttft", "ttft_s"},
     {"tpot", "tpot_s"},
     {"e2e", "end_to_end_s"},
     {"tokens_per_s", "throughput_tokens_per_s"}}};

/// The column that a name of a condition means: of that name, or of that short name; nothing: none.
const ResultColumn* column_named(const std::vector<ResultColumn>& columns, const std::string& name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const ResultColumn& column) { return column.name == name; });
  if (found != columns.end()) return &*found;
  for (const auto& [brief, column] : kShortNames)
    if (name == brief) return column_named(columns, std::string(column));
  return nullptr;
}

/// The texts that points have in a column, each once.
std::vector<std::string> texts_in(const std::vector<StoredOutcome>& points, const ResultColumn& column) {
  std::vector<std::string> texts;
  for (const StoredOutcome& point : points) {
    const ResultCell cell = column.of(point);
    const auto* const text = std::get_if<std::string>(&cell);
    if (text != nullptr && std::holds_alternative<std::string>(value_of_text(*text)) &&
        std::find(texts.begin(), texts.end(), *text) == texts.end())
      texts.push_back(*text);
  }
  return texts;
}

/// A word that no column has is the text of a column that it is compared with. Throws ConditionError where
/// it is neither.
void check_word(const Condition& condition, const std::string& word, const std::vector<StoredOutcome>& points,
                const std::vector<ResultColumn>& columns) {
  std::vector<std::string> known = names_of(columns);
  for (const auto& [brief, column] : kShortNames) known.emplace_back(brief);
  for (const std::string& other : condition.compared_with(word)) {
    const ResultColumn* const column = column_named(columns, other);
    const std::vector<std::string> texts =
        column != nullptr ? texts_in(points, *column) : std::vector<std::string>();
    if (std::find(texts.begin(), texts.end(), word) != texts.end()) return;
    if (!texts.empty())
      throw ConditionError("no point has '" + word + "' in '" + other + "'" + suggestion(word, texts) +
                           ", and no axis or column is called so");
  }
  throw ConditionError("there is no axis or column '" + word + "'" + suggestion(word, known) +
                       "; a text stands in quotes");
}

}  // namespace

std::vector<std::string> axis_names(const std::vector<StoredOutcome>& points) {
  std::vector<std::string> names;
  for (const StoredOutcome& o : points)
    for (const auto& axis : o.point.axes)
      if (std::find(names.begin(), names.end(), axis.first) == names.end()) names.push_back(axis.first);
  return names;
}

const std::string* axis_value(const StoredPoint& point, const std::string& axis) {
  for (const auto& [name, value] : point.axes)
    if (name == axis) return &value;
  return nullptr;
}

std::vector<ResultColumn> result_columns(const std::vector<StoredOutcome>& points) {
  std::vector<ResultColumn> columns = {
      {"point", [](const StoredOutcome& o) { return ResultCell(static_cast<double>(o.point.number)); }}};
  std::vector<ResultColumn> others = columns_of_every_sweep();
  std::vector<std::string> taken = names_of(others);
  taken.emplace_back("point");
  for (const std::string& axis : axis_names(points)) {
    const bool clash = std::find(taken.begin(), taken.end(), axis) != taken.end();
    columns.push_back({(clash ? "axis " : "") + axis, [axis](const StoredOutcome& o) {
                         const std::string* const value = axis_value(o.point, axis);
                         return value != nullptr ? ResultCell(*value) : ResultCell();
                       }});
  }
  std::move(others.begin(), others.end(), std::back_inserter(columns));
  return columns;
}

bool is_unfit(const StoredOutcome& point) {
  const auto metric = [&](std::string_view name) {
    const auto at = std::find_if(kMetricColumns.begin(), kMetricColumns.end(),
                                 [&](const MetricColumn& column) { return column.name == name; });
    return point.metrics[static_cast<std::size_t>(at - kMetricColumns.begin())];
  };
  // One of which all requests fail on a cluster takes time, too.
  return point.run && point.run->status == RunStatus::done && metric("requests") == 0.0 &&
         metric("tokens") == 0.0 && !metric("simulated_s");
}

std::string status_of(const StoredOutcome& point) {
  if (is_unfit(point)) return "does not fit";
  return point.run ? to_string(point.run->status) : "missing";
}

bool is_failed(const StoredOutcome& point) {
  return point.run && point.run->status != RunStatus::done;
}

std::vector<ResultFilter> axis_filters(const std::vector<StoredOutcome>& points,
                                       const std::vector<std::string>& settings) {
  std::map<std::string, std::vector<std::string>> wanted;
  for (const std::string& text : settings) {
    auto [axis, value] = read_axis(points, text);
    wanted[axis].push_back(std::move(value));
  }
  std::vector<ResultFilter> filters;
  for (const auto& [axis, values] : wanted)
    filters.push_back([axis = axis, values = values](const StoredOutcome& o) {
      const std::string* const value = axis_value(o.point, axis);
      return value != nullptr && std::any_of(values.begin(), values.end(), [&](const std::string& one) {
               return is_same_value(*value, one);
             });
    });
  return filters;
}

ResultFilter condition_filter(const std::vector<StoredOutcome>& points, const std::string& text) {
  const std::vector<ResultColumn> columns = result_columns(points);
  const auto fail = [text](const std::string& what) { return InputError("--where " + text, what); };
  try {
    const Condition condition(text);
    for (const std::string& name : condition.names())
      if (column_named(columns, name) == nullptr) check_word(condition, name, points, columns);
    return [=, known = names_of(columns)](const StoredOutcome& point) {
      const auto value = [&](const std::string& name) -> std::optional<Value> {
        const ResultColumn* const column = column_named(columns, name);
        return column != nullptr ? value_of_cell(column->name, column->of(point)) : Value(name);
      };
      for (const std::string& name : condition.names())
        if (!value(name)) return false;
      try {
        return condition.holds(value, known);
      } catch (const ConditionError& error) {
        throw fail(error.what());
      }
    };
  } catch (const ConditionError& error) {
    throw fail(error.what());
  }
}

void keep_wanted(std::vector<StoredOutcome>& points, const std::vector<ResultFilter>& filters) {
  std::erase_if(points, [&](const StoredOutcome& o) {
    return std::any_of(filters.begin(), filters.end(),
                       [&](const ResultFilter& filter) { return !filter(o); });
  });
}

std::vector<std::size_t> places_sorted_by(const std::vector<StoredOutcome>& points, const std::string& column,
                                          bool falling) {
  if (points.empty()) return {};  // nothing says which columns there are
  const std::vector<ResultColumn> columns = result_columns(points);
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const ResultColumn& c) { return c.name == column; });
  if (found == columns.end())
    throw InputError("--sort " + column, "there is no such column" + suggestion(column, names_of(columns)));
  std::vector<std::pair<SortKey, std::size_t>> order;
  for (std::size_t i = 0; i < points.size(); ++i) order.emplace_back(key_of(found->of(points[i])), i);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.first.group == 2 || b.first.group == 2) return a.first.group < b.first.group;
    return falling ? b.first < a.first : a.first < b.first;
  });
  std::vector<std::size_t> places;
  for (const auto& [key, place] : order) places.push_back(place);
  return places;
}

void sort_by(std::vector<StoredOutcome>& points, const std::string& column, bool falling) {
  std::vector<StoredOutcome> sorted;
  for (const std::size_t place : places_sorted_by(points, column, falling))
    sorted.push_back(std::move(points[place]));
  points = std::move(sorted);
}

}  // namespace moelab::cli
