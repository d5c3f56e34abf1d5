#include "sim/store/result_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/store/refused_value.hpp"
#include "sim/store/sqlite.hpp"
#include "sim/store/store_rows.hpp"
#include "sim/store/store_schema.hpp"
#include "sim/store/writer_lock.hpp"
#include "traces/atomic_file.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

/// Readers go on while one writes, and a commit is one write to the end of a log.
void use_write_ahead_log(const Database& database) {
  Statement mode(database, "PRAGMA journal_mode = WAL");
  if (!mode.step() || mode.text(0) != "wal")
    throw InputError(database.file().string(),
                     "lies on a file system without shared memory (a network's?), which SQLite's write-ahead "
                     "log needs; expected a local disk");
}

/// Where the database stands, once it is known that something can be opened there.
std::filesystem::path place_of(const std::filesystem::path& file, ResultStore::Access access) {
  if (file.empty()) throw InputError("result store", "expected the name of a file, found nothing");
  std::error_code error;
  const std::filesystem::path place = behind_links(std::filesystem::absolute(file));
  const auto status = std::filesystem::status(place, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    if (access == ResultStore::Access::read) throw InputError(file.string(), "no such file");
    std::filesystem::create_directories(place.parent_path(), error);
    if (error)
      throw InputError(file.string(),
                       "its folder " + place.parent_path().string() + " cannot be made: " + error.message());
  } else if (error) {
    throw InputError(file.string(), "cannot be opened: " + error.message());
  } else if (status.type() != std::filesystem::file_type::regular) {
    throw InputError(file.string(), "is not a file");
  }
  return place;
}

Database::Mode mode_of(ResultStore::Access access) {
  return access == ResultStore::Access::write ? Database::Mode::write : Database::Mode::read;
}

/// The columns that a result fills: whole numbers as such, nothing for null and for what is not there.
/// Times of a system that served no request, because its experts do not fit, are none rather than 0; a
/// cluster that failed all that it was asked has taken its time.
void bind_metrics(Statement& statement, const Json& result) {
  const Json::json_pointer requests("/metrics/requests");
  const bool served = !result.contains(requests) || result.at(requests) != 0 ||
                      result.contains(Json::json_pointer("/metrics/asked_requests"));
  for (const MetricColumn& column : kMetricColumns) {
    const Json::json_pointer place(column.path);
    const bool is_time = std::string_view(column.name).ends_with("_s");
    const Json value = result.contains(place) && (served || !is_time) ? result.at(place) : Json();
    if (value.is_number_integer())
      statement.bind(value.get<std::int64_t>());
    else if (value.is_number())
      statement.bind(value.get<double>());
    else
      statement.bind_null();
  }
}

Json result_of(const Database& database, const StoredRun& run) {
  if (run.result.empty()) return Json::object();
  Json result = Json::parse(run.result, nullptr, false);
  if (!result.is_object())
    throw RefusedValue(database.file().string(), "the result of run " + run.identity + " is no JSON object");
  return result;
}

/// The sweep's number in the database, which it keeps when it is entered again.
std::int64_t enter_sweep(const Database& database, const StoredSweep& sweep) {
  Statement enter(database,
                  "INSERT INTO sweep (name, question, file, created, version) VALUES (?, ?, ?, ?, ?) "
                  "ON CONFLICT (name) DO UPDATE SET question = excluded.question, file = excluded.file, "
                  "created = excluded.created, version = excluded.version");
  enter.bind(sweep.name).bind(sweep.question).bind(sweep.file).bind(sweep.created).bind(sweep.version).run();
  Statement find(database, "SELECT id FROM sweep WHERE name = ?");
  find.bind(sweep.name).step();
  return find.integer(0);
}

/// Damage may make a walk over a table come to the same rows again and again.
void check_rising(const Database& database, const StoredPoint* before, const StoredPoint& next) {
  if (before != nullptr && next.number <= before->number)
    database.fail_damaged("the points of a sweep are not in their order");
}

}  // namespace

struct ResultStore::Impl {
  Impl(const std::filesystem::path& file, Access access, LockWait waits)
      : place(place_of(file, access)),
        lock(access == Access::write ? std::make_unique<WriterLock>(place) : nullptr),
        database(place, mode_of(access), std::move(waits)) {}

  std::filesystem::path place;
  std::unique_ptr<WriterLock> lock;  // before the database: it outlives it
  Database database;
  pid_t process = ::getpid();
};

ResultStore::ResultStore(const std::filesystem::path& file, Access access, LockWait waits)
    : impl_(std::make_unique<Impl>(file, access, std::move(waits))) {
  const Database& database = impl_->database;
  const bool writes = access == Access::write;
  if (writes && is_untouched(database)) make_schema(database);
  check_schema(database);
  if (writes) use_write_ahead_log(database);
}

ResultStore::~ResultStore() {
  // A child that closed its parent's connection would close it for the parent: it is given up instead.
  if (impl_->process != ::getpid()) {
    static_cast<void>(impl_.release());
    return;
  }
  if (impl_->lock != nullptr) impl_->database.checkpoint();
}

void ResultStore::put_sweep(const StoredSweep& sweep, const std::vector<StoredPoint>& points) {
  const Database& database = impl_->database;
  Transaction transaction(database);
  const std::int64_t id = enter_sweep(database, sweep);
  Statement(database, "DELETE FROM point WHERE sweep = ?").bind(id).run();
  Statement insert(database,
                   "INSERT INTO point (sweep, number, axes, series, system, settings, run) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const StoredPoint& point : points) {
    const std::string axes = axes_text(database, point), settings = settings_text(database, point);
    insert.bind(id).bind(static_cast<std::int64_t>(point.number)).bind(axes).bind(point.series);
    insert.bind(point.system).bind(settings).bind(point.run).run();
  }
  transaction.commit();
}

void ResultStore::put_run(const StoredRun& run) {
  const Database& database = impl_->database;
  const Json result = result_of(database, run);
  const std::string status = to_string(run.status), seed = std::to_string(run.seed);
  // In the order of the table's columns.
  Statement insert(database,
                   "REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                   "?, ?, ?)");
  insert.bind(run.identity).bind(status).bind(run.error).bind(run.scenario).bind(run.system);
  insert.bind(run.executor).bind(seed).bind(run.version).bind(run.started).bind(run.wall_s).bind(run.cpu_s);
  insert.bind(static_cast<std::int64_t>(run.peak_bytes)).bind(run.host);
  bind_metrics(insert, result);
  if (run.result.empty())
    insert.bind_null();
  else
    insert.bind(run.result);
  insert.run();  // alone it is a transaction
}

void ResultStore::check_whole() const {
  const Database& database = impl_->database;
  {
    Statement found(database, "PRAGMA integrity_check(1)");
    if (!found.step() || found.text(0) != "ok") database.fail_damaged(found.text(0));
  }
  Statement unlike(database,
                   "SELECT identity FROM run WHERE (status = 'done') <> "
                   "CASE WHEN json_valid(result) THEN json_type(result) = 'object' ELSE 0 END LIMIT 1");
  if (unlike.step()) database.fail_damaged("the result of run " + unlike.text(0) + " is no JSON object");
  for (const StoredSweep& sweep : sweeps()) outcomes(sweep.name);
}

std::vector<StoredSweep> ResultStore::sweeps() const {
  const Database& database = impl_->database;
  Statement row(database,
                "SELECT name, question, file, created, version, (SELECT count(*) FROM point WHERE "
                "point.sweep = sweep.id) AS points FROM sweep ORDER BY name");
  std::vector<StoredSweep> sweeps;
  while (row.step()) {
    StoredSweep sweep{row.text(0), row.text(1), row.text(2), row.text(3), row.text(4), 0};
    sweep.points = static_cast<std::uint64_t>(row.integer(5));
    if (!sweeps.empty() && sweep.name <= sweeps.back().name)
      database.fail_damaged("the sweeps are not in their order");
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

StoredSweep ResultStore::sweep(const std::string& name, const std::string& option) const {
  const std::vector<StoredSweep> all = sweeps();
  std::vector<std::string> names;
  for (const StoredSweep& one : all) names.push_back(one.name);
  const std::string place = impl_->place.string();
  if (all.empty()) throw InputError(place, "holds no sweep yet");
  if (name.empty() && all.size() == 1) return all.front();
  if (name.empty())
    throw InputError(place, "holds " + std::to_string(all.size()) + " sweeps; choose one with " + option +
                                suggestion("", names));
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw InputError(option + " " + name, place + " has no such sweep" + suggestion(name, names));
  return all[static_cast<std::size_t>(found - names.begin())];
}

std::vector<StoredPoint> ResultStore::points(const std::string& sweep) const {
  const Database& database = impl_->database;
  Statement row(database, "SELECT " + std::string(kPointColumns) +
                              " FROM point WHERE sweep = (SELECT id FROM sweep WHERE name = ?) "
                              "ORDER BY number");
  row.bind(sweep);
  std::vector<StoredPoint> points;
  while (row.step()) {
    StoredPoint point = read_point(database, row, 0);
    check_rising(database, points.empty() ? nullptr : &points.back(), point);
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<StoredOutcome> ResultStore::outcomes(const std::string& sweep) const {
  const Database& database = impl_->database;
  Statement row(database, "SELECT " + std::string(kPointColumns) + ", " + std::string(kRunColumns) +
                              metric_columns() +
                              " FROM point LEFT JOIN run ON run.identity = point.run "
                              "WHERE point.sweep = (SELECT id FROM sweep WHERE name = ?) "
                              "ORDER BY point.number");
  row.bind(sweep);
  std::vector<StoredOutcome> outcomes;
  while (row.step()) {
    StoredOutcome outcome{read_point(database, row, 0), std::nullopt, {}};
    check_rising(database, outcomes.empty() ? nullptr : &outcomes.back().point, outcome.point);
    if (!row.is_null(kPointColumnCount)) {
      outcome.run = read_run(database, row, kPointColumnCount);
      outcome.metrics = read_metrics(row, kPointColumnCount + kRunColumnCount);
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

SweepCounts ResultStore::counts(const std::string& sweep) const {
  Statement row(impl_->database,
                "SELECT count(CASE WHEN run.status = 'done' THEN 1 END), "
                "count(CASE WHEN run.status <> 'done' THEN 1 END), "
                "count(CASE WHEN run.status IS NULL THEN 1 END) "
                "FROM point LEFT JOIN run ON run.identity = point.run "
                "WHERE point.sweep = (SELECT id FROM sweep WHERE name = ?)");
  row.bind(sweep).step();
  const auto count = [&](int column) { return static_cast<std::uint64_t>(row.integer(column)); };
  return {count(0), count(1), count(2)};
}

std::optional<StoredRun> ResultStore::run(const std::string& identity, bool with_result) const {
  const Database& database = impl_->database;
  Statement row(database, "SELECT " + std::string(kRunColumns) + (with_result ? ", run.result" : "") +
                              " FROM run WHERE identity = ?");
  row.bind(identity);
  if (!row.step()) return std::nullopt;
  StoredRun run = read_run(database, row, 0);
  if (with_result && !row.is_null(kRunColumnCount)) run.result = row.text(kRunColumnCount);
  return run;
}

bool ResultStore::is_done(const std::string& identity) const {
  Statement row(impl_->database, "SELECT 1 FROM run WHERE identity = ? AND status = 'done'");
  return row.bind(identity).step();
}

std::optional<double> ResultStore::mean_cpu_s(const std::string& scenario, const std::string& system) const {
  Statement row(impl_->database,
                "SELECT avg(cpu_s) FROM run WHERE scenario = ? AND system = ? AND status = 'done'");
  row.bind(scenario).bind(system);
  if (!row.step() || row.is_null(0)) return std::nullopt;
  return row.real(0);
}

}  // namespace moelab
