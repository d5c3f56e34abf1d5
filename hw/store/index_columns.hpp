// The index of a chunk store as a safetensors file: columns, metadata and the checksum over them. Private to
// chunk_store_index.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "hw/store/chunk_store.hpp"
#include "traces/safetensors.hpp"

namespace moelab {

using IndexShape = std::vector<std::uint64_t>;

/// The shapes that columns have.
struct IndexShapes {
  IndexShape layers, kinds, tensors, chunks, counts;
  IndexShapes(std::uint64_t layer_count, std::uint64_t experts, std::uint64_t kind_count,
              std::uint64_t chunks_per_tensor)
      : layers{layer_count},
        kinds{kind_count, 2},
        tensors{layer_count, experts, kind_count},
        chunks{layer_count, experts, kind_count, chunks_per_tensor},
        counts{layer_count, 256} {}
};

template <typename T>
constexpr Dtype index_dtype() {
  if constexpr (std::is_same_v<T, double>) return Dtype::f64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Dtype::u64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Dtype::u32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Dtype::u8;
}

/// `values` must outlive what is returned.
template <typename T>
Tensor index_column(std::string name, const IndexShape& shape, const std::vector<T>& values) {
  return {std::move(name), index_dtype<T>(), shape, std::as_bytes(std::span(values)), 0};
}

/// Throws InputError where the file cannot be written.
void write_index_columns(const std::filesystem::path& path, const ChunkStoreDescription& description,
                         std::uint64_t data_bytes, const std::vector<Tensor>& columns);

/// An index file whose format, version and checksum are right. What it says is not yet checked.
class IndexColumns {
 public:
  explicit IndexColumns(const std::filesystem::path& path);

  const std::string& file() const { return file_.name(); }
  /// Model, source, codec and the kinds' names: what the metadata says.
  ChunkStoreDescription description() const;
  std::uint64_t data_bytes() const;
  /// From the shape of "offsets"; sizes that no index has are refused.
  IndexShapes shapes() const;

  /// A copy of the column, which must have this type and shape.
  template <typename T>
  std::vector<T> take(std::string_view name, const IndexShape& shape) const {
    const Tensor& column = find(name, index_dtype<T>(), shape);
    std::vector<T> values(column.data.size() / sizeof(T));
    std::memcpy(values.data(), column.data.data(), column.data.size());
    return values;
  }

 private:
  const Tensor& find(std::string_view name, Dtype dtype, const IndexShape& shape) const;
  const std::string& text(const std::string& name) const;

  SafetensorsFile file_;
};

}  // namespace moelab
