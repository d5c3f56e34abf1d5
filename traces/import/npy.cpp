#include "traces/import/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read in place");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint32_t kLongestHeader = 1 << 16;  // bytes
constexpr std::size_t kMostDimensions = 8;

struct TypeRow {
  std::string_view descr;
  NpyType type;
};
constexpr std::array<TypeRow, 15> kTypes{{{"|i1", NpyType::i1},
                                          {"<i2", NpyType::i2},
                                          {"<i4", NpyType::i4},
                                          {"<i8", NpyType::i8},
                                          {"|u1", NpyType::u1},
                                          {"<u2", NpyType::u2},
                                          {"<u4", NpyType::u4},
                                          {"<u8", NpyType::u8},
                                          {"<f2", NpyType::f2},
                                          {"<f4", NpyType::f4},
                                          {"<f8", NpyType::f8},
                                          {"<V2", NpyType::bf16},
                                          {"|V2", NpyType::bf16},
                                          {"|b1", NpyType::u1},
                                          {"bfloat16", NpyType::bf16}}};

// The header is a Python literal with exactly three names; this reads no other Python.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : rest_(text) {}
  bool take(char c) {
    skip();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    skip();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::optional<std::uint64_t> number() {
    skip();
    const std::size_t end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const std::optional<std::uint64_t> value = parse_unsigned(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return value;
  }
  bool at_end() {
    skip();
    return rest_.empty();
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
  std::string_view rest_;
};

std::optional<std::vector<std::uint64_t>> read_shape(HeaderText& text) {
  std::vector<std::uint64_t> shape;
  if (!text.take('(')) return std::nullopt;
  while (!text.take(')')) {
    const std::optional<std::uint64_t> size = text.number();
    if (!size || shape.size() == kMostDimensions) return std::nullopt;
    shape.push_back(*size);
    if (text.take(',')) continue;
    if (!text.take(')')) return std::nullopt;
    break;
  }
  return shape;
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero and subnormal: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t widened = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
}

// Calls `store(i, value)` with every element as its C++ type.
template <typename T, typename Store>
void each(std::span<const std::byte> bytes, Store store) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) store(i, load<T>(bytes.data() + i * sizeof(T)));
}

template <typename Store>
bool each_integer(NpyType type, std::span<const std::byte> bytes, Store store) {
  switch (type) {
    case NpyType::i1:
      each<std::int8_t>(bytes, store);
      return true;
    case NpyType::i2:
      each<std::int16_t>(bytes, store);
      return true;
    case NpyType::i4:
      each<std::int32_t>(bytes, store);
      return true;
    case NpyType::i8:
      each<std::int64_t>(bytes, store);
      return true;
    case NpyType::u1:
      each<std::uint8_t>(bytes, store);
      return true;
    case NpyType::u2:
      each<std::uint16_t>(bytes, store);
      return true;
    case NpyType::u4:
      each<std::uint32_t>(bytes, store);
      return true;
    case NpyType::u8:
      each<std::uint64_t>(bytes, store);
      return true;
    default:
      return false;
  }
}

}  // namespace

const char* name_of(NpyType type) {
  constexpr std::array<const char*, 12> kNames{"i1", "i2", "i4", "i8", "u1", "u2",
                                               "u4", "u8", "f2", "f4", "f8", "bf16"};
  return kNames[static_cast<std::size_t>(type)];
}

std::size_t bytes_of(NpyType type) {
  constexpr std::array<std::size_t, 12> kBytes{1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2};
  return kBytes[static_cast<std::size_t>(type)];
}

NpyArray::NpyArray(InputStream stream) : stream_(std::move(stream)) {
  read_header();
}

NpyArray::NpyArray(InputStream stream, NpyType type, std::vector<std::uint64_t> shape)
    : stream_(std::move(stream)), type_(type), shape_(std::move(shape)) {}

void NpyArray::read_header() {
  std::array<std::byte, 8> start{};
  stream_.read_exactly(start, "the start of a NumPy array");
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0)
    throw InputError(name(), "is not a NumPy array: it should begin with the bytes 93 4e 55 4d 50 59");
  const auto version = std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3)
    stream_.fail("version " + std::to_string(version) + " of NumPy's format; known are 1 to 3");
  std::array<std::byte, 4> length{};
  stream_.read_exactly(std::span(length).first(version == 1 ? 2 : 4), "the header's length");
  const auto size = load<std::uint32_t>(length.data());
  if (size > kLongestHeader)
    stream_.fail("a header of " + std::to_string(size) + " bytes; at most 65536 are read");
  std::string text(size, ' ');
  stream_.read_exactly(std::as_writable_bytes(std::span(text)), "the header");
  parse_header(std::move(text));
}

void NpyArray::parse_header(std::string header) {
  const auto bad = [&](const std::string& what) { stream_.fail("the header before it " + what); };
  HeaderText text(header);
  bool has_descr = false, has_order = false, has_shape = false;
  if (!text.take('{')) bad("is not a dictionary");
  while (!text.take('}')) {
    const std::optional<std::string_view> key = text.quoted();
    if (!key || !text.take(':')) bad("is damaged");
    if (*key == "descr" && !std::exchange(has_descr, true)) {
      const std::optional<std::string_view> descr = text.quoted();
      const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                    [&](const TypeRow& r) { return descr && r.descr == *descr; });
      if (row == kTypes.end())
        bad("gives the type " + shown(descr.value_or("of a record")) +
            "; expected little-endian integers or floats (i1 to u8, f2 to f8) or bfloat16");
      type_ = row->type;
    } else if (*key == "fortran_order" && !std::exchange(has_order, true)) {
      if (!text.take(std::string_view("False")))
        bad("does not say fortran_order: False; save the array with numpy.ascontiguousarray");
    } else if (*key == "shape" && !std::exchange(has_shape, true)) {
      const auto shape = read_shape(text);
      if (!shape) bad("gives no shape of at most 8 sizes");
      shape_ = *shape;
    } else {
      bad("has the name " + shown(*key) + " twice or where none was expected");
    }
    if (text.take(',')) continue;
    if (!text.take('}')) bad("is damaged");
    break;
  }
  if (!text.at_end() || !has_descr || !has_order || !has_shape)
    bad("is damaged: expected descr, fortran_order and shape, once each");
}

std::string NpyArray::shape_text() const {
  std::string text = "[";
  for (std::size_t i = 0; i < shape_.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape_[i]);
  return text + "]";
}

void NpyArray::expect(std::uint64_t count, const std::string& what) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 8;  // of at most 8 bytes each
  stream_.expect(std::min(count, kMost) * bytes_of(type_), what);
}

std::span<const std::byte> NpyArray::take(std::size_t count, const std::string& what) {
  bytes_.resize(count * bytes_of(type_));
  stream_.read_exactly(bytes_, what);
  return bytes_;
}

void NpyArray::read(std::span<std::int64_t> out, const std::string& what) {
  const std::span<const std::byte> bytes = take(out.size(), what);
  bool too_large = false;
  const bool integers = each_integer(type_, bytes, [&](std::size_t i, auto value) {
    too_large |= !std::in_range<std::int64_t>(value);
    out[i] = static_cast<std::int64_t>(value);
  });
  if (!integers) throw InputError(name(), what + " have the type " + name_of(type_) + "; expected integers");
  if (too_large) stream_.fail("one of the " + what + " before it is above 2^63 - 1");
}

void NpyArray::read(std::span<float> out, const std::string& what) {
  const std::span<const std::byte> bytes = take(out.size(), what);
  const auto store = [&](std::size_t i, auto value) { out[i] = static_cast<float>(value); };
  if (each_integer(type_, bytes, store)) return;
  switch (type_) {
    case NpyType::f4:
      each<float>(bytes, store);
      break;
    case NpyType::f8:
      each<double>(bytes, store);
      break;
    case NpyType::f2:
      each<std::uint16_t>(bytes, [&](std::size_t i, std::uint16_t bits) { out[i] = from_half(bits); });
      break;
    default:
      each<std::uint16_t>(bytes, [&](std::size_t i, std::uint16_t bits) {
        out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      });
  }
}

void NpyArray::expect_end() {
  std::byte extra{};
  if (stream_.read(std::span(&extra, 1)) != 0)
    throw InputError(name(), "has more data than its shape " + shape_text() + " asks for, from byte " +
                                 std::to_string(stream_.offset() - 1));
}

void NpyArray::fail(const std::string& what) const {
  stream_.fail(what);
}

}  // namespace moelab
