// NumPy's .npy arrays and zip archives of them (.npz), read from front to back.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "traces/import/input_stream.hpp"

namespace moelab {

/// Types of elements, all little-endian. bf16 is what ml_dtypes writes (as two bytes without a type).
enum class NpyType : std::uint8_t { i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8, bf16 };

/// "i4", "bf16", ...; nullopt for an unknown name.
const char* name_of(NpyType type);
std::size_t bytes_of(NpyType type);

/// One array. Throws InputError that names the file and byte: not an array of version 1 to 3, a type other
/// than those above, big-endian or Fortran order, a shape that the data does not fill.
class NpyArray {
 public:
  /// Reads the header.
  explicit NpyArray(InputStream stream);
  /// Elements without a header ("raw"): as many as there are.
  NpyArray(InputStream stream, NpyType type, std::vector<std::uint64_t> shape);

  NpyType type() const { return type_; }
  /// Reads elements as another type of the same size.
  void set_type(NpyType type) { type_ = type; }
  /// Bytes of elements (and a header, where there is one) read so far.
  std::uint64_t offset() const { return stream_.offset(); }
  const std::vector<std::uint64_t>& shape() const { return shape_; }
  std::string shape_text() const;
  const std::string& name() const { return stream_.name(); }

  /// The next elements. As integers: the type must be one (InputError), u8 at most 2^63 - 1. As numbers: any
  /// type. `what`: "expert ids".
  void read(std::span<std::int64_t> out, const std::string& what);
  void read(std::span<float> out, const std::string& what);
  /// Throws InputError where so many elements cannot come any more: to be asked before memory is taken for
  /// them.
  void expect(std::uint64_t count, const std::string& what) const;
  /// Throws InputError unless the data ends here.
  void expect_end();
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void read_header();
  void parse_header(std::string text);
  std::span<const std::byte> take(std::size_t count, const std::string& what);

  InputStream stream_;
  NpyType type_ = NpyType::u1;
  std::vector<std::uint64_t> shape_;
  std::vector<std::byte> bytes_;
};

}  // namespace moelab
