// Bytes of a file from front to back, whatever its size: plain, gzip (recognised by its first bytes), or a
// part of a file (a member of a zip archive).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moelab {

/// Told now and then how many bytes of a file (as stored) have been read, of how many.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Where a part of a file lies and whether it is compressed by deflate without a header of its own.
struct FilePart {
  std::uint64_t offset = 0;  // bytes
  std::uint64_t size = 0;    // bytes, as stored
  bool deflated = false;
  std::optional<std::uint32_t> crc{};  // CRC-32 of its bytes, unpacked: compared once all of them are read
};

/// Memory use does not depend on the file's size. Throws InputError with the file, and the byte where there
/// is one: cannot be opened or read, not a regular file, damaged or cut packed data, a wrong checksum.
class InputStream {
 public:
  explicit InputStream(const std::filesystem::path& path, Progress progress = {});
  InputStream(const std::filesystem::path& path, const FilePart& part, Progress progress = {});
  /// Bytes in memory, as they are; `name` stands for them in messages.
  InputStream(std::string name, std::vector<std::byte> bytes);
  ~InputStream();
  InputStream(InputStream&&) noexcept;
  InputStream& operator=(InputStream&&) = delete;

  /// Fills `out` as far as there are bytes: fewer only at the end.
  std::size_t read(std::span<std::byte> out);
  /// Throws InputError unless all of `out` can be filled; `what` says what is read ("expert ids").
  void read_exactly(std::span<std::byte> out, const std::string& what);
  /// Throws InputError where so many bytes cannot come any more, judged by the size of the file: to be asked
  /// before memory is taken for them. Packed ones may still turn out to be fewer.
  void expect(std::uint64_t bytes, const std::string& what) const;
  /// Bytes handed out, unpacked.
  std::uint64_t offset() const;
  const std::string& name() const;
  /// Throws InputError at the current byte.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Size of a regular file in bytes. Throws InputError.
std::uint64_t input_file_size(const std::filesystem::path& path);

}  // namespace moelab
