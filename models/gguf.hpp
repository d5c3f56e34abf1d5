// GGUF files, header only: what a model says of itself and which tensors it has. Version 2 and 3, little
// endian (ggml/docs/gguf.md of llama.cpp). Tensor data are never read, so the first megabytes of a file will
// do.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moelab::gguf {

struct Type {
  std::uint32_t id;       // in the file
  std::string_view name;  // "q4_k"
  int block;              // weights that are stored together
  int block_bytes;
};
/// nullptr: no type of that number.
const Type* find_type(std::uint32_t id);

struct TensorInfo {
  std::string name;
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};  // the first runs fastest
  const Type* type = nullptr;
  std::uint64_t offset = 0;  // bytes, from where the file's data begin
  double weights() const {
    return static_cast<double>(shape[0]) * static_cast<double>(shape[1]) * static_cast<double>(shape[2]) *
           static_cast<double>(shape[3]);
  }
  double bytes() const { return weights() / type->block * type->block_bytes; }
};

/// A value of the header. Of arrays: numbers and booleans where there are at most kMostKept, else how many.
struct Array {
  std::uint64_t count = 0;
  std::vector<double> numbers;
};
using Value = std::variant<std::int64_t, double, bool, std::string, Array>;

struct Header {
  std::string file;
  std::map<std::string, Value> values;
  std::vector<TensorInfo> tensors;
  std::uint64_t data_begin = 0;  // byte of the file that tensors' offsets are counted from

  /// nullopt where there is none; throws InputError where it is of another kind or not in [low, high].
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high) const;
  std::string text(const std::string& key) const;  // "" where there is none
};

/// Throws InputError, saying at which byte, for what is no regular file, no GGUF, big-endian, cut within its
/// header, says a number or length that the file's size does not allow, repeats a name, has a type that is
/// not known, a row that its type cannot store, or tensors that overlap.
Header read_header(const std::string& path);

}  // namespace moelab::gguf
