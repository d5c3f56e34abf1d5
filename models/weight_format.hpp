// How weights are stored: the formats that model files use, and which part of a model is in which.
//
// Bits are those of the file, scales and offsets included, so that bytes are the file's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moelab {

/// Parts of a model that a file may store in different formats. Norms and biases count to what they belong
/// to; `dense` is the FFN of layers without experts; without an embedding of its own (tied) a model's one
/// copy is `head`.
enum class WeightPart : std::uint8_t { attention, dense, shared, router, experts, embedding, head };
inline constexpr std::size_t kWeightParts = 7;
inline constexpr int kMostGroup = 1'000'000;  // weights with one scale
std::string_view to_string(WeightPart part);

struct WeightFormat {
  std::string_view name;  // "q4_k"
  double bits;            // a weight, scales included
  std::string_view source;
  int row_bytes = 0;         // beside the weights of each row of a matrix: a scale
  bool of_ik_llama = false;  // ik_llama.cpp reads it, and llama.cpp does not
  int group = 1;             // weights in a line with one scale that no slice of a matrix may cut
};
/// All formats, those of 16 bits first.
std::span<const WeightFormat> weight_formats();
/// Throws InputError with the closest name.
const WeightFormat& find_weight_format(std::string_view name);

/// What each part of a model is stored as, and what its KV cache is. Parts of which a file mixes formats have
/// the mixture's mean.
struct StoredWeights {
  std::string name = "bf16";  // the whole: "bf16", "gguf-q4_k_m", "experts mxfp4, else bf16"
  std::array<double, kWeightParts> bytes{2, 2, 2, 2, 2, 2, 2};  // a weight
  double kv = 2;  // bytes of a cached value: of keys, values and MLA's latent; states are not of it
  /// Weights in a line with one scale, in parts that are quantised, where a checkpoint says it: FP8's blocks,
  /// GPTQ's and AWQ's groups. 0: as the format's name has it.
  int group = 0;

  double of(WeightPart part) const { return bytes[static_cast<std::size_t>(part)]; }
  /// Less than 16 bits a weight: 8-bit products can compute them. q8_0 has 1.06 bytes.
  bool quantised(WeightPart part) const { return of(part) < 1.5; }
  void set(WeightPart part, double bytes_per_weight) {
    bytes[static_cast<std::size_t>(part)] = bytes_per_weight;
  }
  static StoredWeights uniform(std::string name, double bytes_per_weight);
  /// So many bytes each, in no format of the table; "bf16" for 2.
  static StoredWeights plain(double bytes_per_weight);
  bool operator==(const StoredWeights&) const = default;
};

/// Weights in a line with one scale that no slice of a part may cut: what the checkpoint says, else
/// WeightFormat::group of what the part is stored as, by the name of the whole; 1 where that is no name of
/// such a format. vLLM and SGLang refuse a tensor-parallel slice that is not made of whole groups: vLLM
/// issues 17604 and 21695 (AWQ), Qwen's page on GPTQ. Formats whose slices they pad (MXFP4) have 1, and so
/// has FP8 whose blocks nothing says: what a server converts as it loads has one scale a matrix.
int scale_group(const StoredWeights& stored, WeightPart part);

}  // namespace moelab
