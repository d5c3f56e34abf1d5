// The codecs for exponent planes: one interface, one table. A plane is bytes; what a codec makes of it is
// stored as a chunk, whose plane size and checksum the chunk's record keeps (chunk.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hw/codec/codec_error.hpp"

namespace moelab {

/// One codec at one level. It may keep buffers from call to call: one object a thread.
class Codec {
 public:
  virtual ~Codec() = default;
  /// As find_codec takes it, with the level where there is one: "lz4", "zstd-1".
  virtual std::string name() const = 0;
  /// The plane's bytes, encoded; the same plane gives the same bytes. Throws CodecError where the plane is
  /// larger than the codec allows (LZ4: 2 GiB less 32 MiB; Huffman and fixed3: 4 GiB).
  virtual std::vector<std::byte> encode(std::span<const std::byte> plane) = 0;
  /// Fills `plane`, whose size the caller knows, from what encode() gave. `stored` is not trusted: whatever
  /// it holds, nothing outside the two spans is read or written, and what does not decode to exactly this
  /// many bytes throws CodecError. The plane's contents are then undefined. A changed byte that still decodes
  /// is for the chunk's checksum to find. The spans do not overlap.
  virtual void decode(std::span<const std::byte> stored, std::span<std::byte> plane) = 0;
};

/// A row of the codec table.
struct CodecRow {
  std::string_view name;  // a row with levels is named "name-LEVEL", or "name" for the usual level
  std::string_view help;
  int first_level = 0, last_level = 0, usual_level = 0;  // all 0: no levels
  bool (*level_exists)(int level) = nullptr;  // within first_level ... last_level; nullptr: all of them
  std::unique_ptr<Codec> (*make)(int level);
};

/// Every codec; the first row is the copy that no codec beats.
std::span<const CodecRow> codec_table();

/// A new object of the codec that is called `name`: "lz4hc", "lz4hc-12", "zstd-literals". Throws InputError
/// with the nearest valid name, or the valid levels.
std::unique_ptr<Codec> find_codec(std::string_view name);

}  // namespace moelab
