// A file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace moelab {

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
};

}  // namespace moelab
