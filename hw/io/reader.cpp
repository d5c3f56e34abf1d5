#include "hw/io/reader.hpp"

#include <array>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "hw/io/pread_reader.hpp"
#include "hw/io/ring_reader.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr std::array<std::string_view, 3> kModeNames = {"buffered", "direct", "io_uring"};

}  // namespace

std::string_view to_string(ReadMode mode) {
  return kModeNames[static_cast<std::size_t>(mode)];
}

ReadMode read_mode_of(std::string_view name) {
  for (std::size_t mode = 0; mode < kModeNames.size(); ++mode)
    if (kModeNames[mode] == name) return static_cast<ReadMode>(mode);
  const std::vector<std::string> known(kModeNames.begin(), kModeNames.end());
  throw InputError("reader '" + std::string(name) + "'", "is not known" + suggestion(name, known));
}

void Reader::require_sound(const ReadRequest& request) const {
  const std::size_t mask = alignment() - 1, bytes = request.destination.size();
  if (bytes == 0) throw std::invalid_argument("a read has at least one byte");
  if (((request.offset | bytes | reinterpret_cast<std::uintptr_t>(request.destination.data())) & mask) != 0)
    throw std::invalid_argument("a read's offset, size or address is not a multiple of " +
                                std::to_string(mask + 1));
  const std::uint64_t end = (size() + mask) & ~std::uint64_t{mask};
  if (request.offset > end || bytes > end - request.offset)
    throw InputError(source(), "has " + std::to_string(size()) + " bytes; " + std::to_string(bytes) +
                                   " from byte " + std::to_string(request.offset) + " on were asked for");
}

std::unique_ptr<Reader> open_reader(const std::filesystem::path& file, const ReadOptions& options) {
  if (options.depth < 1 || options.depth > kMostReads)
    throw std::invalid_argument("a reader's depth is 1 ... " + std::to_string(kMostReads));
  ReadFile opened(file, options.mode != ReadMode::buffered);
  std::string why = opened.refusal();
  if (options.mode == ReadMode::io_uring) {
    try {
      return std::make_unique<RingReader>(ReadFile(file, true), options.depth, why);
    } catch (const std::system_error& refused) {
      why += (why.empty() ? "" : "; ") + std::string(refused.what());
    }
  }
  return std::make_unique<PreadReader>(std::move(opened), std::move(why));
}

}  // namespace moelab
