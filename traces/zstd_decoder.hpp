// Zstandard frames, decompressed part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "traces/mapped_file.hpp"

struct ZSTD_DCtx_s;  // of zstd.h

namespace moelab {

/// Whether a file that starts so holds zstd frames (or skippable ones, which parallel compressors put first).
/// No safetensors file starts so: its header would be longer than the format allows.
bool starts_zstd(std::span<const std::byte> bytes);

/// All frames of a file, one after the other, as the zstd program reads them. Memory: the frame's window, at
/// most 128 MiB; frames that need more are refused. Errors are InputErrors about `file` that name the byte of
/// the compressed data.
class ZstdDecoder {
 public:
  /// `compressed` must live as long; its pages leave the memory behind the decoder.
  ZstdDecoder(std::string file, const MappedFile& compressed);

  /// The next bytes, valid until the next call; none at the end, where all frames are whole.
  std::span<const std::byte> next();
  /// Compressed bytes taken so far.
  std::uint64_t offset() const { return at_; }
  /// Throws: "byte <offset> of the compressed data: what".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Release {
    void operator()(ZSTD_DCtx_s* stream) const;
  };

  std::string file_;
  std::span<const std::byte> compressed_;
  std::unique_ptr<ZSTD_DCtx_s, Release> stream_;
  std::vector<std::byte> buffer_;
  std::size_t wanted_;          // compressed bytes up to the end of the next block
  std::uint64_t at_ = 0;        // compressed bytes taken
  std::uint64_t frame_ = 0;     // where the frame starts
  std::uint64_t released_ = 0;  // compressed bytes whose pages have left the memory
};

}  // namespace moelab
