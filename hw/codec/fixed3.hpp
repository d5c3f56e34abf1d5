// fixed3: a fixed-length code for the exponent planes of BF16 weights. Each byte becomes 3 bits: codes 0..6
// for the seven commonest bytes of the plane, 7 for any other, whose byte then stands in a list of escapes.
// Trained weights shrink to about 0.4 (3/8, plus the 2 to 5 % that escape), and decoding needs neither bit
// streams nor branches, so that it runs at the speed of memory. Format and size: FIXED3.md.
//
// Chunks are untrusted: a malformed one throws CodecError, and nothing outside the chunk and the outputs is
// touched. What a decoder had written before it threw is unspecified. A chunk that is well formed but altered
// (a flipped bit in a code) decodes to other bytes: checksums belong to the store of the chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/codec/codec_error.hpp"

namespace moelab {

/// The most bytes that a chunk of `symbols` bytes of plane takes: a plane that does not shrink is stored raw.
std::size_t fixed3_bound(std::size_t symbols);

/// The chunk of a plane; its size depends on the plane's histogram alone (FIXED3.md). Throws CodecError for
/// planes of 2^32 bytes and more.
std::vector<std::byte> fixed3_encode(std::span<const std::uint8_t> plane);

/// Fills `plane`, whose size must be the chunk's number of symbols (CodecError otherwise).
void fixed3_decode(std::span<const std::byte> chunk, std::span<std::uint8_t> plane);

/// Decodes exponents and joins them, in registers or the first-level cache, with their sign-mantissa bytes
/// (sign in bit 7, mantissa in bits 0..6) into BF16 values: sign(1) exponent(8) mantissa(7). Both spans must
/// have the chunk's number of symbols (CodecError otherwise) and must not overlap.
void fixed3_decode_join(std::span<const std::byte> chunk, std::span<const std::uint8_t> sign_mantissa,
                        std::span<std::uint16_t> bf16);

}  // namespace moelab
