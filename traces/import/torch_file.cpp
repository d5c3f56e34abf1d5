#include "traces/import/torch_file.hpp"

#include <cmath>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kLargestMember = std::uint64_t{16} << 30;  // bytes
constexpr std::uint64_t kLargestPickle = std::uint64_t{1} << 28;   // what says which storages there are

bool has_fractions(NpyType type) {
  return type == NpyType::f2 || type == NpyType::f4 || type == NpyType::f8 || type == NpyType::bf16;
}

/// Floats as whole numbers.
void read_whole(NpyArray& array, std::vector<std::int64_t>& values, const std::string& what) {
  constexpr float kLargest = 9007199254740992.0f;  // 2^53
  std::vector<float> floats(values.size());
  array.read(floats, what);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (!(std::abs(floats[i]) <= kLargest) || floats[i] != std::floor(floats[i]))
      array.fail(
          what + " has " + std::to_string(floats[i]) + " in place " + std::to_string(i) +
          ", which is no whole number; shares are read from a table: moelab trace import counts --scale");
    values[i] = static_cast<std::int64_t>(floats[i]);
  }
}

}  // namespace

TorchFile::TorchFile(const std::filesystem::path& path)
    : name_(path.string()),
      archive_(path),
      prefix_(prefix()),
      pickle_(read("data.pkl", kLargestPickle), name_) {
  const ZipMember* order = archive_.find(prefix_ + "byteorder");
  if (order != nullptr && archive_.read(*order, 16) != "little")
    throw InputError(name_, "was written on a big-endian machine");
}

TorchNumbers TorchFile::numbers(Pickle::Node node, const std::string& what) const {
  if (pickle_.kind(node) != Pickle::Kind::tensor) throw InputError(name_, what + " is not a tensor");
  const PickleTensor& tensor = pickle_.tensor(node);
  std::uint64_t count = 1;
  for (const std::uint64_t size : tensor.shape) count *= size;
  const std::string bytes = read("data/" + tensor.storage, kLargestMember);
  const std::uint64_t width = bytes_of(tensor.type), there = bytes.size() / width;
  if (tensor.offset > there || count > there - tensor.offset)
    throw InputError(name_, what + " reaches beyond its storage of " + std::to_string(there) + " values");
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data()) + tensor.offset * width;
  NpyArray array(InputStream(name_ + ": " + what, {begin, begin + count * width}), tensor.type, tensor.shape);
  TorchNumbers numbers{tensor.shape, std::vector<std::int64_t>(count)};
  if (has_fractions(tensor.type))
    read_whole(array, numbers.values, what);
  else
    array.read(numbers.values, what);
  return numbers;
}

std::string TorchFile::prefix() const {
  for (const ZipMember& member : archive_.members()) {
    if (member.name.ends_with("/data.pkl")) return member.name.substr(0, member.name.size() - 8);
  }
  throw InputError(name_, "is not a file of torch.save: it holds no data.pkl");
}

std::string TorchFile::read(const std::string& member, std::uint64_t largest) const {
  return archive_.read(archive_.member(prefix_ + member), largest);
}

}  // namespace moelab
