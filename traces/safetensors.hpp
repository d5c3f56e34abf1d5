// Reading and writing safetensors, the container of routing traces and of model checkpoints:
//   8 bytes   n, the header's length, little-endian
//   n bytes   the header, JSON: {"__metadata__": {name: text, ...},
//             tensor: {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//   the rest  the tensors' bytes, row-major, little-endian; offsets count from the first byte after the
//   header
// Format: https://github.com/huggingface/safetensors#format
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace moelab {

/// Element types of safetensors, named as in the format.
enum class Dtype : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// "F32", "BF16", ...
std::string_view name_of(Dtype dtype);
/// Bits an element takes: 4 and 6 for the packed kinds, else a multiple of 8.
unsigned bits_of(Dtype dtype);

/// A tensor of an open file, or one to write. `data` is not owned: of an open file it lives as long as any
/// copy of the SafetensorsFile.
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;  // row-major; empty for a scalar
  std::span<const std::byte> data;
  std::uint64_t file_offset = 0;  // of data's first byte, from the start of the file; not used for writing
};

/// Whether the bytes can be read as T in place: the format promises no alignment.
template <typename T>
bool is_aligned_for(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0;
}

/// The bytes as elements, in place; they must be aligned for T and hold whole elements.
template <typename T>
std::span<const T> elements_of(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(is_aligned_for<T>(bytes) && bytes.size() % sizeof(T) == 0);
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// Names and texts of "__metadata__".
using TensorMetadata = std::map<std::string, std::string>;

/// An open file, mapped read-only; copies share the mapping. Stricter than the format where the format is
/// silent: a tensor has at most 64 dimensions and no fields but the three, and keys may not repeat.
/// A file compressed with zstd, whatever its name, is decompressed into a temporary file first; all offsets
/// are then those of the bytes inside. A file that another process changes while it is open is noticed
/// by check_mapped_files(): replace such files, do not rewrite them in place.
class SafetensorsFile {
 public:
  /// Throws InputError that names the file, the byte and what was wrong; every tensor it returns lies inside
  /// the file and has exactly the bytes that its dtype and shape ask for.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// By their place in the file: together they cover every byte after the header.
  std::span<const Tensor> tensors() const;
  /// nullptr where there is none of this name.
  const Tensor* find(std::string_view name) const;
  const TensorMetadata& metadata() const;
  std::uint64_t file_bytes() const;
  /// What messages call it: its path, and that its bytes are decompressed where they are.
  const std::string& name() const;

 private:
  struct Impl;
  explicit SafetensorsFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Writes a file atomically (see AtomicFile), compressed where its name ends in ".zst". Tensors go by falling
/// dtype size, else in the order given, and the header is padded to 8 bytes: every tensor of whole-byte
/// elements lies aligned to them. Throws InputError when it cannot be written, a text is not UTF-8, a name is
/// taken twice or is "__metadata__".
void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                       const TensorMetadata& metadata);

/// The name in quotes for a message: what is not printable ASCII replaced by '?', cut where it is long.
std::string quoted_name(std::string_view name);

/// "tensor 'a' (F32 [2, 3])", for messages.
std::string describe_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape);

}  // namespace moelab
