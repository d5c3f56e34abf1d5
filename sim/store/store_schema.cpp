#include "sim/store/store_schema.hpp"

#include <array>
#include <string>
#include <string_view>

#include "models/input_error.hpp"

namespace moelab {
namespace {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

constexpr std::int64_t kApplication = 0x4d4f454c;  // "MOEL"
constexpr std::int64_t kSchemaVersion = 1;

// SQLite keeps these texts as they are written; a file whose texts differ is not of this schema.
constexpr const char* kSweepTable = R"(CREATE TABLE sweep (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  question TEXT NOT NULL,
  file TEXT NOT NULL,
  created TEXT NOT NULL,
  version TEXT NOT NULL
))";
constexpr const char* kPointTable = R"(CREATE TABLE point (
  sweep INTEGER NOT NULL REFERENCES sweep (id),
  number INTEGER NOT NULL,
  axes TEXT NOT NULL,
  series TEXT NOT NULL,
  system TEXT NOT NULL,
  settings TEXT NOT NULL,
  run TEXT NOT NULL,
  PRIMARY KEY (sweep, number)
) WITHOUT ROWID)";
constexpr const char* kRunTable = R"(CREATE TABLE run (
  identity TEXT PRIMARY KEY NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'timeout', 'memory')),
  error TEXT NOT NULL,
  scenario TEXT NOT NULL,
  system TEXT NOT NULL,
  executor TEXT NOT NULL,
  seed TEXT NOT NULL,
  version TEXT NOT NULL,
  started TEXT NOT NULL,
  wall_s REAL NOT NULL,
  cpu_s REAL NOT NULL,
  peak_bytes INTEGER NOT NULL,
  host TEXT NOT NULL,
  ttft_s REAL,
  tpot_s REAL,
  tpot_p50_s REAL,
  tpot_p90_s REAL,
  tpot_p99_s REAL,
  end_to_end_s REAL,
  throughput_tokens_per_s REAL,
  tokens INTEGER,
  requests INTEGER,
  simulated_s REAL,
  result TEXT
))";
constexpr const char* kRunIndex = "CREATE INDEX run_by_system ON run (scenario, system)";
constexpr const char* kResultView = R"(CREATE VIEW result AS
SELECT sweep.name AS sweep, point.number, point.axes, point.series, point.system, point.settings, point.run,
  coalesce(run.status, 'missing') AS status, run.error, run.scenario, run.executor, run.seed, run.version,
  run.started, run.wall_s, run.cpu_s, run.peak_bytes, run.host, run.ttft_s, run.tpot_s, run.tpot_p50_s,
  run.tpot_p90_s, run.tpot_p99_s, run.end_to_end_s, run.throughput_tokens_per_s, run.tokens, run.requests,
  run.simulated_s
FROM point JOIN sweep ON sweep.id = point.sweep LEFT JOIN run ON run.identity = point.run)";

struct SchemaObject {
  const char* type;
  const char* name;
  const char* sql;
};
constexpr std::array<SchemaObject, 5> kSchema = {{{"table", "sweep", kSweepTable},
                                                  {"table", "point", kPointTable},
                                                  {"table", "run", kRunTable},
                                                  {"index", "run_by_system", kRunIndex},
                                                  {"view", "result", kResultView}}};

}  // namespace

bool is_untouched(const Database& database) {
  return database.number("SELECT count(*) FROM sqlite_master") == 0 &&
         database.number("PRAGMA application_id") == 0 && database.number("PRAGMA user_version") == 0;
}

void make_schema(const Database& database) {
  Transaction transaction(database);
  for (const SchemaObject& object : kSchema) database.execute(object.sql);
  database.execute(("PRAGMA application_id = " + std::to_string(kApplication)).c_str());
  database.execute(("PRAGMA user_version = " + std::to_string(kSchemaVersion)).c_str());
  transaction.commit();
}

void check_schema(const Database& database) {
  const std::string file = database.file().string();
  if (is_untouched(database)) throw InputError(file, "is an empty database, not a result store");
  if (database.number("PRAGMA application_id") != kApplication)
    throw InputError(file, "is a database of another program, not a result store of moelab");
  if (const std::int64_t version = database.number("PRAGMA user_version"); version != kSchemaVersion)
    throw InputError(file, "has schema version " + std::to_string(version) + "; this moelab knows version " +
                               std::to_string(kSchemaVersion) + " only");
  for (const SchemaObject& object : kSchema) {
    Statement found(database, "SELECT sql FROM sqlite_master WHERE type = ? AND name = ?");
    found.bind(std::string_view(object.type)).bind(std::string_view(object.name));
    if (!found.step() || found.is_null(0) || found.text(0) != object.sql)
      throw InputError(file, std::string("its ") + object.type + " '" + object.name +
                                 "' is not that of a result store: it was changed");
  }
}

}  // namespace moelab
