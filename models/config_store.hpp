// Where named configurations come from: the files of configs/ are compiled into the program, so that it works
// from any folder, and a user's own file is taken by its path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moelab {

struct ConfigText {
  std::string
      name;  // path as messages show it: the file's own, or "configs/models/x.yaml" for an embedded one
  std::string text;
};

/// Finds a configuration of a kind ("models", "devices", "systems", "scenarios", "quality", "laws",
/// "figures"). `name` is a path when it ends in ".yaml", ".yml" or ".json" (relative to `base`, the folder of
/// the file that names it, then to the working directory, then among the embedded ones), else the stem of an
/// embedded file
/// ("deepseek-v2-lite"). Throws InputError with the closest known name.
ConfigText find_config(std::string_view kind, std::string_view name, const std::string& base = {});

/// Whether a configuration's name is a path.
bool is_config_path(std::string_view name);

/// The kinds of embedded configurations, sorted; and what one of a kind is called: "model" for "models".
std::vector<std::string> config_kinds();
std::string one_of_kind(std::string_view kind);

/// Stems of the embedded configurations of a kind, sorted.
std::vector<std::string> config_names(std::string_view kind);

}  // namespace moelab
