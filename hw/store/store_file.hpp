// A file that is read and written at places: what chunk stores are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace moelab {

/// An open file. Every failure throws InputError that names it and the system's reason. Reads from several
/// threads do not disturb each other.
class StoreFile {
 public:
  static StoreFile open_to_read(const std::filesystem::path& path);
  /// Creates it where it is not there.
  static StoreFile open_to_write(const std::filesystem::path& path);
  ~StoreFile();
  StoreFile(StoreFile&& other) noexcept;
  StoreFile& operator=(StoreFile&&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t bytes() const;
  /// Fills `bytes` from `offset` on; a file that ends before is an error.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Makes it this long: cut, or filled with zeros.
  void resize(std::uint64_t bytes);
  /// What was written is on storage.
  void sync();
  /// Whether no other process has it locked; it is then locked until the object goes.
  bool lock();

 private:
  StoreFile(const std::filesystem::path& path, int flags);
  [[noreturn]] void fail(const std::string& doing) const;

  std::string name_;
  int descriptor_;
};

/// Names given or taken in the folder are on storage. Throws InputError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace moelab
