#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/import/counts_import.hpp"
#include "traces/import/token_assembler.hpp"
#include "traces/safetensors.hpp"

namespace moelab {
namespace {

// "layers 0, 7, 15 of the input"; empty where they are all from 0.
std::string layers_text(const std::vector<std::uint64_t>& numbers) {
  std::string text = "layers ";
  bool as_counted = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    as_counted = as_counted && numbers[i] == i;
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  }
  return as_counted ? std::string() : text + " of the input";
}

}  // namespace

void write_counts(const CountsTable& table, const ImportTarget& target) {
  std::string provenance = target.provenance;
  const std::string layers = layers_text(table.layer_numbers);
  if (!layers.empty()) provenance += (provenance.empty() ? "" : "; ") + layers;
  std::vector<Tensor> tensors{{"counts",
                               Dtype::u64,
                               {table.prompts, table.layers, table.experts},
                               std::as_bytes(std::span(table.counts))}};
  TensorMetadata metadata{{"format", "moelab-counts"},
                          {"format_version", "1"},
                          {"model", target.model},
                          {"top_k", target.top_k != 0 ? std::to_string(target.top_k) : std::string()},
                          {"provenance", provenance},
                          {"kind", target.synthetic ? "synthetic" : "recorded"}};
  if (!table.domains.empty()) {
    tensors.push_back(
        {"request_domains", Dtype::u16, {table.prompts}, std::as_bytes(std::span(table.prompt_domains))});
    try {
      metadata["domains"] = nlohmann::json(table.domains).dump();
    } catch (const nlohmann::json::exception&) {
      throw InputError(target.out.string(), "cannot be written: a domain's name is not UTF-8");
    }
  }
  write_safetensors(target.out, tensors, metadata);
}

}  // namespace moelab
