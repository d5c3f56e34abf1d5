#include "hw/store/index_columns.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr const char* kFormat = "moelab chunk store";
constexpr const char* kIndexVersion = "1";

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void append(std::string& all, std::string_view part) {
  all += std::to_string(part.size()) + ':';
  all += part;
}

/// XXH3 of a text: of each metadata but "checksum", by name, its name and text; of each column, by name, its
/// name, dtype, sizes and the XXH3 of its bytes; each of them after its length in decimal digits and a colon.
std::string index_checksum(std::span<const Tensor> columns, const TensorMetadata& metadata) {
  std::string all;
  for (const auto& [name, text] : metadata) {
    if (name == "checksum") continue;
    append(all, name);
    append(all, text);
  }
  std::vector<const Tensor*> by_name;
  for (const Tensor& column : columns) by_name.push_back(&column);
  std::sort(by_name.begin(), by_name.end(),
            [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  for (const Tensor* column : by_name) {
    append(all, column->name);
    append(all, name_of(column->dtype));
    for (const std::uint64_t size : column->shape) append(all, std::to_string(size));
    append(all, hexadecimal(checksum(column->data)));
  }
  return hexadecimal(checksum(std::as_bytes(std::span(all))));
}

}  // namespace

void write_index_columns(const std::filesystem::path& path, const ChunkStoreDescription& description,
                         std::uint64_t data_bytes, const std::vector<Tensor>& columns) {
  std::string kinds;
  for (const ExpertTensorKind& kind : description.weights.kinds)
    kinds += (kinds.empty() ? "" : ",") + kind.name;
  TensorMetadata metadata = {{"format", kFormat},
                             {"version", kIndexVersion},
                             {"model", description.weights.model},
                             {"source", description.weights.source},
                             {"codec", description.codec},
                             {"kinds", kinds},
                             {"data_bytes", std::to_string(data_bytes)}};
  metadata["checksum"] = index_checksum(columns, metadata);
  write_safetensors(path, columns, metadata);
}

IndexColumns::IndexColumns(const std::filesystem::path& path) : file_(SafetensorsFile::open(path)) {
  if (text("format") != kFormat)
    throw InputError(file(), "is not the index of a chunk store: its format is " +
                                 quoted_name(text("format")) + ", expected '" + kFormat + "'");
  if (text("version") != kIndexVersion)
    throw InputError(file(), "is a chunk store of version " + quoted_name(text("version")) +
                                 "; this program reads version " + kIndexVersion);
  if (text("checksum") != index_checksum(file_.tensors(), file_.metadata()))
    throw InputError(file(), "its checksum is not that of its contents: it is damaged, or was changed");
}

ChunkStoreDescription IndexColumns::description() const {
  ChunkStoreDescription description;
  description.weights.model = text("model");
  description.weights.source = text("source");
  description.codec = text("codec");
  std::string_view names = text("kinds");
  for (std::size_t comma = 0; comma != std::string_view::npos; names.remove_prefix(comma + 1)) {
    comma = names.find(',');
    description.weights.kinds.push_back({std::string(names.substr(0, comma)), 0, 0});
    if (comma == std::string_view::npos) break;
  }
  return description;
}

std::uint64_t IndexColumns::data_bytes() const {
  const std::string& digits = text("data_bytes");
  std::uint64_t bytes = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (read.ec != std::errc() || std::to_string(bytes) != digits)
    throw InputError(file(), "data_bytes is " + quoted_name(digits) + ", expected a number of bytes");
  return bytes;
}

IndexShapes IndexColumns::shapes() const {
  const Tensor* offsets = file_.find("offsets");
  if (offsets == nullptr) throw InputError(file(), "has no column 'offsets'");
  const IndexShape& shape = offsets->shape;
  const bool sound = shape.size() == 4 && shape[3] >= 2 &&
                     std::all_of(shape.begin(), shape.end(), [](auto n) { return n >= 1 && n <= 1U << 20; });
  if (!sound) throw InputError(file(), "column 'offsets' has not the shape [layers, experts, kinds, K + 1]");
  const IndexShapes shapes(shape[0], shape[1], shape[2], shape[3]);
  if (description().weights.kinds.size() != shape[2])
    throw InputError(file(), "'kinds' names not as many tensors as the columns have");
  return shapes;
}

const Tensor& IndexColumns::find(std::string_view name, Dtype dtype, const IndexShape& shape) const {
  const Tensor* column = file_.find(name);
  if (column == nullptr) throw InputError(file(), "has no column " + quoted_name(name));
  if (column->dtype == dtype && column->shape == shape) return *column;
  std::string due;
  for (const std::uint64_t size : shape) due += (due.empty() ? "" : ", ") + std::to_string(size);
  throw InputError(
      file(), "column " + quoted_name(name) + " is not " + std::string(name_of(dtype)) + " [" + due + "]");
}

const std::string& IndexColumns::text(const std::string& name) const {
  const auto found = file_.metadata().find(name);
  if (found != file_.metadata().end()) return found->second;
  throw InputError(file(), "is not the index of a chunk store: it has no '" + name + "' among its metadata");
}

}  // namespace moelab
