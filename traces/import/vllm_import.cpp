// The shape of the responses, as vLLM documents it:
//   https://docs.vllm.ai/en/latest/training/routed_experts/ and tests/entrypoints/openai/
//   test_return_routed_experts.py of vllm-project/vllm: choices[i].routed_experts is a base64-encoded .npy of
//   [prompt_tokens + completion_tokens - 1, layers, k]; the last sampled token is never run.
//   https://docs.vllm.ai/en/v0.21.0/training/routed_experts_replay/: prompt_routed_experts
//   [prompt_tokens, layers, k] beside the choices, and choices[i].routed_experts [generated, layers, k].
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/json_values.hpp"
#include "traces/import/npy.hpp"
#include "traces/import/table_import.hpp"

namespace moelab {
namespace {

constexpr std::string_view kPrompt = "prompt_routed_experts", kChoices = "choices[",
                           kRouted = "].routed_experts";
constexpr std::string_view kPromptTokens = "usage.prompt_tokens", kOutputTokens = "usage.completion_tokens";

bool wanted(std::string_view path) {
  if (path == kPrompt || path == kPromptTokens || path == kOutputTokens) return true;
  if (!path.starts_with(kChoices) || !path.ends_with(kRouted) ||
      path.size() < kChoices.size() + kRouted.size())
    return false;
  path.remove_prefix(kChoices.size());
  path.remove_suffix(kRouted.size());
  return parse_unsigned(path).has_value();
}

// Expert ids [tokens, layers, k] of a request, or of its prompt.
struct Routed {
  std::uint64_t tokens = 0, layers = 0, top_k = 0;
  std::vector<std::int64_t> ids;
};

// RFC 4648, with its padding; nullopt for anything else.
std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::uint8_t, 256> values{};
  values.fill(255);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::uint8_t>(i);
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool padded = i >= text.size() - padding;
    const std::uint8_t value = padded ? std::uint8_t{0} : values[static_cast<unsigned char>(text[i])];
    if (value == 255) return std::nullopt;
    group = group << 6 | value;
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16U, 8U, 0U})
      bytes.push_back(static_cast<std::byte>(group >> shift & 0xffU));
  }
  // The bits that padding leaves over are zero, or the text was damaged.
  for (std::size_t i = 0; i < padding; ++i) {
    if (bytes.back() != std::byte{0}) return std::nullopt;
    bytes.pop_back();
  }
  return bytes;
}

class VllmImport {
 public:
  VllmImport(const std::filesystem::path& input, bool drop_last, const Progress& progress)
      : lines_(input, progress), drop_last_(drop_last) {}

  ImportCounts run(const ImportTarget& target) {
    TokenAssembler assembler(target, false, {}, false);
    try {
      std::string_view line;
      while (lines_.next(line)) {
        if (line.find_first_not_of(" \t") != std::string_view::npos) add_response(assembler, line);
      }
      assembler.finish();
    } catch (const RowError& error) {
      lines_.fail(0, error.what());
    }
    return {assembler.tokens(), assembler.prompt_tokens()};
  }

 private:
  void add_response(TokenAssembler& assembler, std::string_view line) {
    const JsonValues values = read_json_values(line, wanted, lines_.name(), lines_.number());
    const auto prompt = values.find(std::string(kPrompt));
    const Routed shared = prompt != values.end() ? routed(*prompt) : Routed();
    std::uint64_t choices = 0;
    for (const auto& [path, value] : values) choices += path.starts_with(kChoices) ? 1 : 0;
    if (choices == 0)
      lines_.fail(
          0, "has no choices[0].routed_experts; was the server run with --enable-return-routed-experts?");
    for (std::uint64_t i = 0; i < choices; ++i) {
      const auto found = values.find(std::string(kChoices) + std::to_string(i) + std::string(kRouted));
      if (found == values.end()) lines_.fail(0, "some choices have routed_experts and some do not");
      add_choice(assembler, values, shared, routed(*found), choices, i);
    }
  }

  std::uint64_t usage(const JsonValues& values, std::string_view path) const {
    const auto found = values.find(std::string(path));
    if (found == values.end() || found->second.is_text || !found->second.shape.empty() ||
        !found->second.whole || found->second.integers.front() < 0)
      lines_.fail(0, "has no whole number " + shown(path));
    return static_cast<std::uint64_t>(found->second.integers.front());
  }

  void add_choice(TokenAssembler& assembler, const JsonValues& values, const Routed& prompt, Routed routed,
                  std::uint64_t choices, std::uint64_t choice) {
    const std::uint64_t prompt_tokens = usage(values, kPromptTokens);
    if (prompt.tokens != 0) {
      if (prompt.layers != routed.layers || prompt.top_k != routed.top_k)
        lines_.fail(0, "the prompt's experts and the choice's differ in layers or experts a token");
      routed.ids.insert(routed.ids.begin(), prompt.ids.begin(), prompt.ids.end());
      routed.tokens += prompt.tokens;
    }
    if (drop_last_) --routed.tokens;
    // The usage counts the tokens of all choices together.
    const std::uint64_t all_tokens = prompt_tokens + usage(values, kOutputTokens);
    if (all_tokens == 0) lines_.fail(0, "counts no tokens at all in its usage");
    const std::uint64_t due = all_tokens - 1;
    if ((choices == 1 && routed.tokens != due) || routed.tokens < prompt_tokens || routed.tokens > due)
      lines_.fail(0, "choice " + std::to_string(choice) + " has experts for " +
                         std::to_string(routed.tokens) + " tokens; expected " + std::to_string(due) +
                         ", the prompt's and all generated ones but the last" +
                         (routed.tokens == due + 1 ? " (--drop-last leaves out the last row)" : ""));
    const std::string name = std::to_string(lines_.number()) + "/" + std::to_string(choice);
    LayerRow row;
    row.request = name;
    for (std::uint64_t i = 0; i < routed.tokens * routed.layers; ++i) {
      row.token = i / routed.layers;
      row.layer = i % routed.layers;
      row.phase = row.token < prompt_tokens ? Phase::prefill : Phase::decode;
      row.ids = std::span(routed.ids).subspan(i * routed.top_k, routed.top_k);
      assembler.add(row);
    }
  }

  Routed routed(const JsonValues::value_type& entry) const {
    const auto& [path, value] = entry;
    std::vector<std::uint64_t> shape = value.shape;
    std::vector<std::int64_t> ids;
    if (value.is_text) {
      std::optional<std::vector<std::byte>> bytes = decode_base64(value.text);
      if (!bytes) lines_.fail(0, shown(path) + " is not base64");
      const std::size_t most = bytes->size();  // elements, of a byte at least
      NpyArray array(InputStream(lines_.name() + ":" + std::to_string(lines_.number()) + ": " + path,
                                 std::move(*bytes)));
      shape = array.shape();
      std::uint64_t size = 1;
      for (const std::uint64_t extent : shape) size = extent == 0 || size > most / extent ? 0 : size * extent;
      ids.resize(size);
      array.read(ids, "expert ids");
      array.expect_end();
    } else if (value.whole) {
      ids = value.integers;
    }
    if (shape.size() != 3 || ids.empty())
      lines_.fail(0, shown(path) + " does not hold whole numbers [tokens, layers, k]");
    return {shape[0], shape[1], shape[2], std::move(ids)};
  }

  LineReader lines_;
  bool drop_last_;
};

}  // namespace

ImportCounts import_vllm(const std::filesystem::path& input, const ImportTarget& target, bool drop_last,
                         const Progress& progress) {
  return VllmImport(input, drop_last, progress).run(target);
}

}  // namespace moelab
