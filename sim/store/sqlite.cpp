#include "sim/store/sqlite.hpp"

#include <sqlite3.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "models/input_error.hpp"
#include "sim/store/refused_value.hpp"

namespace moelab::sqlite {
namespace {

constexpr int kMillisecondsBetween = 20;  // two looks at what another program keeps locked
constexpr double kMostSeconds = 10;       // that a lock is waited for where the caller does not say
constexpr int kLargestValue = 256 << 20;  // bytes; a damaged length must not fill the memory
// The pages of a damaged tree may lead back to themselves, and a walk over them take ages. A statement over
// a million points takes some 1e8 steps of SQLite's machine; after 2e9, about a minute, it is given up.
constexpr int kStepsCounted = 1'000'000;
constexpr std::uint64_t kMostWork = 2'000;  // times kStepsCounted

bool is_unwritable(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_CANTOPEN || primary == SQLITE_READONLY || primary == SQLITE_PERM;
}

/// The system's reason for the last error of a connection, where it has one.
std::string system_reason(sqlite3* connection) {
  const int number = connection != nullptr ? sqlite3_system_errno(connection) : 0;
  return number != 0 ? ": " + std::generic_category().message(number) : "";
}

/// What a path is called in a URI: everything but letters, digits and a few signs as %XX.
std::string uri_of(const std::filesystem::path& file) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : file.string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::strchr("/-._~", c) != nullptr;
    if (plain)
      uri += c;
    else
      (uri += '%') += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return uri + "?immutable=1";
}

bool log_is_empty(const std::filesystem::path& file) {
  std::error_code none;
  const auto size = std::filesystem::file_size(file.string() + "-wal", none);
  return none || size == 0;
}

}  // namespace

void Database::Close::operator()(sqlite3* connection) const {
  sqlite3_close(connection);
}

Database::Database(const std::filesystem::path& file, Mode mode, std::function<bool(double)> waits)
    : file_(file), waits_(std::move(waits)) {
  // A reader asks for writing too, as the write-ahead log's bookkeeping takes it; SQLite itself falls back to
  // reading where the file forbids it, and query_only keeps the content as it is.
  open(file_.string(), SQLITE_OPEN_READWRITE | (mode == Mode::write ? SQLITE_OPEN_CREATE : 0));
  configure(mode);
  if (mode == Mode::write && sqlite3_db_readonly(handle(), "main") == 1)
    throw InputError(file_.string(), "no permission to write it");
  // Whether the file can be read shows at the first page.
  sqlite3_stmt* first = nullptr;
  int code = sqlite3_prepare_v2(handle(), "PRAGMA schema_version", -1, &first, nullptr);
  if (code == SQLITE_OK) code = sqlite3_step(first);
  sqlite3_finalize(first);
  if (code != SQLITE_ROW) {
    if (mode == Mode::write || !is_unwritable(code)) fail(code);
    open_unchanging();
  }
  if (mode != Mode::salvage) check_size();
}

// SQLite takes what is missing of the last page for zeros.
void Database::check_size() const {
  std::error_code none;
  const auto size = std::filesystem::file_size(file_, none);
  const auto page = static_cast<std::uintmax_t>(number("PRAGMA page_size"));
  if (!none && log_is_empty(file_) && size % page != 0)
    fail_damaged("it has " + std::to_string(size) + " bytes, expected a multiple of " + std::to_string(page));
}

// Without a log no process is writing, and SQLite needs no file beside this one if it is told so.
void Database::open_unchanging() {
  if (!log_is_empty(file_))
    throw InputError(file_.string(),
                     "its newest results are in " + file_.string() +
                         "-wal, which can be read only where the folder can be written; copy both there");
  connection_.reset();
  open(uri_of(file_), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  configure(Mode::read);
  number("PRAGMA schema_version");
}

void Database::open(const std::string& name, int flags) {
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &connection, flags, nullptr);
  connection_.reset(connection);
  if (connection == nullptr) throw std::bad_alloc();
  sqlite3_extended_result_codes(connection, 1);
  if (code != SQLITE_OK) fail(code);
}

void Database::configure(Mode mode) const {
  sqlite3_busy_handler(handle(), wait_for_lock, const_cast<Database*>(this));
  sqlite3_limit(handle(), SQLITE_LIMIT_LENGTH, kLargestValue);
  sqlite3_progress_handler(handle(), kStepsCounted, count_work, const_cast<Database*>(this));
  // Without this a file that is shorter than it says, or whose schema has a line that is none, is refused
  // whole.
  if (mode == Mode::salvage) execute("PRAGMA writable_schema = ON");
  // The last to close would move the log into the database and remove it.
  if (mode == Mode::salvage) sqlite3_db_config(handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  // Nothing mapped: a file cut off under a map would end the process.
  execute("PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON");
  execute(mode == Mode::write ? "PRAGMA synchronous = FULL" : "PRAGMA query_only = ON");
}

int Database::count_work(void* database) {
  return ++static_cast<Database*>(database)->work_ > kMostWork ? 1 : 0;
}

int Database::wait_for_lock(void* opaque, int times) {
  const auto& database = *static_cast<Database*>(opaque);
  if (!database.is_patient_) return 0;
  const double seconds = 1e-3 * kMillisecondsBetween * times;
  if (!(database.waits_ ? database.waits_(seconds) : seconds < kMostSeconds)) return 0;
  sqlite3_sleep(kMillisecondsBetween);
  return 1;
}

void Database::execute(const char* sql) const {
  work_ = 0;
  const int code = sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::number(const char* sql) const {
  Statement statement(*this, sql);
  if (!statement.step()) fail_damaged(std::string("no answer to ") + sql);
  return statement.integer(0);
}

void Database::checkpoint() const noexcept {
  is_patient_ = false;  // not to wait for a reader
  sqlite3_wal_checkpoint_v2(handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  is_patient_ = true;
}

void Database::fail_damaged(const std::string& what) const {
  throw InputError(file_.string(),
                   "is damaged: " + what + " ('moelab results STORE --repair NEW' saves what is whole)");
}

void Database::fail(int code) const {
  const std::string reason = system_reason(handle());
  const std::string said = sqlite3_errmsg(handle());
  switch (code & 0xff) {
    case SQLITE_NOMEM:
      throw std::bad_alloc();
    case SQLITE_MISUSE:
      throw std::logic_error("SQLite: " + said);
    case SQLITE_NOTADB:
      throw InputError(file_.string(), "is not an SQLite database");
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
      fail_damaged(said);
    case SQLITE_INTERRUPT:
      fail_damaged("a query over it does not come to an end");
    case SQLITE_TOOBIG:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      throw RefusedValue(file_.string(), "does not take this: " + said);
    case SQLITE_FULL:
      throw InputError(file_.string(), "cannot be written: no space left on its disk");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw InputError(file_.string(), "another program keeps it locked");
    case SQLITE_READONLY:
    case SQLITE_PERM:
      throw InputError(file_.string(), "no permission to write it or into its folder");
    case SQLITE_CANTOPEN:
      throw InputError(file_.string(), "cannot be opened" + reason);
    case SQLITE_IOERR:
      throw InputError(file_.string(), "cannot be read or written" + reason + " (" + said + ")");
    default:
      throw InputError(file_.string(), said);
  }
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(const Database& database, std::string_view sql) : database_(database) {
  database_.work_ = 0;
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(database_.handle(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) database_.fail(code);
}

void Statement::check_bound(int code) const {
  if (code != SQLITE_OK) database_.fail(code);
}

Statement& Statement::bind(std::string_view text) {
  check_bound(sqlite3_bind_text64(statement_.get(), ++bound_, text.data() != nullptr ? text.data() : "",
                                  text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  check_bound(sqlite3_bind_int64(statement_.get(), ++bound_, number));
  return *this;
}

Statement& Statement::bind(double number) {
  check_bound(sqlite3_bind_double(statement_.get(), ++bound_, number));
  return *this;
}

Statement& Statement::bind_null() {
  check_bound(sqlite3_bind_null(statement_.get(), ++bound_));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail(code);
  return false;
}

void Statement::run() {
  database_.work_ = 0;
  step();
  again();
}

Statement& Statement::again() {
  database_.work_ = 0;
  sqlite3_reset(statement_.get());  // returns what the last step did
  bound_ = 0;
  return *this;
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::string Statement::text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) fail_type(column, "a text");
  const auto* const bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (bytes == nullptr) throw std::bad_alloc();
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::int64_t Statement::integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) fail_type(column, "a whole number");
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  const int type = sqlite3_column_type(statement_.get(), column);
  if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) fail_type(column, "a number");
  return sqlite3_column_double(statement_.get(), column);
}

void Statement::fail_type(int column, const char* expected) const {
  const char* const name = sqlite3_column_name(statement_.get(), column);
  database_.fail_damaged(std::string("expected ") + expected + " in column '" +
                         (name != nullptr ? name : "") + "'");
}

Transaction::Transaction(const Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // After some errors SQLite has rolled back by itself; the second time changes nothing.
  if (open_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace moelab::sqlite
