// A file that appears whole or not at all, whatever happens on the way.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace moelab {

/// Where a file of this name stands: symbolic links followed, the last of which may lead to nothing yet.
/// Throws InputError where they lead in a circle.
std::filesystem::path behind_links(const std::filesystem::path& name);

/// Writes a temporary file in the target's folder, which is made where there is none; commit() makes it
/// durable and gives it the target's name, replacing what stood there (readers that have the old file open or
/// mapped keep the old one). A symbolic link stays, and the file behind it is replaced. Destroyed without
/// commit(), it leaves nothing behind, no folder either. The temporary file has no name until commit(), so
/// that a process killed on the way leaves nothing either; only where the file system knows no nameless
/// files, it leaves ".moelab-<pid>-<n>.tmp". Every failure throws InputError that names the target and the
/// system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends the bytes.
  void write(std::span<const std::byte> bytes);
  /// check_mapped_files(), fsync, rename, fsync of the folder. To be called once, last.
  void commit();

 private:
  void make_folder();
  void name();
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;          // empty while it has no name
  std::vector<std::filesystem::path> made_;  // folders, the outermost first; empty once committed
  int descriptor_ = -1;
};

}  // namespace moelab
