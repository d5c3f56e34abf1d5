// The file under a reader: opened past the page cache where that is wanted and possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace moelab {

class ReadFile {
 public:
  /// Throws InputError where it cannot be opened or read, or is no regular file. With `direct`, reads past
  /// the page cache if a read of the first bytes so succeeds; else refusal() says what the system said.
  ReadFile(const std::filesystem::path& path, bool direct);
  ~ReadFile();
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&&) = delete;

  const std::string& name() const { return name_; }
  int descriptor() const { return descriptor_; }
  std::uint64_t size() const { return size_; }
  bool direct() const { return direct_; }
  const std::string& refusal() const { return refusal_; }
  /// kReadAlignment past the page cache, else 1.
  std::size_t alignment() const;
  /// Of `bytes` from `offset` on, those that the file had when it was opened.
  std::size_t within(std::uint64_t offset, std::size_t bytes) const;

  /// How far a read has come after the system gave `got` more bytes: past the page cache, whole blocks of
  /// kReadAlignment only, unless it is all that was due.
  std::size_t progress(std::size_t before, std::size_t got, std::size_t due) const;
  /// Throws InputError: what the system said (an errno value) of a read at `offset`, or that the file ends
  /// there, `missing` bytes too early.
  [[noreturn]] void fail_read(std::uint64_t offset, int error) const;
  [[noreturn]] void fail_short(std::uint64_t offset, std::size_t missing) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool direct_ = false;
  std::string refusal_;
};

}  // namespace moelab
