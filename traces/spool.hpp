// Bytes appended to a file without a name, to be copied into another file later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "traces/mapped_file.hpp"
#include "traces/output_file.hpp"

namespace moelab {

/// Its errors are InputErrors about `file`.
class Spool {
 public:
  Spool(std::string file, std::filesystem::path folder);
  /// About a file to be written, in whose folder it lives.
  explicit Spool(const std::filesystem::path& target);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  void append(std::span<const std::byte> bytes);
  /// Appends all of it, in order, to the file.
  void copy_to(OutputFile& file);
  /// All of it. Nothing may be appended any more.
  MappedFile map();

 private:
  void flush();
  [[noreturn]] void fail(const char* doing) const;

  std::string file_;
  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::uint64_t flushed_ = 0;  // bytes
  std::vector<std::byte> buffer_;
};

}  // namespace moelab
