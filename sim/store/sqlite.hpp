// SQLite behind a door as narrow as a store needs: a database, a statement, a transaction. Every error is an
// InputError that names the file and says what is wrong with it; files are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;       // of sqlite3.h
struct sqlite3_stmt;  // of sqlite3.h

namespace moelab::sqlite {

/// A connection. Views, triggers, extensions and functions of unknown effect that the file's schema may name
/// are off; so are strings in double quotes.
class Database {
 public:
  enum class Mode : std::uint8_t { read, write, salvage };
  /// `file`: an absolute path. With `write` it is made where it is not there. With `read` nothing is written
  /// into the database; where neither it nor its folder can be written, only what was moved out of the
  /// write-ahead log can be seen, and the log must be empty. `salvage` is `read` for a damaged file: what of
  /// it is not there is missed only by the statement that reads it, and what is in the log stays there.
  ///
  /// While another program keeps it locked, `waits` is asked from time to time, with the seconds waited so
  /// far, whether to wait on; it must not throw. Without it, 10 seconds are waited.
  Database(const std::filesystem::path& file, Mode mode, std::function<bool(double)> waits = {});
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const char* sql) const;
  /// The one number that a statement gives.
  std::int64_t number(const char* sql) const;
  /// Moves what is in the write-ahead log to the database if no reader needs it where it is. Failure is no
  /// loss: the log stays.
  void checkpoint() const noexcept;

  sqlite3* handle() const { return connection_.get(); }
  const std::filesystem::path& file() const { return file_; }
  /// Throws what `code`, a result of this connection, means: RefusedValue of a value that it does not take.
  [[noreturn]] void fail(int code) const;
  /// Throws InputError: the file does not hold what a store holds.
  [[noreturn]] void fail_damaged(const std::string& what) const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  void open(const std::string& name, int flags);
  void configure(Mode mode) const;
  void open_unchanging();
  void check_size() const;
  static int count_work(void* database);
  static int wait_for_lock(void* database, int times);

  std::filesystem::path file_;
  std::function<bool(double)> waits_;
  mutable bool is_patient_ = true;  // locks are waited for
  std::unique_ptr<sqlite3, Close> connection_;
  mutable std::uint64_t work_ = 0;  // of the running statement; see count_work
  friend class Statement;
};

/// A prepared statement. Values are bound from left to right, columns read from 0.
class Statement {
 public:
  Statement(const Database& database, std::string_view sql);

  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  Statement& bind(double number);
  Statement& bind_null();
  /// Whether there is a row. Values bound must live until the last step.
  bool step();
  /// step() to the end, for a statement that gives no rows, then ready to be bound again.
  void run();
  /// Ready to be bound again, wherever it stands, also where it failed.
  Statement& again();

  bool is_null(int column) const;
  // Throw InputError where the column holds a value of another type: the file was damaged.
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;  // an integer too

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void check_bound(int code) const;
  [[noreturn]] void fail_type(int column, const char* expected) const;

  const Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

/// Everything between its making and commit() happens or nothing does.
class Transaction {
 public:
  explicit Transaction(const Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace moelab::sqlite
