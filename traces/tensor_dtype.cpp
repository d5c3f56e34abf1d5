#include <algorithm>
#include <array>

#include "models/input_error.hpp"
#include "traces/safetensors.hpp"
#include "traces/safetensors_header.hpp"

namespace moelab {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  unsigned bits;
};

// In the order of the enumeration, which indexes it.
constexpr std::array<DtypeRow, 22> kDtypes{{
    {Dtype::boolean, "BOOL", 8},
    {Dtype::f4, "F4", 4},
    {Dtype::f6_e2m3, "F6_E2M3", 6},
    {Dtype::f6_e3m2, "F6_E3M2", 6},
    {Dtype::u8, "U8", 8},
    {Dtype::i8, "I8", 8},
    {Dtype::f8_e5m2, "F8_E5M2", 8},
    {Dtype::f8_e4m3, "F8_E4M3", 8},
    {Dtype::f8_e8m0, "F8_E8M0", 8},
    {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::i16, "I16", 16},
    {Dtype::u16, "U16", 16},
    {Dtype::f16, "F16", 16},
    {Dtype::bf16, "BF16", 16},
    {Dtype::i32, "I32", 32},
    {Dtype::u32, "U32", 32},
    {Dtype::f32, "F32", 32},
    {Dtype::c64, "C64", 64},
    {Dtype::f64, "F64", 64},
    {Dtype::i64, "I64", 64},
    {Dtype::u64, "U64", 64},
}};
static_assert([] {
  for (std::size_t i = 0; i < kDtypes.size(); ++i) {
    if (static_cast<std::size_t>(kDtypes[i].dtype) != i) return false;
  }
  return true;
}());

}  // namespace

std::string_view name_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}

unsigned bits_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].bits;
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string quoted_name(std::string_view name) {
  std::string text = "'";
  text += printable(name, 80);
  return text += '\'';
}

std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t bits = bits_of(dtype);
  for (const std::uint64_t size : shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string describe_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape) {
  std::string text = "tensor ";
  text += quoted_name(name);
  text += " (";
  text += name_of(dtype);
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text += "])";
}

}  // namespace moelab
