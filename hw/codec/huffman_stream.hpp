// The format of the codec "huffman": Huffman-coded bytes that a GPU decodes with one thread a segment, as
// DFloat11 does (Zhang et al., arXiv 2504.11651).
//
// The code bits form one stream, cut into segments of a fixed number of bytes, and these into blocks of
// kHuffmanBlockSegments. A code may cross a segment's end; it belongs to the segment that it starts in. A
// segment's gap is the number of bits at its start that belong to a code of the segment before. So a thread
// starts at its segment's start plus gap, and stops at the first code that starts in the next segment. Where
// its symbols go, a block of threads finds by counting, summing up, and adding the block's position. DFloat11
// has 8-byte segments, 5-bit gaps and blocks of 512; here a gap has 4 bits, since codes have at most 11.
//
// Numbers are little-endian; all offsets are from the start, which should be aligned to 16 bytes for vector
// loads:
//    0  u32  magic "MLH1"             4  u8   log2 of the segment's bytes, 3 ... 6       5  3 bytes 0
//    8  u64  symbols, below 2^32     16  u64  code bits                                 24  8 bytes 0
//   32  256 nibbles: bits of each byte's code, byte 0 in the low nibble of the first byte
//  160  the code, in whole segments, the first code from bit 0 of the first byte up, then 16 bytes that may
//  be read
//    .  u32 a block: number of symbols before its first
//    .  a nibble a segment: its gap; the low nibble first
// Unused bits of the last segment, of the 16 bytes and of the last nibble are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/codec/huffman_code.hpp"

namespace moelab {

inline constexpr std::size_t kHuffmanBlockSegments = 256;
inline constexpr std::size_t kHuffmanHeaderBytes = 160;
inline constexpr std::size_t kHuffmanGuardBytes = 16;

/// A stream's parts, found and checked; it borrows the stream's bytes.
struct HuffmanStream {
  HuffmanLengths lengths;
  std::uint64_t symbols, code_bits;
  std::size_t segment_bytes, segments, blocks;
  std::span<const std::byte> code;       // segments * segment_bytes + kHuffmanGuardBytes
  std::span<const std::byte> positions;  // 4 bytes a block
  std::span<const std::byte> gaps;       // half a byte a segment

  /// Symbols before block `b`; symbols in all for b == blocks.
  std::uint64_t position(std::size_t b) const;
  /// Bit of the stream at which segment `s` starts to decode; code_bits for s == segments.
  std::uint64_t first_bit(std::size_t s) const;
};

/// Encodes with segments of 8, 16, 32 or 64 bytes. Throws CodecError for a plane of 4 GiB or more.
std::vector<std::byte> huffman_encode(std::span<const std::byte> plane, std::size_t segment_bytes);

/// Throws CodecError unless the sizes, the code and the block positions fit together. Whether the gaps are
/// true, only decoding shows.
HuffmanStream huffman_parse(std::span<const std::byte> stored);

/// Decodes a checked stream, segment by segment from its gaps, by a table that yields up to six symbols a
/// lookup.
class HuffmanDecoder {
 public:
  explicit HuffmanDecoder(const HuffmanStream& stream);

  struct Decoded {
    std::size_t symbols;
    std::uint64_t end_bit;  // where the next segment's first code starts, if the stream is sound
  };
  /// Writes the symbols of segment `s` to the start of `out`, and may overwrite the rest of `out`. Throws
  /// CodecError where `out` is too small for them.
  Decoded segment(std::size_t s, std::span<std::byte> out) const;

  /// Fills `out` with the symbols of block `b`; its size is position(b + 1) - position(b). Throws CodecError
  /// where the block holds more or fewer, or a gap is not where the segment before it ends.
  void block(std::size_t b, std::span<std::byte> out) const;

 private:
  struct Run {  // what the next kHuffmanMaxLength bits hold in whole symbols
    std::uint8_t symbols[6];
    std::uint8_t count, bits;
  };

  const HuffmanStream& stream_;
  HuffmanTable single_;
  std::vector<Run> runs_;
};

/// All of the stream into `plane`. Throws CodecError where it does not decode to exactly that many bytes.
void huffman_decode(std::span<const std::byte> stored, std::span<std::byte> plane);

}  // namespace moelab
