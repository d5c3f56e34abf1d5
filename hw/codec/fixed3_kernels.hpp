// The loops of the fixed3 decoder, one set for each kind of vector unit, and the decoder with the set given:
// internal to the codec, its tests and its benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/codec/fixed3_format.hpp"

namespace moelab::fixed3 {

/// What a kernel may read beyond the escapes it uses, and write beyond the symbols it decodes.
inline constexpr std::size_t kSlack = 64;

struct Kernels {
  const char* name;

  /// Decodes `tiles` whole tiles (1 to kTilesInBlock) of codes into `out` and returns how many escapes it
  /// used. Whatever the codes say, reads at most tiles * kTile + kSlack bytes of `escapes`, all of which must
  /// exist, and writes at most tiles * kTile + kSlack bytes of `out`. With `streaming`, this and the others
  /// write around the cache where they can.
  std::size_t (*decode)(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                        std::size_t tiles, std::uint8_t* out, bool streaming);

  /// The same, joined: reads and writes exactly tiles * kTile elements of the planes.
  std::size_t (*decode_join)(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                             std::size_t tiles, const std::uint8_t* sign_mantissa, std::uint16_t* bf16,
                             bool streaming);

  /// bf16[i] = join_one(exponents[i], sign_mantissa[i]).
  void (*join)(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa, std::size_t count,
               std::uint16_t* bf16, bool streaming);
};

/// Null where the program was compiled for another kind of processor; running one that the processor lacks is
/// an illegal instruction: ask kernels_here().
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* neon_kernels();

/// What this processor can run, fastest first; never empty.
const std::vector<const Kernels*>& kernels_here();

/// Outputs of at least this many bytes are written around the cache. Joined values are twice as many as the
/// bytes that were read for them, and soon cost their lines' reading and writing back (on a Zen 5 streaming
/// lost 25 % at 5.8 MB and won 20 % at 16.8 MB; on a Sapphire Rapids it won from 2 MB); planes keep in the
/// last cache for longer (there streaming lost below 16 MiB and won above 32).
inline constexpr std::size_t kStreamPlaneFromBytes = std::size_t{32} << 20;
inline constexpr std::size_t kStreamJoinFromBytes = std::size_t{8} << 20;

/// fixed3_decode and fixed3_decode_join with kernels and threshold given.
void decode_with(const Kernels& kernels, std::size_t stream_from_bytes, std::span<const std::byte> chunk,
                 std::span<std::uint8_t> plane);
void decode_join_with(const Kernels& kernels, std::size_t stream_from_bytes, std::span<const std::byte> chunk,
                      std::span<const std::uint8_t> sign_mantissa, std::span<std::uint16_t> bf16);

/// One BF16 value of its parts.
constexpr std::uint16_t join_one(std::uint8_t exponent, std::uint8_t sign_mantissa) {
  return static_cast<std::uint16_t>((sign_mantissa & 0x80) << 8 | exponent << 7 | (sign_mantissa & 0x7F));
}

}  // namespace moelab::fixed3
