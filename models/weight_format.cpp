#include "models/weight_format.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {
namespace {

constexpr std::string_view kGgml = "ggml-common.h of llama.cpp: bytes of a block over its weights";
constexpr std::string_view kIk = "ggml-common.h of ik_llama.cpp: bytes of a block of 256 over its weights";
constexpr std::string_view kIeee = "plain";
constexpr std::string_view kMx = "OCP Microscaling Formats 1.0: blocks of 32 with an 8-bit scale";

constexpr std::string_view kPacked = "compressed-tensors, pack-quantized: groups with a 16-bit scale";
constexpr std::string_view kBnb = "bitsandbytes: of 64 weights the largest in 32 bits";
constexpr std::string_view kBnbTwice =
    "bitsandbytes, double quantisation: that in 8 bits, with 32 for 256 of them";

constexpr std::array kFormats{
    WeightFormat{"bf16", 16, kIeee},
    WeightFormat{"fp16", 16, kIeee},
    WeightFormat{"fp32", 32, kIeee},
    // Of a tensor, a channel or a block of 128 x 128 weights (DeepSeek-V3, arXiv 2412.19437, section 3.3), as
    // its maker chose: no group that GPUs could not cut is known from the name.
    WeightFormat{"fp8", 8, "8 bits, and a scale for many weights"},
    WeightFormat{"int8", 8, "one scale a channel"},
    WeightFormat{"gptq-int4", 4.15625, "groups of 128: a 16-bit scale and a 4-bit zero", 0, false, 128},
    WeightFormat{"awq", 4.15625, "groups of 128: a 16-bit scale and a 4-bit zero", 0, false, 128},
    WeightFormat{"gptq-int8", 8.1875, "groups of 128: a 16-bit scale and an 8-bit zero", 0, false, 128},
    WeightFormat{"awq-int8", 8.1875, "groups of 128: a 16-bit scale and an 8-bit zero", 0, false, 128},
    WeightFormat{"mxfp4", 4.25, kMx},
    WeightFormat{"nvfp4", 4.5, "NVIDIA NVFP4: blocks of 16 with an 8-bit scale"},
    WeightFormat{"mxfp8", 8.25, kMx},
    WeightFormat{"int4-g128", 4.125, kPacked, 0, false, 128},
    WeightFormat{"int4-g32", 4.5, kPacked, 0, false, 32},
    WeightFormat{"bnb-int8", 8, "bitsandbytes, LLM.int8(): a 32-bit scale an output"},
    WeightFormat{"bnb-nf4", 4.5, kBnb},
    WeightFormat{"bnb-nf4-dq", 4 + 8 / 64.0 + 32 / (64 * 256.0), kBnbTwice},
    WeightFormat{"bnb-fp4", 4.5, kBnb},
    WeightFormat{"bnb-fp4-dq", 4 + 8 / 64.0 + 32 / (64 * 256.0), kBnbTwice},
    WeightFormat{"mlx-4bit", 4.5, "MLX quantize: groups of 64 with a 16-bit scale and bias"},
    WeightFormat{"mlx-6bit", 6.5, "MLX quantize: groups of 64 with a 16-bit scale and bias"},
    WeightFormat{"mlx-8bit", 8.5, "MLX quantize: groups of 64 with a 16-bit scale and bias"},
    WeightFormat{"q4f16_1", 4.5, "MLC LLM group quantization: 32 weights with a 16-bit scale"},
    WeightFormat{"q8_0", 8.5, kGgml},
    WeightFormat{"q6_k", 6.5625, kGgml},
    WeightFormat{"q5_k", 5.5, kGgml},
    WeightFormat{"q5_1", 6, kGgml},
    WeightFormat{"q5_0", 5.5, kGgml},
    WeightFormat{"q4_k", 4.5, kGgml},
    WeightFormat{"q4_1", 5, kGgml},
    WeightFormat{"q4_0", 4.5, kGgml},
    WeightFormat{"q3_k", 3.4375, kGgml},
    WeightFormat{"q2_k", 2.625, kGgml},
    WeightFormat{"iq4_nl", 4.5, kGgml},
    WeightFormat{"iq4_xs", 4.25, kGgml},
    WeightFormat{"iq3_s", 3.4375, kGgml},
    WeightFormat{"iq3_xxs", 3.0625, kGgml},
    WeightFormat{"iq2_s", 2.5625, kGgml},
    WeightFormat{"iq2_xs", 2.3125, kGgml},
    WeightFormat{"iq2_xxs", 2.0625, kGgml},
    WeightFormat{"iq1_m", 1.75, kGgml},
    WeightFormat{"iq1_s", 1.5625, kGgml},
    WeightFormat{"tq2_0", 2.0625, kGgml},
    WeightFormat{"tq1_0", 1.6875, kGgml},
    WeightFormat{"iq6_k", 6.625, kIk, 0, true},
    WeightFormat{"q6_0", 6.5, "ggml-common.h of ik_llama.cpp: 26 bytes for 32 weights", 0, true},
    WeightFormat{"iq5_k", 5.5, kIk, 0, true},
    WeightFormat{"iq5_ks", 5.25, kIk, 4, true},
    WeightFormat{"iq4_k", 4.5, kIk, 0, true},
    WeightFormat{"iq4_ks", 4.25, kIk, 4, true},
    WeightFormat{"iq4_kss", 4, kIk, 4, true},
    WeightFormat{"iq4_kt", 4, kIk, 4, true},
    WeightFormat{"iq3_k", 3.4375, kIk, 0, true},
    WeightFormat{"iq3_ks", 3.1875, kIk, 2, true},
    WeightFormat{"iq3_kt", 3.125, kIk, 4, true},
    WeightFormat{"iq2_kl", 2.6875, kIk, 2, true},
    WeightFormat{"iq2_k", 2.375, kIk, 0, true},
    WeightFormat{"iq2_ks", 2.1875, kIk, 2, true},
    WeightFormat{"iq2_kt", 2.125, kIk, 4, true},
    WeightFormat{"iq1_kt", 1.75, kIk, 4, true},
};

constexpr std::array<std::string_view, kWeightParts> kParts{"attention", "dense",     "shared", "router",
                                                            "experts",   "embedding", "head"};

}  // namespace

int scale_group(const StoredWeights& stored, WeightPart part) {
  if (stored.group > 0) return stored.quantised(part) ? stored.group : 1;
  std::string_view rest = stored.name;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(one.size() + 2, rest.size()));
    const std::size_t space = one.find(' ');
    const std::string_view of = space == std::string_view::npos ? "else" : one.substr(0, space);
    if (of != to_string(part) && of != "else") continue;
    const std::string_view name = space == std::string_view::npos ? one : one.substr(space + 1);
    const auto format = std::ranges::find(kFormats, name, &WeightFormat::name);
    return format == kFormats.end() ? 1 : format->group;
  }
  return 1;
}

std::string_view to_string(WeightPart part) {
  return kParts[static_cast<std::size_t>(part)];
}

std::span<const WeightFormat> weight_formats() {
  return kFormats;
}

const WeightFormat& find_weight_format(std::string_view name) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const WeightFormat& f) { return f.name == name; });
  if (found != kFormats.end()) return *found;
  std::vector<std::string> known;
  for (const WeightFormat& format : kFormats) known.emplace_back(format.name);
  throw InputError("", "unknown weight format '" + std::string(name) + "'" + suggestion(name, known));
}

StoredWeights StoredWeights::uniform(std::string name, double bytes_per_weight) {
  StoredWeights stored{std::move(name), {}};
  stored.bytes.fill(bytes_per_weight);
  return stored;
}

StoredWeights StoredWeights::plain(double bytes_per_weight) {
  if (bytes_per_weight == 2) return {};
  return uniform(shortest_text(bytes_per_weight) + " bytes a weight", bytes_per_weight);
}

}  // namespace moelab
