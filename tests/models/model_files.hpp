// The model files of the repository, read without the configuration store.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "models/architecture.hpp"
#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"

namespace moelab::test {

// The published models; beside them configs/models holds kDefaultTraceModel and kValidationModel.
inline constexpr std::string_view kDefaultTraceModel = "debian-moe-8x32";
inline constexpr std::string_view kValidationModel = "validate-8x16";
inline constexpr std::array<std::string_view, 17> kModelNames{
    "deepseek-moe-16b",  "deepseek-v2-lite", "deepseek-v3",     "gpt-oss-120b",  "gpt-oss-20b",
    "kimi-k2",           "mixtral-8x22b",    "mixtral-8x7b",    "olmoe-1b-7b",   "phi-3.5-moe",
    "qwen1.5-moe-a2.7b", "qwen2-57b-a14b",   "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen3-next-80b-a3b",
    "switch-large-128",  "xverse-moe-a4.2b"};

/// Further models, held against nothing but the total that their makers publish, mostly rounded.
inline constexpr std::array<std::string_view, 29> kRoundedModelNames{"dbrx",
                                                                     "deepseek-coder-v2-lite",
                                                                     "deepseek-r1",
                                                                     "deepseek-v2",
                                                                     "deepseek-v3.1",
                                                                     "dots.llm1",
                                                                     "ernie-4.5-21b-a3b",
                                                                     "ernie-4.5-300b-a47b",
                                                                     "glm-4.5",
                                                                     "glm-4.5-air",
                                                                     "glm-4.6",
                                                                     "granite-3.1-1b-a400m",
                                                                     "granite-3.1-3b-a800m",
                                                                     "granite-4.0-h-small",
                                                                     "granite-4.0-h-tiny",
                                                                     "grok-1",
                                                                     "hunyuan-a13b",
                                                                     "llama-4-maverick",
                                                                     "llama-4-scout",
                                                                     "minimax-m2",
                                                                     "moonlight-16b-a3b",
                                                                     "nemotron-3-nano-30b-a3b",
                                                                     "qwen3-coder-30b-a3b",
                                                                     "qwen3-coder-480b-a35b",
                                                                     "qwen3-coder-next",
                                                                     "qwen3.5-122b-a10b",
                                                                     "qwen3.5-35b-a3b",
                                                                     "qwen3.5-397b-a17b",
                                                                     "qwen3.6-35b-a3b"};

/// Dense models, to run beside those with experts.
inline constexpr std::array<std::string_view, 5> kDenseModelNames{"llama-3.1-70b", "llama-3.1-8b",
                                                                  "qwen3-14b", "qwen3-32b", "qwen3-8b"};

inline Architecture model_of_file(std::string_view name) {
  Problems problems;
  const YamlDocument document = YamlDocument::from_file(
      std::string(MOELAB_SOURCE_DIR) + "/configs/models/" + std::string(name) + ".yaml", problems);
  Architecture a = read_architecture(document);
  problems.throw_if_any();
  return a;
}

inline Architecture model_of_text(std::string_view text) {
  Problems problems;
  const YamlDocument document = YamlDocument::from_text("model.yaml", text, problems);
  Architecture a = read_architecture(document);
  problems.throw_if_any();
  return a;
}

}  // namespace moelab::test
