// A file mapped into memory, read-only. A file that another process makes shorter meanwhile does not end this
// one: what is cut off reads as zeros, and check_mapped_files() says so.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace moelab {

struct MappedRegion;  // what the handler of the system's signal knows of a mapping

class MappedFile {
 public:
  /// The whole of a regular file, which may be empty. Throws InputError.
  static MappedFile open(const std::filesystem::path& path);
  /// The first `bytes` of an open file; the descriptor may be closed. Errors are about `file`.
  MappedFile(int descriptor, std::size_t bytes, const std::string& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  MappedRegion* region_ = nullptr;
};

/// Throws the InputError of a file that was changed while it was mapped.
[[noreturn]] void fail_changed(const std::string& file);
/// Throws InputError where a file that is mapped now has been changed since it was: what was read of it is
/// not to be trusted. For all that gives out what it made of mapped files.
void check_mapped_files();
/// The same for files that are not mapped any more by then: for the end of a program.
void check_files_once_mapped();

}  // namespace moelab
