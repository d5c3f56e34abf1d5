// Models as people have them: a GGUF file, a Hugging Face folder or file, or one of this project's files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "models/architecture.hpp"

namespace moelab {

/// A GGUF file (by its first bytes), a config.json, a model.safetensors.index.json or its folder (the
/// config.json beside it says what it is, and its metadata.total_size what it weighs). Throws InputError: as
/// gguf_import.hpp and hf_import.hpp, and for an index whose size is more than 10 % off what the
/// configuration makes.
Architecture import_model(const std::string& path);

/// In the source of a model whose kind no reader knows by its name.
inline constexpr std::string_view kUnknownModelType = "this type is not known by name";

/// In the source of a model whose config.json does not say how many key-value heads there are.
inline constexpr std::string_view kNoKvHeads = "'num_key_value_heads' is not given";

/// What the import of a model had to assume, which its results hang on: its source; "" where that was
/// nothing.
std::string import_note(const Architecture& model);

/// Where such a file or folder lies that a name says, beside `base` or here; nullopt for this project's own
/// models, which are found first.
std::optional<std::string> find_foreign_model(const std::string& name,
                                              const std::filesystem::path& base = {});

/// Where a hub has the model: "Qwen/Qwen3-30B-A3B" of a source that begins "config.json of
/// Qwen/Qwen3-30B-A3B"; "" of another source.
std::string hub_name(const Architecture& model);

/// What `--model` takes where nothing is routed: a known name, a model file, or anything of import_model().
/// Throws InputError, of a hub's name with the name that the model has here.
Architecture find_model(const std::string& name);

}  // namespace moelab
