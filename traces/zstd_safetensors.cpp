#include "traces/zstd_safetensors.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "models/input_error.hpp"
#include "traces/safetensors_header.hpp"
#include "traces/spilled_bytes.hpp"
#include "traces/spool.hpp"
#include "traces/zstd_decoder.hpp"

namespace moelab {
namespace {

// Collects the start of a file until the header there says how long the file is.
class StatedSize {
 public:
  explicit StatedSize(std::string name) : name_(std::move(name)) {}

  // The size, as soon as it is known.
  std::optional<std::uint64_t> take(std::span<const std::byte> bytes);

 private:
  std::string name_;
  std::string start_;
};

std::optional<std::uint64_t> StatedSize::take(std::span<const std::byte> bytes) {
  start_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (start_.size() < kHeaderStart) return std::nullopt;
  const std::uint64_t length = safetensors_header_length(name_, std::as_bytes(std::span(start_)));
  if (start_.size() - kHeaderStart < length) return std::nullopt;
  const auto header = parse_safetensors_header(name_, std::string_view(start_).substr(kHeaderStart, length));
  std::uint64_t data = 0;
  for (const TensorEntry& tensor : header.tensors) data = std::max(data, tensor.end);
  std::uint64_t total = 0;
  if (__builtin_add_overflow(kHeaderStart + length, data, &total))
    fail_at_byte(name_, 0, "the header states more than 2^64 bytes of data");
  return total;
}

// Said before the disk is full, which others may be writing to.
void check_room(const std::string& file, const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  if (!unknown && bytes > space.available)
    throw InputError(file, "decompressed it has " + std::to_string(bytes) + " bytes, for which " +
                               folder.string() + ", with " + std::to_string(space.available) +
                               " free, has no room (TMPDIR names another folder)");
}

}  // namespace

std::string decompressed_name(const std::string& file) {
  return file + " (decompressed)";
}

MappedFile decompress_safetensors(const std::string& file, const MappedFile& compressed) {
  const std::filesystem::path folder = temporary_folder();
  ZstdDecoder decoder(file, compressed);
  Spool spool(file, folder);
  std::optional<StatedSize> header(decompressed_name(file));
  std::optional<std::uint64_t> stated;
  std::uint64_t bytes = 0;
  for (auto part = decoder.next(); !part.empty(); part = decoder.next()) {
    bytes += part.size();
    if (!stated) {
      stated = header->take(part);
      if (stated) {
        header.reset();
        check_room(file, folder, *stated);
      }
    }
    if (stated && bytes > *stated)
      decoder.fail("there is more than the " + std::to_string(*stated) +
                   " bytes that the header of the safetensors file inside states");
    spool.append(part);
  }
  if (!stated || bytes < *stated)
    decoder.fail("the safetensors file inside ends after " + std::to_string(bytes) + " bytes, " +
                 (stated ? "but its header states " + std::to_string(*stated) : "before its header does"));
  return spool.map();
}

}  // namespace moelab
