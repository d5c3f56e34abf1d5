// Bytes appended to a file without a name, to be copied into another file later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "traces/atomic_file.hpp"

namespace moelab {

/// Lives in the folder of `target`, which is what its errors (InputError) name.
class Spool {
 public:
  explicit Spool(const std::filesystem::path& target);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  void append(std::span<const std::byte> bytes);
  /// Appends all of it, in order, to the file.
  void copy_to(AtomicFile& file);

 private:
  void flush();
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path target_;
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace moelab
