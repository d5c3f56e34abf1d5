#include "cli/report/store_points.hpp"

#include <fstream>
#include <string_view>
#include <utility>

#include "models/input_error.hpp"
#include "models/text_file.hpp"

namespace moelab {
namespace {

ReportPoint report_point(const StoredPoint& point, const std::string& json) {
  return {point.axes, point.series.empty() ? point.system : point.series,
          nlohmann::ordered_json::parse(json)};
}

}  // namespace

bool is_database(const std::string& file) {
  check_regular_file(file);
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::string begin(kMagic.size(), ' ');
  std::ifstream(file, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == kMagic;
}

Report read_store(const std::string& file, const std::string& sweep, std::uint64_t& missing, LockWait waits) {
  const ResultStore store(file, ResultStore::Access::read, std::move(waits));
  const StoredSweep entry = store.sweep(sweep, "--sweep");
  Report report{entry.name, entry.question, {}};
  missing = 0;
  for (const StoredPoint& point : store.points(entry.name)) {
    const auto run = store.run(point.run, true);
    if (!run || run->status != RunStatus::done) {
      ++missing;
      continue;
    }
    try {
      report.points.push_back(report_point(point, run->result));
    } catch (const nlohmann::json::exception& error) {
      throw InputError(file, "point " + std::to_string(point.number) + " of sweep '" + entry.name +
                                 "' holds no result: " + std::string(said_by_library(error.what())));
    }
  }
  if (report.points.empty()) throw InputError(file, "no point of sweep '" + entry.name + "' is done");
  return report;
}

}  // namespace moelab
