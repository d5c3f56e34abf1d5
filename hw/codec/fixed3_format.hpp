// The fixed3 chunk as bytes: what FIXED3.md describes. Internal to the codec and its tests.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace moelab::fixed3 {

inline constexpr std::uint32_t kMagic = 0x33465845;  // "EXF3"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 24;

inline constexpr std::size_t kRow = 64;         // symbols: one bit of each of 64 byte lanes
inline constexpr std::size_t kTile = 8 * kRow;  // symbols whose codes are interleaved
inline constexpr std::size_t kTileBytes = 192;  // 3 bits each
inline constexpr std::size_t kTilesInBlock = 8;
inline constexpr std::size_t kBlock = kTilesInBlock * kTile;  // symbols to an entry of the index
inline constexpr std::size_t kTableSize = 7;

enum class Mode : std::uint8_t { raw = 0, coded = 1 };

/// The seven bytes that have codes of their own, and at [7] a byte that is none of them: looking all codes up
/// in this table marks escapes.
using Table = std::array<std::uint8_t, 8>;

constexpr std::size_t tiles_of(std::size_t symbols) {
  return symbols / kTile + (symbols % kTile != 0);
}
constexpr std::size_t blocks_of(std::size_t symbols) {
  return symbols / kBlock + (symbols % kBlock != 0);
}

/// Bytes of a coded chunk.
constexpr std::size_t coded_bytes(std::size_t symbols, std::size_t escapes) {
  return kHeaderBytes + 4 * blocks_of(symbols) + escapes + kTileBytes * tiles_of(symbols);
}

/// A chunk's parts, found and checked. In mode raw only `symbols` and `raw` mean anything.
struct View {
  Mode mode = Mode::raw;
  std::size_t symbols = 0;
  Table table{};
  std::span<const std::uint8_t> raw;      // mode raw: the plane itself
  const std::uint8_t* index = nullptr;    // mode coded: a little-endian u32 a block, see escapes_before()
  const std::uint8_t* escapes = nullptr;  // in the order of the symbols
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* end = nullptr;  // of the chunk

  /// Escapes of all blocks before `block`.
  std::size_t escapes_before(std::size_t block) const;
};

/// Finds the parts and checks everything that can be checked without decoding: magic, version, reserved
/// bytes, the table, the exact size, and that the index rises to the number of escapes, by no block's size or
/// more. Throws CodecError.
View parse(std::span<const std::byte> chunk);

/// The smallest byte that is not among the seven.
std::uint8_t byte_outside(std::span<const std::uint8_t, kTableSize> table);

template <class T>
T little_endian(T value) {
  if constexpr (std::endian::native == std::endian::little) return value;
  T swapped = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    swapped =
        static_cast<T>(swapped | static_cast<T>((value >> (8 * i)) & 0xFF) << (8 * (sizeof(T) - 1 - i)));
  return swapped;
}

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return little_endian(value);
}

template <class T>
void store(void* to, T value) {
  value = little_endian(value);
  std::memcpy(to, &value, sizeof value);
}

inline constexpr std::uint64_t kLanes = 0x0101010101010101;  // times a byte: that byte in each of eight lanes

/// Bit i: whether lane i of eight codes is 7.
inline std::uint8_t sevens(std::uint64_t codes) {
  // The factor moves bit 0 of lane i to bit 56 + i; no two bits of the product meet.
  return static_cast<std::uint8_t>(((codes & codes >> 1 & codes >> 2 & kLanes) * 0x0102040810204080) >> 56);
}

}  // namespace moelab::fixed3
