#include "hw/bench/bench_read.hpp"

#include <filesystem>
#include <numeric>
#include <system_error>

namespace moelab {

std::string why_no_room(const BenchWorkspace& workspace) {
  std::error_code error;
  const auto space = std::filesystem::space(workspace.options().folder, error);
  const std::string folder = workspace.options().folder.string();
  if (error) return "no folder to put a file in: " + folder + ": " + error.message();
  if (space.available > 2 * workspace.file_bytes()) return {};
  return "less than " + std::to_string(2 * workspace.file_bytes() >> 20) + " MiB of room in " + folder;
}

BenchReads::BenchReads(const ScratchFile& file, const ReadOptions& options, std::size_t bytes)
    : reader_(open_reader(file.path(), options)),
      bytes_((bytes + kReadAlignment - 1) / kReadAlignment * kReadAlignment),
      depth_(options.depth),
      places_(file.bytes() / bytes_),
      memory_(bytes_ * options.depth) {}

/// Far from the last one, and back only after all others: no read-ahead, nothing that was just read.
std::uint64_t BenchReads::next_offset() {
  std::uint64_t step = places_ * 5 / 8 + 1;
  while (std::gcd(step, places_) != 1) ++step;
  place_ = (place_ + step) % places_;
  return place_ * bytes_;
}

void BenchReads::run(std::size_t reads) {
  std::size_t submitted = 0;
  const auto submit = [&](std::uint64_t slot) {
    reader_->submit({next_offset(), memory_.bytes().subspan(slot * bytes_, bytes_), slot});
    ++submitted;
  };
  for (std::uint64_t slot = 0; slot < reader_->depth() && submitted < reads; ++slot) submit(slot);
  for (std::size_t done = 0; done < reads; ++done) {
    const ReadCompletion completion = reader_->wait();
    if (submitted < reads) submit(completion.tag);
  }
}

std::string BenchReads::check() {
  for (std::size_t slot = 0; slot < reader_->depth(); ++slot) {
    const std::uint64_t offset = next_offset();
    const auto bytes = memory_.bytes().subspan(slot * bytes_, bytes_);
    reader_->submit({offset, bytes, 0});
    reader_->wait();
    if (!ScratchFile::holds(offset, bytes)) return "not the bytes at " + std::to_string(offset);
  }
  return {};
}

}  // namespace moelab
