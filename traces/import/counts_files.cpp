// Counts from files of PyTorch and of llama.cpp, and several files' counts together.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string_view>

#include "models/gguf.hpp"
#include "models/input_error.hpp"
#include "traces/import/counts_import.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/torch_file.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Tensors of counts in a file of torch.save: itself, or those in its list, tuple or dictionary, by name.
std::vector<std::pair<std::string, Pickle::Node>> tensors_of(const Pickle& pickle) {
  const Pickle::Node root = pickle.root();
  if (pickle.kind(root) == Pickle::Kind::tensor) return {{"its tensor", root}};
  std::vector<std::pair<std::string, Pickle::Node>> tensors;
  const bool dict = pickle.kind(root) == Pickle::Kind::dict;
  if (!dict && pickle.kind(root) != Pickle::Kind::list && pickle.kind(root) != Pickle::Kind::tuple) return {};
  const std::vector<Pickle::Node>& items = pickle.items(root);
  for (std::size_t i = 0; i < items.size(); i += dict ? 2 : 1) {
    const Pickle::Node value = items[i + (dict ? 1 : 0)];
    if (pickle.kind(value) != Pickle::Kind::tensor) continue;
    std::string name = std::to_string(i);
    if (dict && pickle.kind(items[i]) == Pickle::Kind::text) name = pickle.text(items[i]);
    if (dict && pickle.kind(items[i]) == Pickle::Kind::integer)
      name = std::to_string(pickle.integer(items[i]));
    tensors.emplace_back(std::move(name), value);
  }
  return tensors;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Tensors [experts] of the layers, one after the other, as one.
TorchNumbers stacked(const TorchFile& file,
                     const std::vector<std::pair<std::string, Pickle::Node>>& tensors) {
  TorchNumbers all;
  for (const auto& [name, node] : tensors) {
    const TorchNumbers layer = file.numbers(node, name);
    if (layer.shape.size() != 1 || (!all.shape.empty() && layer.shape[0] != all.shape[1]))
      throw InputError(file.name(), "holds " + std::to_string(tensors.size()) + " tensors, of which " +
                                        shown(name) + " has the shape " + shape_text(layer.shape) +
                                        (all.shape.empty() ? ""
                                                           : ", unlike the " + std::to_string(all.shape[1]) +
                                                                 " experts of those before") +
                                        "; expected one tensor [layers, experts] or [prompts, layers, "
                                        "experts], or one [experts] for each layer. "
                                        "Name the tensor with --tensor");
    if (all.shape.empty()) all.shape = {0, layer.shape[0]};
    ++all.shape[0];
    all.values.insert(all.values.end(), layer.values.begin(), layer.values.end());
  }
  return all;
}

/// "blk.12.ffn_up_exps.weight.counts": the layer 12 of a tensor of experts; false for every other name.
bool layer_of_counts(const std::string& name, std::uint64_t& layer, std::string& tensor) {
  constexpr std::string_view kBegin = "blk.", kEnd = ".counts";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.find("_exps.") == std::string::npos)
    return false;
  const std::size_t dot = name.find('.', kBegin.size());
  const std::optional<std::uint64_t> number =
      parse_unsigned(std::string_view(name).substr(kBegin.size(), dot - kBegin.size()));
  if (!number) return false;
  layer = *number;
  tensor = name.substr(dot + 1, name.size() - kEnd.size() - dot - 1);
  return true;
}

/// The counts of a layer: of its tensors of experts, all of which count the same tokens, the first by name.
std::vector<std::uint64_t> read_counts(std::ifstream& in, const gguf::Header& header,
                                       const gguf::TensorInfo& tensor) {
  const auto fail = [&](const std::string& what) {
    throw InputError(header.file, "tensor " + shown(tensor.name) + " " + what);
  };
  if (tensor.type->name != "fp32") fail("is of type " + std::string(tensor.type->name) + "; counts are fp32");
  if (tensor.weights() > kNoExpert) fail("has more than 65535 experts");
  std::vector<float> floats(static_cast<std::size_t>(tensor.weights()));
  in.seekg(static_cast<std::streamoff>(header.data_begin + tensor.offset));
  if (!in.read(reinterpret_cast<char*>(floats.data()),
               static_cast<std::streamsize>(floats.size() * sizeof(float))))
    fail("is cut: the file ends before its " + std::to_string(floats.size()) + " counts");
  std::vector<std::uint64_t> counts;
  for (const float value : floats) {
    if (!(value >= 0 && value < 0x1p53f) || value != std::floor(value))
      fail("has a count of " + std::to_string(value) + "; expected whole numbers of tokens");
    counts.push_back(static_cast<std::uint64_t>(value));
  }
  return counts;
}

}  // namespace

CountsTable import_counts_torch(const std::filesystem::path& input, const std::string& tensor) {
  const TorchFile file(input);
  std::vector<std::pair<std::string, Pickle::Node>> tensors = tensors_of(file.pickle());
  if (!tensor.empty()) {
    std::string names;
    for (const auto& [name, node] : tensors) names += (names.empty() ? "" : ", ") + shown(name);
    std::erase_if(tensors, [&](const auto& named) { return named.first != tensor; });
    if (tensors.empty())
      throw InputError(file.name(),
                       "has no tensor " + shown(tensor) + "; it has " + (names.empty() ? "none" : names));
  }
  if (tensors.empty())
    throw InputError(
        file.name(),
        "holds no tensor of counts; SGLang's recordings are read by 'moelab trace import sglang'");
  const TorchNumbers numbers =
      tensors.size() == 1 ? file.numbers(tensors[0].second, tensors[0].first) : stacked(file, tensors);
  if (numbers.shape.size() != 2 && numbers.shape.size() != 3)
    throw InputError(file.name(),
                     shown(tensors[0].first) + " has the shape " + shape_text(numbers.shape) +
                         "; expected counts [layers, experts] or [prompts, layers, experts]. Ids of "
                         "tokens are read as arrays: moelab trace import npy");
  return counts_from_numbers(file.name(), tensors[0].first, numbers.values, numbers.shape, {});
}

CountsTable import_counts_imatrix(const std::filesystem::path& input) {
  const gguf::Header header = gguf::read_header(input.string());
  if (header.text("general.type") != "imatrix")
    throw InputError(input.string(),
                     "is no importance matrix of llama.cpp: its general.type is " +
                         shown(header.text("general.type")) +
                         ", not 'imatrix'. llama-imatrix writes one with --output-format gguf");
  std::map<std::uint64_t, std::map<std::string, const gguf::TensorInfo*>> layers;
  for (const gguf::TensorInfo& tensor : header.tensors) {
    std::uint64_t layer = 0;
    std::string name;
    if (layer_of_counts(tensor.name, layer, name)) layers[layer].emplace(name, &tensor);
  }
  if (layers.empty())
    throw InputError(input.string(),
                     "has no counts of experts (blk.N.ffn_*_exps.weight.counts): it is of a dense model");
  std::ifstream in(input, std::ios::binary);
  CountsTable table;
  table.prompts = 1;
  for (const auto& [layer, tensors] : layers) {
    const gguf::TensorInfo& first = *tensors.begin()->second;
    const std::vector<std::uint64_t> counts = read_counts(in, header, first);
    if (table.experts == 0) table.experts = static_cast<std::uint32_t>(counts.size());
    if (counts.size() != table.experts)
      throw InputError(input.string(),
                       "tensor " + shown(first.name) + " has " + std::to_string(counts.size()) +
                           " experts, and the layers before have " + std::to_string(table.experts) +
                           "; files written before July 2025 have one count for all experts");
    table.counts.insert(table.counts.end(), counts.begin(), counts.end());
    table.layer_numbers.push_back(layer);
  }
  if (table.experts == 1)
    throw InputError(
        input.string(),
        "has one count for all experts of a layer: it was converted from the form before GGUF, which "
        "does not hold them. Run llama-imatrix again");
  table.layers = static_cast<std::uint32_t>(layers.size());
  return table;
}

void append_counts(CountsTable& all, const CountsTable& more, const std::string& file,
                   const std::string& first) {
  if (all.prompts == 0) {
    all = more;
    return;
  }
  if (more.layers != all.layers || more.experts != all.experts)
    throw InputError(file, "has counts of " + std::to_string(more.layers) + " layers and " +
                               std::to_string(more.experts) + " experts, and " + first + " of " +
                               std::to_string(all.layers) + " and " + std::to_string(all.experts) +
                               "; files of one trace have one shape");
  if (more.layer_numbers != all.layer_numbers)
    throw InputError(file, "has counts of other layers of its model than " + first);
  all.prompts += more.prompts;
  all.counts.insert(all.counts.end(), more.counts.begin(), more.counts.end());
}

}  // namespace moelab
