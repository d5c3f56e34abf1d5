#include "models/gguf.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "models/input_error.hpp"

namespace moelab::gguf {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMostKept = 4096;  // items of an array
constexpr std::uint64_t kLongestName = 1024;
constexpr std::uint64_t kLongestText = std::uint64_t{16} << 20;
constexpr double kMostWeights = 1e15;  // of one tensor: far more than any model

// ggml-common.h of llama.cpp: the bytes of each block.
constexpr std::array kTypes{
    Type{0, "fp32", 1, 4},        Type{1, "fp16", 1, 2},        Type{2, "q4_0", 32, 18},
    Type{3, "q4_1", 32, 20},      Type{6, "q5_0", 32, 22},      Type{7, "q5_1", 32, 24},
    Type{8, "q8_0", 32, 34},      Type{9, "q8_1", 32, 40},      Type{10, "q2_k", 256, 84},
    Type{11, "q3_k", 256, 110},   Type{12, "q4_k", 256, 144},   Type{13, "q5_k", 256, 176},
    Type{14, "q6_k", 256, 210},   Type{15, "q8_k", 256, 292},   Type{16, "iq2_xxs", 256, 66},
    Type{17, "iq2_xs", 256, 74},  Type{18, "iq3_xxs", 256, 98}, Type{19, "iq1_s", 256, 50},
    Type{20, "iq4_nl", 32, 18},   Type{21, "iq3_s", 256, 110},  Type{22, "iq2_s", 256, 82},
    Type{23, "iq4_xs", 256, 136}, Type{24, "i8", 1, 1},         Type{25, "i16", 1, 2},
    Type{26, "i32", 1, 4},        Type{27, "i64", 1, 8},        Type{28, "f64", 1, 8},
    Type{29, "iq1_m", 256, 56},   Type{30, "bf16", 1, 2},       Type{34, "tq1_0", 256, 54},
    Type{35, "tq2_0", 256, 66},   Type{39, "mxfp4", 32, 17},    Type{40, "nvfp4", 64, 36},
    Type{41, "q1_0", 128, 18},
};

/// Value types of the header.
enum : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };

std::string shown(std::string_view name) {
  std::string text(name.substr(0, 80));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

/// Reads forward and never past the file's end.
class Cursor {
 public:
  explicit Cursor(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) fail("is not a file that can be read");
    size_ = std::filesystem::file_size(path, error);
    stream_.open(path, std::ios::binary);
    if (error || !stream_) fail("cannot be opened");
  }

  std::uint64_t left() const { return size_ - at_; }
  std::uint64_t at() const { return at_; }

  [[noreturn]] void fail(const std::string& what) const { throw InputError(path_, what); }
  [[noreturn]] void fail_here(const std::string& what) const {
    fail("at byte " + std::to_string(at_) + ": " + what);
  }

  template <class T>
  T number(const char* what) {
    T value{};
    bytes(&value, sizeof value, what);
    return value;
  }
  std::string text(std::uint64_t longest, const char* what) {
    const auto length = number<std::uint64_t>(what);
    if (length > longest)
      fail_here(std::string(what) + " of " + std::to_string(length) + " bytes (at most " +
                std::to_string(longest) + ")");
    if (length > left()) cut(what);
    std::string value(length, '\0');
    bytes(value.data(), length, what);
    return value;
  }
  void skip(std::uint64_t count, const char* what) {
    if (count > left()) cut(what);
    // A seek throws the buffer away.
    if (count < 4096)
      stream_.ignore(static_cast<std::streamsize>(count));
    else
      stream_.seekg(static_cast<std::streamoff>(count), std::ios::cur);
    at_ += count;
  }

  [[noreturn]] void cut(const char* what) const {
    fail("ends within its header (" + std::string(what) + " at byte " + std::to_string(at_) + " of " +
         std::to_string(size_) + "): keep more of the file's beginning");
  }

 private:
  void bytes(void* to, std::uint64_t count, const char* what) {
    if (count > left()) cut(what);
    if (!stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(count))) fail("cannot be read");
    at_ += count;
  }

  std::string path_;
  std::ifstream stream_;
  std::uint64_t size_ = 0, at_ = 0;
};

std::uint64_t size_of(std::uint32_t type) {
  constexpr std::array<std::uint64_t, 13> sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < sizes.size() ? sizes[type] : 0;
}

Value read_scalar(Cursor& in, std::uint32_t type) {
  constexpr const char* what = "a value";
  switch (type) {
    case kU8:
      return std::int64_t{in.number<std::uint8_t>(what)};
    case kI8:
      return std::int64_t{in.number<std::int8_t>(what)};
    case kU16:
      return std::int64_t{in.number<std::uint16_t>(what)};
    case kI16:
      return std::int64_t{in.number<std::int16_t>(what)};
    case kU32:
      return std::int64_t{in.number<std::uint32_t>(what)};
    case kI32:
      return std::int64_t{in.number<std::int32_t>(what)};
    case kF32:
      return double{in.number<float>(what)};
    case kBool:
      return in.number<std::uint8_t>(what) != 0;
    case kU64:
      return static_cast<std::int64_t>(
          std::min<std::uint64_t>(in.number<std::uint64_t>(what), std::uint64_t{1} << 62));
    case kI64:
      return in.number<std::int64_t>(what);
    case kF64:
      return in.number<double>(what);
    case kText:
      return in.text(kLongestText, what);
    default:
      in.fail_here("a value of the unknown type " + std::to_string(type));
  }
}

double as_number(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::get<double>(value);
}

Array read_array(Cursor& in) {
  const auto type = in.number<std::uint32_t>("an array");
  Array array;
  array.count = in.number<std::uint64_t>("an array");
  if (type == kText) {
    // Each text takes at least its length's eight bytes, so that the file's end ends the loop.
    for (std::uint64_t i = 0; i < array.count; ++i)
      in.skip(in.number<std::uint64_t>("an array of texts"), "an array of texts");
    return array;
  }
  const std::uint64_t size = size_of(type);
  if (size == 0) in.fail_here("an array of the type " + std::to_string(type) + ", which is not known");
  if (array.count > in.left() / size) in.cut("an array longer than what is left");
  if (array.count > kMostKept)
    in.skip(array.count * size, "an array");
  else
    for (std::uint64_t i = 0; i < array.count; ++i) array.numbers.push_back(as_number(read_scalar(in, type)));
  return array;
}

void read_values(Cursor& in, std::uint64_t count, Header& header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = in.text(kLongestName, "the name of a value");
    const auto type = in.number<std::uint32_t>("a value");
    Value value = type == kArray ? Value(read_array(in)) : read_scalar(in, type);
    if (!header.values.emplace(key, std::move(value)).second)
      in.fail_here("'" + shown(key) + "' for a second time");
  }
}

void read_shape(Cursor& in, TensorInfo& tensor) {
  const std::string name = "tensor '" + shown(tensor.name) + "'";
  const auto dimensions = in.number<std::uint32_t>("a tensor");
  if (dimensions < 1 || dimensions > 4)
    in.fail_here(name + " has " + std::to_string(dimensions) + " dimensions (1 to 4)");
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    const auto length = in.number<std::uint64_t>("a tensor");
    if (length < 1 || length > static_cast<std::uint64_t>(kMostWeights))
      in.fail_here(name + " has a dimension of " + std::to_string(length));
    tensor.shape[d] = static_cast<std::int64_t>(length);
  }
  if (tensor.weights() > kMostWeights) in.fail_here(name + " has more than 1e15 weights");
}

TensorInfo read_tensor(Cursor& in) {
  TensorInfo tensor;
  tensor.name = in.text(kLongestName, "a tensor's name");
  read_shape(in, tensor);
  const auto type = in.number<std::uint32_t>("a tensor");
  tensor.offset = in.number<std::uint64_t>("a tensor");
  tensor.type = find_type(type);
  const std::string name = "tensor '" + shown(tensor.name) + "'";
  if (tensor.type == nullptr)
    in.fail_here(name + " is of the type " + std::to_string(type) + ", which is not known");
  if (tensor.shape[0] % tensor.type->block != 0)
    in.fail_here(name + " has rows of " + std::to_string(tensor.shape[0]) + " weights, which " +
                 std::string(tensor.type->name) + " cannot store (blocks of " +
                 std::to_string(tensor.type->block) + ")");
  return tensor;
}

void read_tensors(Cursor& in, std::uint64_t count, Header& header) {
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    header.tensors.push_back(read_tensor(in));
    if (!names.insert(header.tensors.back().name).second)
      in.fail_here("tensor '" + shown(header.tensors.back().name) + "' for a second time");
  }
}

/// Where each tensor lies.
void check_places(const Cursor& in, std::uint64_t alignment, const Header& header) {
  std::vector<const TensorInfo*> by_place;
  for (const TensorInfo& tensor : header.tensors) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  double end = 0;
  for (const TensorInfo* tensor : by_place) {
    const std::string name = "tensor '" + shown(tensor->name) + "'";
    if (tensor->offset % alignment != 0)
      in.fail(name + " begins at " + std::to_string(tensor->offset) + ", which " + std::to_string(alignment) +
              " (general.alignment) does not divide");
    if (static_cast<double>(tensor->offset) < end) in.fail(name + " overlaps the tensor before it");
    end = static_cast<double>(tensor->offset) + tensor->bytes();
  }
  if (end > 1e18) in.fail("its tensors end at " + std::to_string(end) + ", beyond any file");
}

}  // namespace

const Type* find_type(std::uint32_t id) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.id == id; });
  return found == kTypes.end() ? nullptr : &*found;
}

std::optional<std::int64_t> Header::integer(const std::string& key, std::int64_t low,
                                            std::int64_t high) const {
  const auto found = values.find(key);
  if (found == values.end()) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr) throw InputError(file, "'" + shown(key) + "' has to be an integer");
  if (*value < low || *value > high)
    throw InputError(file, "'" + shown(key) + "' is " + std::to_string(*value) + " (" + std::to_string(low) +
                               " to " + std::to_string(high) + ")");
  return *value;
}

std::string Header::text(const std::string& key) const {
  const auto found = values.find(key);
  if (found == values.end()) return "";
  const auto* value = std::get_if<std::string>(&found->second);
  if (value == nullptr) throw InputError(file, "'" + shown(key) + "' has to be a text");
  return *value;
}

Header read_header(const std::string& path) {
  Cursor in(path);
  Header header;
  header.file = path;
  if (in.number<std::uint32_t>("its first word") != 0x46554747U) in.fail("is no GGUF file");
  const auto version = in.number<std::uint32_t>("its version");
  if (version > 0xFFFF) in.fail("is a big-endian GGUF file, which is not covered");
  if (version != 2 && version != 3)
    in.fail("is of version " + std::to_string(version) + " of GGUF; 2 and 3 are covered");
  const auto tensors = in.number<std::uint64_t>("its number of tensors");
  const auto values = in.number<std::uint64_t>("its number of values");
  read_values(in, values, header);
  read_tensors(in, tensors, header);
  const std::int64_t alignment = header.integer("general.alignment", 1, 1 << 20).value_or(32);
  const auto step = static_cast<std::uint64_t>(alignment);
  check_places(in, step, header);
  header.data_begin = (in.at() + step - 1) / step * step;
  return header;
}

}  // namespace moelab::gguf
