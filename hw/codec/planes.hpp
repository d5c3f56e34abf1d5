// A BF16 tensor as two byte planes, without loss: the exponent plane, which compresses, and the sign-mantissa
// plane, which does not (7.97 of 8 bits of entropy in trained weights).
//
//   BF16, bits 15 ... 0:   s eeeeeeee mmmmmmm
//   exponent plane:          eeeeeeee
//   sign-mantissa plane:   s          mmmmmmm     (the sign is bit 7 of the byte)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moelab {

/// How a result is stored. Streaming stores go past the caches: faster for what exceeds them, slower within.
enum class Stores {
  by_size,    // streaming from kStreamingBytes written on, where the processor has such stores
  cached,     // ordinary stores
  streaming,  // streaming stores where the processor has them (x86-64), else ordinary ones
};

/// Bytes written from which streaming stores pay: measured on a Zen 5 with 32 MiB of L3, where 6 MB are
/// written faster through the cache and 16 MiB faster past it.
inline constexpr std::size_t kStreamingBytes = std::size_t{8} << 20;

/// Splits every weight. Any length; the planes may start at any address. All three spans have the same number
/// of elements (std::invalid_argument otherwise) and must not overlap.
void split_planes(std::span<const std::uint16_t> weights, std::span<std::byte> exponents,
                  std::span<std::byte> sign_mantissas, Stores stores = Stores::by_size);

/// The inverse of split_planes, bit for bit, under the same conditions.
void join_planes(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
                 std::span<std::uint16_t> weights, Stores stores = Stores::by_size);

}  // namespace moelab
