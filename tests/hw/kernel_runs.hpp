// The kernels as the tests run them on the CPU: every block, every thread, on memory of exactly the size that
// the kernels are promised, so that the address sanitizer sees what goes beyond.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "hw/kernels/kernel_jobs.hpp"
#include "tests/hw/exponent_planes.hpp"
#include "tests/hw/host_team.hpp"

namespace moelab {

/// Bytes at a multiple of 16, followed by what completes the last 16.
class AlignedCopy {
 public:
  explicit AlignedCopy(std::span<const std::byte> bytes) : size_((bytes.size() + 15) / 16) {
    words_ = std::make_unique<kernels::Bytes16[]>(size_);
    if (!bytes.empty()) std::memcpy(words_.get(), bytes.data(), bytes.size());
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(words_.get()); }

 private:
  std::size_t size_;
  std::unique_ptr<kernels::Bytes16[]> words_;
};

/// Sign-mantissa bytes, any: all values occur.
inline std::vector<std::byte> sign_mantissas(std::size_t count, Random& random) {
  std::vector<std::byte> plane(count);
  for (std::byte& b : plane) b = static_cast<std::byte>(random.next());
  return plane;
}

/// From the definition of the planes (planes.hpp), without any of the code under test.
inline std::vector<std::uint16_t> joined(const std::vector<std::byte>& exponents,
                                         const std::vector<std::byte>& signs) {
  std::vector<std::uint16_t> bf16;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    const auto e = std::to_integer<unsigned>(exponents[i]), s = std::to_integer<unsigned>(signs[i]);
    bf16.push_back(static_cast<std::uint16_t>(s / 128 * 32768 + e * 128 + s % 128));
  }
  return bf16;
}

inline constexpr std::uint16_t kUntouched = 0xD1CE;

/// Blocks in the order in which a test takes them: what one writes into another shows.
inline std::vector<std::uint64_t> any_order(std::uint64_t blocks, Random& random) {
  std::vector<std::uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  random.shuffle(std::span<std::uint64_t>(order));
  return order;
}

/// What the kernel made of a chunk: the weights, kUntouched where it wrote none; whether all blocks were
/// sound.
struct Recovered {
  std::vector<std::uint16_t> bf16;
  bool sound = true;
};

/// The huffman kernel on a stream that parses; `window` 0: as the launch chooses it.
inline Recovered run_huffman(std::span<const std::byte> stored, const std::vector<std::byte>& signs,
                             std::uint32_t window, Random& random) {
  const HuffmanStream stream = huffman_parse(stored);
  Recovered result{std::vector<std::uint16_t>(stream.symbols, kUntouched)};
  if (stream.blocks == 0) return result;
  AlignedCopy copy(stored);
  const kernels::HuffmanJob job = kernels::huffman_job(stored, stream, copy.data());
  const HuffmanRuns runs = huffman_runs(stream.lengths);
  if (window == 0) window = kernels::huffman_window(stream);
  const auto staging = std::make_unique<kernels::Bytes8[]>(window / sizeof(kernels::Bytes8));
  HostTeam<kernels::kHuffmanThreads> team(random);
  for (const std::uint64_t b : any_order(stream.blocks, random)) {
    result.sound &= kernels::huffman_recover_block(
        team, job, runs, b, {reinterpret_cast<const std::uint8_t*>(signs.data()), result.bf16.data()},
        reinterpret_cast<std::uint8_t*>(staging.get()), window);
  }
  return result;
}

/// The fixed3 kernel on a chunk that parses; nothing for a raw one, which it does not decode.
inline std::optional<Recovered> run_fixed3(std::span<const std::byte> chunk,
                                           const std::vector<std::byte>& signs, Random& random) {
  const fixed3::View view = fixed3::parse(chunk);
  if (view.mode == fixed3::Mode::raw) return std::nullopt;
  Recovered result{std::vector<std::uint16_t>(view.symbols, kUntouched)};
  AlignedCopy copy(chunk);
  const kernels::Fixed3Job job = kernels::fixed3_job(chunk, view, copy.data());
  HostTeam<kernels::kFixed3Threads> team(random);
  for (const std::uint64_t b : any_order(job.blocks, random)) {
    result.sound &= kernels::fixed3_recover_block(
        team, job, b, {reinterpret_cast<const std::uint8_t*>(signs.data()), result.bf16.data()});
  }
  return result;
}

}  // namespace moelab
