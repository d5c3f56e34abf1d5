#include "models/model_import.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "models/config_store.hpp"
#include "models/gguf_import.hpp"
#include "models/hf_import.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/text_file.hpp"

namespace moelab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr double kMostOff = 0.1;  // of an index: prediction layers are in it, and scales of quantised weights

bool is_gguf(const fs::path& path) {
  if (path.extension() == ".gguf") return true;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::string magic(4, '\0');
  std::ifstream(path, std::ios::binary).read(magic.data(), 4);
  return magic == "GGUF";
}

/// Bytes of all tensors; 0 where the index does not say.
double index_bytes(const fs::path& index) {
  const nlohmann::json root = nlohmann::json::parse(read_text_file(index.string()), nullptr, false);
  if (!root.is_object() || !root.contains("weight_map"))
    throw InputError(index.string(), "is no index of safetensors: a JSON map with 'weight_map' was expected");
  const auto metadata = root.find("metadata");
  if (metadata == root.end() || !metadata->is_object()) return 0;
  const auto total = metadata->find("total_size");
  return total == metadata->end() || !total->is_number() ? 0 : total->get<double>();
}

Architecture import_index(const fs::path& index) {
  const fs::path config = index.parent_path() / "config.json";
  std::error_code error;
  if (!fs::exists(config, error))
    throw InputError(index.string(),
                     "an index says which tensors there are, not their shapes: config.json has "
                     "to lie beside it");
  const double bytes = index_bytes(index);
  Architecture a = import_hf_config(config.string());
  if (bytes <= 0) return a;
  const double made = total_bytes(a).value();
  if (std::abs(bytes / made - 1) > kMostOff)
    throw InputError(index.string(),
                     "its tensors take " + to_string(Bytes(bytes)) + ", but config.json makes " +
                         to_string(Bytes(made)) + " (" + a.stored.name +
                         "): they are of different models, or in a format that config.json does "
                         "not say");
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%+.1f %%", 100 * (bytes / made - 1));
  a.source += "; its index has " + to_string(Bytes(bytes)) + " (" + percent.data() + ")";
  return a;
}

/// Pipes and devices are not read: one that has no end would be waited for.
Architecture import_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw InputError(path, "does not exist");
  if (!fs::is_regular_file(status)) throw InputError(path, "is not a regular file");
  if (is_gguf(path)) return import_gguf(path);
  if (path.ends_with(kIndexEnding)) return import_index(path);
  return import_hf_config(path);
}

Architecture import_folder(const fs::path& folder) {
  for (const char* name : {"model.safetensors.index.json", "config.json"}) {
    std::error_code error;
    if (fs::exists(folder / name, error)) return import_file((folder / name).string());
  }
  throw InputError(folder.string(), "has no config.json");
}

}  // namespace

Architecture import_model(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? import_folder(path) : import_file(path);
}

std::optional<std::string> find_foreign_model(const std::string& name, const fs::path& base) {
  const std::vector<std::string> known = config_names("models");
  if (std::find(known.begin(), known.end(), name) != known.end()) return std::nullopt;
  for (const fs::path& path : {base / name, fs::path(name)}) {
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    if (is_gguf(path) || path.filename() == "config.json" || path.string().ends_with(kIndexEnding) ||
        fs::is_directory(path, error))
      return path.string();
  }
  return name.ends_with(".gguf") ? std::optional(name) : std::nullopt;  // says that it is not there
}

std::string import_note(const Architecture& model) {
  for (const std::string_view assumed : {kUnknownModelType, kNoKvHeads})
    if (model.source.find(assumed) != std::string::npos) return model.source;
  return {};
}

std::string hub_name(const Architecture& model) {
  constexpr std::string_view kFrom = "config.json of ";
  if (!model.source.starts_with(kFrom)) return {};
  std::string name =
      model.source.substr(kFrom.size(), model.source.find_first_of(" ,;", kFrom.size()) - kFrom.size());
  if (name.ends_with('.')) name.pop_back();  // a sentence's
  return name.find('/') == std::string::npos ? "" : name;
}

Architecture find_model(const std::string& name) {
  const std::optional<std::string> path = find_foreign_model(name);
  if (!path && !is_config_path(name) && name.find('/') != std::string::npos)
    for (const std::string& known : config_names("models"))
      if (hub_name(load_any_architecture(known)) == name)
        throw InputError("", "unknown model '" + shown_word(name) + "': the hub's name of what is called '" +
                                 known + "' here; `moelab models` lists them");
  return path ? import_model(*path) : load_any_architecture(name);
}

}  // namespace moelab
