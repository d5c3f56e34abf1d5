// Keeps a store to one writing process.
#pragma once

#include <filesystem>

namespace moelab {

/// A lock (flock) on FILE.lock, which lies beside the store and not in it: SQLite's own locks on a file are
/// lost when the process that holds them opens and closes that file once more. The lock is gone with the
/// process however that ends; the file, which holds the process's number for the message to others, is
/// removed by the destructor, stays after a kill, and may be deleted while no process writes.
class WriterLock {
 public:
  /// Throws InputError: another process has it (its number is named), FILE.lock cannot be written, or is
  /// something else than such a lock.
  explicit WriterLock(const std::filesystem::path& store);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  bool is_under_its_name() const;

  std::filesystem::path store_, file_;
  int descriptor_ = -1;
};

}  // namespace moelab
