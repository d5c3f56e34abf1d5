// A file written from its front to its end, compressed where its name says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "traces/atomic_file.hpp"

struct ZSTD_CCtx_s;  // of zstd.h

namespace moelab {

/// An AtomicFile. Under a name that ends in ".zst" stands one zstd frame, of level 3, with a checksum and the
/// size of what is inside. Every failure throws InputError that names the target.
class OutputFile {
 public:
  /// `bytes`: how many will be written in all.
  OutputFile(const std::filesystem::path& target, std::uint64_t bytes);

  /// Appends the bytes.
  void write(std::span<const std::byte> bytes);
  /// To be called once, last: see AtomicFile.
  void commit();

 private:
  struct Release {
    void operator()(ZSTD_CCtx_s* stream) const;
  };
  // `last`: these are the last ones.
  void compress(std::span<const std::byte> bytes, bool last);
  std::size_t checked(std::size_t result) const;

  std::string name_;
  AtomicFile file_;
  std::unique_ptr<ZSTD_CCtx_s, Release> stream_;  // none where nothing is compressed
  std::vector<std::byte> buffer_;
};

}  // namespace moelab
