// Bytes in a temporary file instead of memory, and giving mapped pages back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace moelab {

/// The system's folder for temporary files (TMPDIR). Throws InputError where there is none.
std::filesystem::path temporary_folder();

/// So many zero bytes, mapped from a file without a name in the system's folder for temporary files. Throws
/// InputError when there is no room for them.
class SpilledBytes {
 public:
  explicit SpilledBytes(std::uint64_t bytes);
  ~SpilledBytes();
  SpilledBytes(const SpilledBytes&) = delete;
  SpilledBytes& operator=(const SpilledBytes&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// The whole pages among these bytes leave the memory; they are read again from their file when next needed.
/// Only for bytes that are mapped from a file.
void release_pages(std::span<const std::byte> mapped);

}  // namespace moelab
