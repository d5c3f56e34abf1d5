#include "traces/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "traces/mapped_file.hpp"
#include "traces/safetensors_header.hpp"
#include "traces/zstd_decoder.hpp"
#include "traces/zstd_safetensors.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors files are read in place");

namespace moelab {
namespace {

std::string_view header_text(const std::string& file, std::span<const std::byte> bytes) {
  const std::uint64_t length = safetensors_header_length(file, bytes);
  if (length > bytes.size() - kHeaderStart) {
    fail_at_byte(file, 0,
                 "the header's length is " + std::to_string(length) + " bytes, but the file ends after " +
                     std::to_string(bytes.size()));
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kHeaderStart, length};
}

void check_entry(const std::string& file, const TensorEntry& entry, std::uint64_t data_bytes) {
  const std::string tensor = describe_tensor(entry.name, entry.dtype, entry.shape);
  const std::string offsets =
      "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  if (entry.begin > entry.end)
    fail_at_byte(file, entry.header_byte, tensor + ": " + offsets + " run backwards");
  if (entry.end > data_bytes) {
    fail_at_byte(file, entry.header_byte,
                 tensor + ": " + offsets + " end beyond the file's " + std::to_string(data_bytes) +
                     " bytes of data (a file cut short?)");
  }
  const std::optional<std::uint64_t> due = tensor_bytes(entry.dtype, entry.shape);
  if (!due) {
    fail_at_byte(file, entry.header_byte, tensor + ": the shape overflows or does not fill whole bytes");
  }
  if (*due != entry.end - entry.begin) {
    fail_at_byte(file, entry.header_byte,
                 tensor + ": " + offsets + " hold " + std::to_string(entry.end - entry.begin) +
                     " bytes, but dtype and shape ask for " + std::to_string(*due));
  }
}

// By their place in the file, which they must cover without a gap or an overlap. A gap could hide anything.
void sort_and_check(const std::string& file, std::vector<TensorEntry>& entries, std::uint64_t data_start,
                    std::uint64_t data_bytes) {
  for (const TensorEntry& entry : entries) check_entry(file, entry, data_bytes);
  std::stable_sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != covered) {
      fail_at_byte(file, data_start + std::min(entry.begin, covered),
                   entry.begin < covered
                       ? "tensor " + quoted_name(entry.name) + " overlaps the tensor before it"
                       : "the " + std::to_string(entry.begin - covered) + " bytes before tensor " +
                             quoted_name(entry.name) + " belong to no tensor");
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    fail_at_byte(file, data_start + covered,
                 "the last " + std::to_string(data_bytes - covered) + " bytes belong to no tensor");
  }
}

}  // namespace

struct SafetensorsFile::Impl {
  explicit Impl(const std::filesystem::path& path) : name(path.string()), mapping(MappedFile::open(path)) {
    if (!starts_zstd(mapping.bytes())) return;
    mapping = decompress_safetensors(name, mapping);
    name = decompressed_name(name);
  }

  std::string name;
  MappedFile mapping;
  std::vector<Tensor> tensors;
  std::map<std::string, std::size_t, std::less<>> index;
  TensorMetadata metadata;
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  const auto impl = std::make_shared<Impl>(path);
  const std::string& file = impl->name;
  const std::span<const std::byte> bytes = impl->mapping.bytes();
  if (bytes.size() < kHeaderStart)
    fail_at_byte(file, bytes.size(), "the file ends before the 8 bytes that start a safetensors file");
  const std::string_view json = header_text(file, bytes);
  SafetensorsHeader header = parse_safetensors_header(file, json);

  const std::uint64_t data_start = kHeaderStart + json.size();
  const std::span<const std::byte> data = bytes.subspan(data_start);
  sort_and_check(file, header.tensors, data_start, data.size());
  impl->tensors.reserve(header.tensors.size());
  for (TensorEntry& entry : header.tensors) {
    impl->index.emplace(entry.name, impl->tensors.size());
    impl->tensors.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                             data.subspan(entry.begin, entry.end - entry.begin), data_start + entry.begin});
  }
  impl->metadata = std::move(header.metadata);
  return SafetensorsFile(impl);
}

std::span<const Tensor> SafetensorsFile::tensors() const {
  return impl_->tensors;
}

const Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = impl_->index.find(name);
  return found == impl_->index.end() ? nullptr : &impl_->tensors[found->second];
}

const TensorMetadata& SafetensorsFile::metadata() const {
  return impl_->metadata;
}

const std::string& SafetensorsFile::name() const {
  return impl_->name;
}

std::uint64_t SafetensorsFile::file_bytes() const {
  return impl_->mapping.bytes().size();
}

}  // namespace moelab
