#include "models/config_store.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "models/embedded_configs.hpp"
#include "models/input_error.hpp"
#include "models/text_file.hpp"

namespace moelab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view extension = ".yaml";  // of every embedded file

std::string folder_of(std::string_view kind) {
  return "configs/" + std::string(kind) + "/";
}

const EmbeddedConfig* find_embedded(std::string_view name) {
  const auto configs = embedded_configs();
  const auto found =
      std::find_if(configs.begin(), configs.end(), [&](const auto& config) { return config.name == name; });
  return found == configs.end() ? nullptr : &*found;
}

/// The embedded file of this kind that a path may mean. A path that is in no folder, or that is relative to a
/// file which is embedded itself, counts too.
const EmbeddedConfig* find_embedded_path(std::string_view kind, const fs::path& path, const fs::path& base) {
  const std::string folder = folder_of(kind);
  std::vector<fs::path> candidates = {base / path, path, "configs" / path};
  if (!path.has_parent_path()) candidates.push_back(folder / path);
  for (const fs::path& candidate : candidates) {
    const std::string name = candidate.lexically_normal().generic_string();
    if (!name.starts_with(folder)) continue;
    if (const EmbeddedConfig* config = find_embedded(name)) return config;
  }
  return nullptr;
}

ConfigText copy_of(const EmbeddedConfig& config) {
  return {std::string(config.name), std::string(config.text)};
}

ConfigText find_path(std::string_view kind, std::string_view name, const fs::path& base) {
  const fs::path path(name);
  // An absolute path stays itself behind any base.
  for (const fs::path& candidate : {base / path, path}) {
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored)) return {candidate.string(), read_text_file(candidate)};
  }
  if (const EmbeddedConfig* config = find_embedded_path(kind, path, base)) return copy_of(*config);

  const std::string places = path.is_absolute() ? ""
                             : base.empty()
                                 ? ", neither here nor among the built-in ones"
                                 : ", neither in " + base.string() + " nor here nor among the built-in ones";
  throw InputError("", "no " + one_of_kind(kind) + " file '" + std::string(name) + "'" + places +
                           suggestion(path.stem().string(), config_names(kind)));
}

/// Which command lists the names, of kinds that have one.
std::string listed_by(std::string_view kind) {
  for (const std::string_view has :
       {"models", "devices", "clusters", "systems", "runtimes", "scenarios", "sweeps", "laws"})
    if (kind == has) return "; `moelab " + std::string(kind) + "` lists them";
  return {};
}

}  // namespace

bool is_config_path(std::string_view name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

ConfigText find_config(std::string_view kind, std::string_view name, const std::string& base) {
  if (is_config_path(name)) return find_path(kind, name, base);
  const EmbeddedConfig* const config =
      find_embedded(folder_of(kind) + std::string(name) + std::string(extension));
  if (config != nullptr) return copy_of(*config);
  throw InputError("", "unknown " + one_of_kind(kind) + " '" + std::string(name) + "'" +
                           suggestion(name, config_names(kind)) + listed_by(kind) +
                           "; a file of your own is named by its path, ending in .yaml");
}

std::vector<std::string> config_kinds() {
  constexpr std::size_t kBegin = std::string_view("configs/").size();
  std::vector<std::string> kinds;
  for (const EmbeddedConfig& config : embedded_configs()) {
    const std::string kind(config.name.substr(kBegin, config.name.find('/', kBegin) - kBegin));
    if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
  }
  return kinds;
}

// All kinds are plain plurals, or "quality".
std::string one_of_kind(std::string_view kind) {
  return std::string(kind.substr(0, kind.size() - (kind.ends_with('s') ? 1 : 0)));
}

std::vector<std::string> config_names(std::string_view kind) {
  const std::string folder = folder_of(kind);
  std::vector<std::string> names;
  for (const EmbeddedConfig& config : embedded_configs()) {
    if (!config.name.starts_with(folder)) continue;
    const std::string_view file = config.name.substr(folder.size());
    names.emplace_back(file.substr(0, file.size() - extension.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace moelab
