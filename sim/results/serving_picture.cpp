#include "sim/results/serving_picture.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

constexpr std::size_t kColumns = 60;

struct Row {
  const char* name;
  double full;  // what the highest column stands for; 0: the most there was
  SampleFigure figure;
};

const std::vector<Row>& picture_rows() {
  using S = ServingSample;
  static const std::vector<Row> rows = {
      {"tokens/s", 0, [](const S& s) { return s.tokens_per_s(); }},
      {"KV cache in use %", 100, [](const S& s) { return 100 * s.kv_use(); }},
      {"requests waiting", 0, [](const S& s) { return static_cast<double>(s.waiting); }},
      {"requests swapped", 0, [](const S& s) { return static_cast<double>(s.swapped); }},
      {"swap MB/s", 0, [](const S& s) { return s.swapped_bytes_per_s() / 1e6; }},
      {"residency %", 100, [](const S& s) { return 100 * s.residency; }}};
  return rows;
}

/// Blank where there was nothing, else an eighth of the height at least.
std::string columns_of(const std::vector<double>& values, double full) {
  std::string line;
  for (const double value : values) {
    const double eighths = full > 0 ? 8 * value / full : 0;
    const auto height = static_cast<std::size_t>(std::clamp(eighths + 0.5, 0.0, 8.0));
    line += column(value > 0 ? std::max<std::size_t>(height, 1) : 0);
  }
  return line;
}

struct Picture {
  std::vector<std::vector<std::string>> rows;  // what stands before the columns
  std::vector<std::string> columns;
};

void add_system(const RunResult& r, Picture& picture) {
  const double end = r.metrics.series.samples().back().time_s;
  std::string name = r.system + ", " + fixed(end, 1) + " s";
  for (const Row& row : picture_rows()) {
    const std::vector<double> values = over_time(r.metrics.series, kColumns, row.figure);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    if (*most == 0) continue;
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    picture.rows.push_back({name, row.name, fixed(*least, 1),
                            fixed(sum / static_cast<double>(values.size()), 1), fixed(*most, 1)});
    picture.columns.push_back("|" + columns_of(values, row.full > 0 ? row.full : *most) + "|");
    name.clear();
  }
}

}  // namespace

std::vector<double> over_time(const ServingSeries& series, std::size_t columns, const SampleFigure& figure) {
  std::vector<double> sums(columns, 0);
  const double end = series.samples().back().time_s, width = end / static_cast<double>(columns);
  for (const ServingSample& sample : series.samples()) {
    const double value = figure(sample);
    const auto first = std::min(static_cast<std::size_t>(sample.begin_s / width), columns - 1);
    for (std::size_t c = first; c < columns && static_cast<double>(c) * width < sample.time_s; ++c) {
      const double from = std::max(sample.begin_s, static_cast<double>(c) * width);
      const double to = std::min(sample.time_s, static_cast<double>(c + 1) * width);
      if (to > from) sums[c] += value * (to - from);
    }
  }
  for (double& sum : sums) sum /= width;
  return sums;
}

std::string serving_picture(const std::vector<RunResult>& results) {
  Picture picture{{{"over time", "", "least", "mean", "most"}},
                  {"|each column a sixtieth of the system's time"}};
  for (const RunResult& r : results)
    if (!r.metrics.series.samples().empty() && r.metrics.series.samples().back().time_s > 0)
      add_system(r, picture);
  if (picture.rows.size() == 1) return "";
  // Its columns begin below each other, where a table's would end so.
  std::istringstream lines(align_columns(picture.rows, 2));
  std::string out;
  for (const std::string& columns : picture.columns) {
    std::string line;
    std::getline(lines, line);
    out += line + "  " + columns + "\n";
  }
  return out;
}

}  // namespace moelab
