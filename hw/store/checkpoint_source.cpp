#include "hw/store/checkpoint_source.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <system_error>

#include "hw/store/checkpoint_tensors.hpp"
#include "models/input_error.hpp"
#include "models/text_file.hpp"
#include "traces/import/json_values.hpp"

namespace moelab {

namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kFileName = "model.safetensors";

/// The file that a path stands for: itself, or what is in the folder.
fs::path checkpoint_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {kIndexName, kFileName})
    if (fs::exists(path / name, ignored)) return path / name;
  throw InputError(path.string(), std::string("holds neither ") + kIndexName + " nor " + kFileName);
}

/// The file of each tensor, by the index's "weight_map".
std::map<std::string, std::string> weight_map(const fs::path& index) {
  constexpr std::string_view kKey = "weight_map.";
  const JsonValues values = read_json_values(
      read_text_file(index), [&](std::string_view path) { return path.starts_with(kKey); }, index.string(),
      1);
  std::map<std::string, std::string> map;
  for (const auto& [path, value] : values) {
    const std::string tensor = path.substr(kKey.size());
    const bool plain = value.is_text && !value.text.empty() &&
                       fs::path(value.text).filename() == value.text && value.text != ".." &&
                       value.text != ".";
    if (!plain)
      throw InputError(index.string(), "weight_map: tensor " + quoted_name(tensor) +
                                           ": expected the name of a file beside the index");
    map.emplace(tensor, value.text);
  }
  if (map.empty()) throw InputError(index.string(), "has no 'weight_map' that says where tensors are");
  return map;
}

std::string identity_of(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  const auto changed = error ? fs::file_time_type{} : fs::last_write_time(path, error);
  if (error) throw InputError(path.string(), "cannot read its status: " + error.message());
  return path.filename().string() + ' ' + std::to_string(bytes) + ' ' +
         std::to_string(changed.time_since_epoch().count()) + '\n';
}

std::string model_name(const fs::path& path, const fs::path& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (file.filename() != kIndexName && file.filename() != kFileName) return file.stem().string();
  return folder.filename().empty() ? fs::absolute(path).stem().string() : folder.filename().string();
}

/// Where the file begins in memory; nullptr where it has no tensors, of which nothing is ever read.
const std::byte* begin_of(const SafetensorsFile& file) {
  if (file.tensors().empty()) return nullptr;
  const Tensor& first = file.tensors().front();
  return first.data.data() - first.file_offset;
}

/// The file as it is on storage; nothing where what is mapped is not that, but decompressed.
std::optional<StoreFile> plain_file(const fs::path& path, const SafetensorsFile& mapped) {
  StoreFile file = StoreFile::open_to_read(path);
  std::array<std::byte, 8> first{};  // the header's length, which no compressed file begins with
  file.read_at(0, first);
  const std::byte* const begin = begin_of(mapped);
  if (begin == nullptr || !std::equal(first.begin(), first.end(), begin)) return {};
  return file;
}

}  // namespace

void CheckpointSource::add_file(const fs::path& path) {
  SafetensorsFile mapped = SafetensorsFile::open(path);
  std::optional<StoreFile> plain = plain_file(path, mapped);
  files_.push_back({std::move(mapped), std::move(plain)});
}

/// Opens the files that the index says experts are in, and adds their tensors.
void CheckpointSource::add_indexed(const fs::path& index, CheckpointTensors& tensors) {
  const std::map<std::string, std::string> map = weight_map(index);
  std::map<std::string, std::vector<std::string>> names;  // of each file's experts
  for (const auto& [tensor, file] : map)
    if (tensors.is_wanted(tensor)) names[file].push_back(tensor);
  for (const auto& [file, wanted] : names) {
    const fs::path path = index.parent_path() / file;
    identity_ += identity_of(path);
    add_file(path);
    const SafetensorsFile& mapped = files_.back().mapped;
    for (const std::string& name : wanted) {
      const Tensor* tensor = mapped.find(name);
      if (tensor == nullptr)
        throw InputError(mapped.name(),
                         "has no tensor " + quoted_name(name) + ", which the index says is in it");
      tensors.add(mapped.name(), *tensor);
    }
  }
}

CheckpointSource::CheckpointSource(const fs::path& path, const std::string& model) {
  const fs::path file = checkpoint_file(path);
  CheckpointTensors tensors(file.string());
  identity_ = identity_of(file);
  if (file.extension() == ".json") {
    add_indexed(file, tensors);
  } else {
    add_file(file);
    const SafetensorsFile& mapped = files_.back().mapped;
    for (const Tensor& tensor : mapped.tensors())
      if (tensors.is_wanted(tensor.name)) tensors.add(mapped.name(), tensor);
  }
  tensors_ = tensors.in_order(weights_);
  weights_.model = model.empty() ? model_name(path, file) : model;
  weights_.source = file.filename().string();
}

void CheckpointSource::read(TensorPlace place, std::span<std::uint16_t> into) const {
  const std::span<const std::byte> bytes = tensors_[ordinal_of(weights_, place)];
  if (into.size_bytes() != bytes.size())
    throw std::invalid_argument("a tensor is read into as many elements");
  // Not from the mapping: what became of a file that was cut short meanwhile would end the program.
  for (const OpenFile& file : files_) {
    const std::byte* const begin = begin_of(file.mapped);
    const bool here =
        !std::less<>()(bytes.data(), begin) && std::less<>()(bytes.data(), begin + file.mapped.file_bytes());
    if (!file.plain || !here) continue;
    file.plain->read_at(static_cast<std::uint64_t>(bytes.data() - begin), std::as_writable_bytes(into));
    return;
  }
  std::memcpy(into.data(), bytes.data(), bytes.size());  // the file promises no alignment
}

}  // namespace moelab
