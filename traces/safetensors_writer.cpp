#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/output_file.hpp"
#include "traces/safetensors.hpp"
#include "traces/safetensors_header.hpp"

namespace moelab {
namespace {

std::string json_text(const std::string& file, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InputError(file, "cannot be written: the text " + quoted_name(text) + " is not UTF-8");
  }
}

// Appends `"name":{...}` and moves the offset past the tensor's bytes.
void append_tensor(std::string& json, const std::string& file, const Tensor& tensor, std::uint64_t& offset) {
  const std::optional<std::uint64_t> due = tensor_bytes(tensor.dtype, tensor.shape);
  if (!due || tensor.shape.size() > kMaxDimensions)
    throw InputError(file, "cannot be written: " + describe_tensor(tensor.name, tensor.dtype, tensor.shape) +
                               " is no shape that the format has");
  json += json_text(file, tensor.name);
  json += ":{\"dtype\":\"";
  json += name_of(tensor.dtype);
  json += "\",\"shape\":[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i != 0) json += ',';
    json += std::to_string(tensor.shape[i]);
  }
  json += "],\"data_offsets\":[";
  json += std::to_string(offset);
  json += ',';
  offset += *due;
  json += std::to_string(offset);
  json += "]}";
}

void append_metadata(std::string& json, const std::string& file, const TensorMetadata& metadata) {
  json += '"';
  json += kMetadataKey;
  json += "\":{";
  for (auto entry = metadata.begin(); entry != metadata.end(); ++entry) {
    if (entry != metadata.begin()) json += ',';
    json += json_text(file, entry->first);
    json += ':';
    json += json_text(file, entry->second);
  }
  json += '}';
}

std::string header_json(const std::string& file, std::span<const Tensor> tensors,
                        const TensorMetadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) append_metadata(json, file, metadata);
  std::uint64_t offset = 0;
  std::set<std::string_view> names{kMetadataKey};
  for (const Tensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw InputError(file, "cannot be written: the name " + quoted_name(tensor.name) + " is taken");
    }
    if (json.size() > 1) json += ',';
    append_tensor(json, file, tensor, offset);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes) throw InputError(file, "cannot be written: the header is too long");
  return json;
}

}  // namespace

std::string safetensors_preamble(const std::string& file, std::span<const Tensor> tensors,
                                 const TensorMetadata& metadata) {
  const std::string header = header_json(file, tensors, metadata);
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header;
}

std::uint64_t safetensors_bytes(const std::string& preamble, std::span<const Tensor> tensors) {
  std::uint64_t bytes = preamble.size();
  for (const Tensor& tensor : tensors) bytes += tensor_bytes(tensor.dtype, tensor.shape).value_or(0);
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                       const TensorMetadata& metadata) {
  std::vector<Tensor> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Tensor& a, const Tensor& b) { return bits_of(a.dtype) > bits_of(b.dtype); });
  const std::string preamble = safetensors_preamble(path.string(), ordered, metadata);
  for (const Tensor& tensor : ordered)
    if (tensor_bytes(tensor.dtype, tensor.shape) != tensor.data.size())
      throw InputError(path.string(),
                       "cannot be written: " + describe_tensor(tensor.name, tensor.dtype, tensor.shape) +
                           " does not fit its " + std::to_string(tensor.data.size()) + " bytes");
  OutputFile file(path, safetensors_bytes(preamble, ordered));
  file.write(std::as_bytes(std::span(preamble)));
  for (const Tensor& tensor : ordered) file.write(tensor.data);
  file.commit();
}

}  // namespace moelab
