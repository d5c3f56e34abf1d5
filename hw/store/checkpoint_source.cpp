#include "hw/store/checkpoint_source.hpp"

#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

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

/// Opens the files that the index says experts are in, and adds their tensors.
void add_indexed(const fs::path& index, std::vector<SafetensorsFile>& files, std::string& identity,
                 CheckpointTensors& tensors) {
  const std::map<std::string, std::string> map = weight_map(index);
  std::map<std::string, std::vector<std::string>> names;  // of each file's experts
  for (const auto& [tensor, file] : map)
    if (tensors.is_wanted(tensor)) names[file].push_back(tensor);
  for (const auto& [file, wanted] : names) {
    const fs::path path = index.parent_path() / file;
    identity += identity_of(path);
    files.push_back(SafetensorsFile::open(path));
    for (const std::string& name : wanted) {
      const Tensor* tensor = files.back().find(name);
      if (tensor == nullptr)
        throw InputError(files.back().name(),
                         "has no tensor " + quoted_name(name) + ", which the index says is in it");
      tensors.add(files.back().name(), *tensor);
    }
  }
}

}  // namespace

CheckpointSource::CheckpointSource(const fs::path& path, const std::string& model) {
  const fs::path file = checkpoint_file(path);
  CheckpointTensors tensors(file.string());
  identity_ = identity_of(file);
  if (file.extension() == ".json") {
    add_indexed(file, files_, identity_, tensors);
  } else {
    files_.push_back(SafetensorsFile::open(file));
    for (const Tensor& tensor : files_.back().tensors()) {
      if (tensors.is_wanted(tensor.name)) tensors.add(files_.back().name(), tensor);
    }
  }
  tensors_ = tensors.in_order(weights_);
  weights_.model = model.empty() ? model_name(path, file) : model;
  weights_.source = file.filename().string();
}

void CheckpointSource::read(TensorPlace place, std::span<std::uint16_t> into) const {
  const std::span<const std::byte> bytes = tensors_[ordinal_of(weights_, place)];
  if (into.size_bytes() != bytes.size())
    throw std::invalid_argument("a tensor is read into as many elements");
  std::memcpy(into.data(), bytes.data(), bytes.size());  // the file promises no alignment
}

}  // namespace moelab
