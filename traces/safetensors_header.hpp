// The JSON header of a safetensors file, and what its reader and writer share. Private to safetensors*.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/safetensors.hpp"

namespace moelab {

/// Where the header starts in a file, and the longest one that the format allows.
inline constexpr std::uint64_t kHeaderStart = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxDimensions = 64;
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// A tensor as the header describes it; data_offsets as found, still to be checked.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t header_byte = 0;  // where in the file its description ends, for messages
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the header's order
  TensorMetadata metadata;
};

/// The header's length, which the first kHeaderStart of these bytes say. Throws InputError where no header is
/// so long.
std::uint64_t safetensors_header_length(const std::string& file, std::span<const std::byte> bytes);

/// Reads the header. Never recurses, whatever the nesting. Throws InputError naming `file` and the byte.
SafetensorsHeader parse_safetensors_header(const std::string& file, std::string_view json);

/// The first bytes of a file with these tensors in this order, whose data follow without gaps: length and
/// header, padded to 8 bytes. Only name, dtype and shape are read. Throws InputError about `file` when a text
/// is not UTF-8, a name is taken twice or is "__metadata__", or a shape overflows.
std::string safetensors_preamble(const std::string& file, std::span<const Tensor> tensors,
                                 const TensorMetadata& metadata);

/// Bytes of the whole file.
std::uint64_t safetensors_bytes(const std::string& preamble, std::span<const Tensor> tensors);

/// The element type of this name, if there is one.
std::optional<Dtype> dtype_named(std::string_view name);

/// Bytes of a tensor; nothing where they overflow 64 bits or are not whole.
std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape);

/// "byte 12: what", as InputError about `file`.
[[noreturn]] void fail_at_byte(const std::string& file, std::uint64_t byte, const std::string& what);

}  // namespace moelab
