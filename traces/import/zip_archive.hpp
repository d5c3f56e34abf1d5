// The members of a zip archive (.npz, PyTorch's .pt), stored or deflated; read through the archive's own
// directory, at its end. Format: PKWARE APPNOTE 6.3, with the 64-bit sizes that NumPy and PyTorch write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/input_stream.hpp"

namespace moelab {

struct ZipMember {
  std::string name;
  std::uint64_t size = 0;  // bytes, unpacked
  FilePart part;           // its packed bytes, with their checksum
};

/// Throws InputError that names the file: not a zip archive, damaged, encrypted, several disks, a way of
/// packing other than stored and deflated, a name twice.
class ZipArchive {
 public:
  explicit ZipArchive(std::filesystem::path path);

  const std::vector<ZipMember>& members() const { return members_; }
  /// The member of that name; throws InputError with the nearest one.
  const ZipMember& member(const std::string& name) const;
  /// Null where there is none.
  const ZipMember* find(const std::string& name) const;
  InputStream open(const ZipMember& member, Progress progress = {}) const;
  /// All bytes of a member, its size and checksum compared. Throws InputError when it is above `most` bytes.
  std::string read(const ZipMember& member, std::uint64_t most) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count);

  std::filesystem::path path_;
  std::vector<ZipMember> members_;
};

}  // namespace moelab
