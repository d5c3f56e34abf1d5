#include "sim/store/store_repair.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/store/refused_value.hpp"
#include "sim/store/result_store.hpp"
#include "sim/store/sqlite.hpp"
#include "sim/store/store_rows.hpp"
#include "sim/store/store_schema.hpp"

namespace moelab {
namespace {

using sqlite::Database;
using sqlite::Statement;

// Of any row: its place in the page (2), its length and number (1 each), and a header of its own length and a
// type a column, of which the table of sweeps has the fewest, 6. Says how many rows a file can have at most.
constexpr std::int64_t kLeastRowBytes = 8;

/// What `read` gives, or nothing where it meets damage.
template <class Read>
auto unless_damaged(const Read& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Rows are asked for one by one: a damaged page is met by those that lie on it alone.
class Salvage {
 public:
  Salvage(const Database& from, ResultStore& to)
      : from_(from),
        to_(to),
        run_row_(from, "SELECT " + std::string(kRunColumns) + ", run.result FROM run WHERE rowid = ?"),
        sweep_row_(from, "SELECT name, question, file, created, version FROM sweep WHERE id = ?"),
        point_row_(from,
                   "SELECT " + std::string(kPointColumns) + " FROM point WHERE sweep = ? AND number = ?") {
    for (const char* part : {"", "-wal"}) {  // rows may be in the log alone
      std::error_code none;
      const auto bytes = std::filesystem::file_size(from.file().string() + part, none);
      most_rows_ += none ? 0 : static_cast<std::int64_t>(bytes) / kLeastRowBytes;
    }
  }

  StoreRepair go() {
    const std::int64_t last_run =
        last({"SELECT max(rowid) FROM run", "SELECT max(rowid) FROM run INDEXED BY sqlite_autoindex_run_1"});
    for (std::int64_t row = 1; row <= last_run; ++row) take_run(row);
    for (const std::string& identity : listed_runs()) result_.lost_runs += runs_.contains(identity) ? 0 : 1;
    const std::int64_t last_sweep = last({"SELECT max(id) FROM sweep"});
    for (std::int64_t id = 1; id <= last_sweep; ++id) take_sweep(id);
    return result_;
  }

 private:
  /// The number that the first statement gives; where it meets damage, the next one; where all do, the
  /// largest there can be.
  std::int64_t last(const std::vector<std::string>& statements) {
    for (const std::string& sql : statements) {
      const auto found = unless_damaged([&] {
        Statement row(from_, sql);
        return row.step() && !row.is_null(0) ? row.integer(0) : std::int64_t{-1};
      });
      if (found && *found <= most_rows_) return *found;
      result_.lost_more = true;
      if (found) return most_rows_;
    }
    return most_rows_;
  }

  void take_run(std::int64_t number) {
    const auto run = unless_damaged([&]() -> std::optional<StoredRun> {
      Statement& row = run_row_.again();
      if (!row.bind(number).step()) return std::nullopt;
      StoredRun found = read_run(from_, row, 0);
      if (!row.is_null(kRunColumnCount)) found.result = row.text(kRunColumnCount);
      const bool has_result = nlohmann::json::parse(found.result, nullptr, false).is_object();
      if (has_result != (found.status == RunStatus::done)) from_.fail_damaged("expected a result of a run");
      return found;
    });
    if (!run || !*run) return;
    try {
      to_.put_run(**run);
    } catch (const RefusedValue&) {
      return;  // damage that reading it does not show
    }
    result_.runs += runs_.insert((*run)->identity).second ? 1 : 0;
  }

  /// Identities as the table's index has them, up to where it is damaged.
  std::set<std::string> listed_runs() {
    std::set<std::string> all;
    const auto whole = unless_damaged([&] {
      Statement row(from_, "SELECT identity FROM run INDEXED BY sqlite_autoindex_run_1 ORDER BY identity");
      while (row.step()) all.insert(row.text(0));
      return true;
    });
    result_.lost_more |= !whole;
    return all;
  }

  void take_sweep(std::int64_t id) {
    const auto sweep = unless_damaged([&]() -> std::optional<StoredSweep> {
      Statement& row = sweep_row_.again();
      if (!row.bind(id).step()) return std::nullopt;
      return StoredSweep{row.text(0), row.text(1), row.text(2), row.text(3), row.text(4), 0};
    });
    result_.lost_more |= !sweep;
    if (!sweep || !*sweep) return;
    const std::vector<StoredPoint> points = points_of(id);
    to_.put_sweep(**sweep, points);
    ++result_.sweeps;
    result_.points += points.size();
    if (!points.empty()) result_.lost_points += points.back().number + 1 - points.size();
  }

  std::vector<StoredPoint> points_of(std::int64_t sweep) {
    const std::int64_t last_point =
        last({"SELECT max(number) FROM point WHERE sweep = " + std::to_string(sweep)});
    std::vector<StoredPoint> points;
    for (std::int64_t number = 0; number <= last_point; ++number) {
      auto point = unless_damaged([&]() -> std::optional<StoredPoint> {
        Statement& row = point_row_.again();
        if (!row.bind(sweep).bind(number).step()) return std::nullopt;
        return read_point(from_, row, 0);
      });
      if (point && *point && (*point)->number == static_cast<std::uint64_t>(number))
        points.push_back(std::move(**point));
    }
    return points;
  }

  const Database& from_;
  ResultStore& to_;
  Statement run_row_, sweep_row_, point_row_;
  std::int64_t most_rows_ = 0;
  std::set<std::string> runs_;
  StoreRepair result_;
};

/// A copy that was begun and is not whole is none.
void remove_store(const std::filesystem::path& file) {
  std::error_code none;
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + part, none);
}

}  // namespace

StoreRepair repair_store(const std::filesystem::path& damaged, const std::filesystem::path& copy) {
  std::error_code none;
  if (std::filesystem::exists(copy, none))
    throw InputError(copy.string(), "is there already; expected the name of a file to be made");
  if (!std::filesystem::is_regular_file(damaged, none))
    throw InputError(damaged.string(), "is no file that can be read");
  if (std::filesystem::file_size(damaged, none) == 0)  // SQLite would remove its log
    throw InputError(damaged.string(), "is an empty file, not a result store");
  const Database from(std::filesystem::absolute(damaged), Database::Mode::salvage);
  check_schema(from);
  auto to = std::make_unique<ResultStore>(copy, ResultStore::Access::write);
  try {
    return Salvage(from, *to).go();
  } catch (...) {
    to.reset();
    remove_store(copy);
    throw;
  }
}

}  // namespace moelab
