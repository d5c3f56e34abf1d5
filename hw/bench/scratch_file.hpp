// A file to time reads of. It has no name: killed at any time, the program leaves nothing behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace moelab {

class ScratchFile {
 public:
  /// A file of `bytes` (a multiple of 8) in the folder, on storage when this returns: word i is word_at(i).
  /// Throws InputError where it cannot be written, such as for lack of space.
  ScratchFile(const std::filesystem::path& folder, std::uint64_t bytes);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  /// For opening it; valid as long as the object is there.
  std::filesystem::path path() const;
  /// The page cache forgets it.
  void forget() const;
  /// Whether these are the bytes from `offset` (a multiple of 8) on.
  static bool holds(std::uint64_t offset, std::span<const std::byte> bytes);
  static std::uint64_t word_at(std::uint64_t index);

 private:
  void write(std::uint64_t bytes);
  int descriptor_;
  std::uint64_t bytes_ = 0;
};

}  // namespace moelab
