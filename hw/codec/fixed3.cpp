#include "hw/codec/fixed3.hpp"

#include <algorithm>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "hw/codec/cpu_features.hpp"
#include "hw/codec/fixed3_kernels.hpp"

namespace moelab {
namespace fixed3 {
namespace {

/// Orders a streaming decoder's stores before whatever its thread does next, also if that is throwing. Once a
/// decoder: a fence waits for memory.
class StreamingScope {
 public:
  explicit StreamingScope(bool streaming) : streaming_(streaming) {}
  StreamingScope(const StreamingScope&) = delete;
  StreamingScope& operator=(const StreamingScope&) = delete;
  ~StreamingScope() {
#if defined(__x86_64__)
    if (streaming_) _mm_sfence();
#endif
  }
  bool streaming() const {
    return streaming_;
  }

 private:
  const bool streaming_;
};

/// A coded chunk, block by block. A block's escapes are read in place wherever the bytes that follow them in
/// the chunk are enough for any number of escapes: the kernels then need no checks, because whatever the
/// codes say, they stay inside. The number used is compared with the index after the fact.
class Blocks {
 public:
  explicit Blocks(const View& view) : view_(view) {}

  std::size_t count() const { return blocks_of(view_.symbols); }
  std::size_t symbols(std::size_t block) const { return std::min(kBlock, view_.symbols - block * kBlock); }

  /// Calls kernel(table, codes, escapes, tiles), which returns how many escapes it used.
  template <class Kernel>
  void decode(std::size_t block, Kernel kernel) {
    const std::size_t tiles = tiles_of(symbols(block));
    const std::size_t before = view_.escapes_before(block),
                      expected = view_.escapes_before(block + 1) - before;
    const std::uint8_t* escapes = view_.escapes + before;
    if (static_cast<std::size_t>(view_.end - escapes) < tiles * kTile + kSlack) {
      std::copy_n(escapes, expected, padded_escapes_);
      escapes = padded_escapes_;
    }
    const std::uint8_t* codes = view_.codes + block * kTilesInBlock * kTileBytes;
    const std::size_t used = kernel(view_.table, codes, escapes, tiles);
    if (used != expected)
      throw CodecError("fixed3 chunk: block " + std::to_string(block) + " has " + std::to_string(used) +
                       " escapes, the index says " + std::to_string(expected));
  }

 private:
  const View& view_;
  std::uint8_t padded_escapes_[kBlock + kSlack] = {};
};

void check_symbols(const View& view, std::size_t expected, const char* what) {
  if (view.symbols != expected)
    throw CodecError("fixed3 chunk: " + std::to_string(view.symbols) + " symbols, expected " +
                     std::to_string(expected) + " by the size of the " + what);
}

std::vector<const Kernels*> find_kernels() {
  const CpuFeatures& cpu = cpu_features();
  std::vector<const Kernels*> found;
  if (cpu.avx512_vbmi2) found.push_back(avx512_kernels());
  if (cpu.avx2) found.push_back(avx2_kernels());
  if (cpu.neon) found.push_back(neon_kernels());
  found.push_back(portable_kernels());
  std::erase(found, nullptr);
  return found;
}

}  // namespace

const std::vector<const Kernels*>& kernels_here() {
  static const std::vector<const Kernels*> found = find_kernels();
  return found;
}

void decode_with(const Kernels& kernels, std::size_t stream_from_bytes, std::span<const std::byte> chunk,
                 std::span<std::uint8_t> plane) {
  const View view = parse(chunk);
  check_symbols(view, plane.size(), "plane");
  if (view.mode == Mode::raw) {
    std::copy(view.raw.begin(), view.raw.end(), plane.begin());
    return;
  }
  const StreamingScope scope(plane.size() >= stream_from_bytes);
  Blocks blocks(view);
  for (std::size_t block = 0; block < blocks.count(); ++block) {
    const std::span<std::uint8_t> rest = plane.subspan(block * kBlock);
    if (rest.size() >= kBlock + kSlack) {
      blocks.decode(block, [&](const auto&... parts) {
        return kernels.decode(parts..., rest.data(), scope.streaming());
      });
    } else {
      std::uint8_t buffer[kBlock + kSlack];
      blocks.decode(block, [&](const auto&... parts) { return kernels.decode(parts..., buffer, false); });
      std::copy_n(buffer, blocks.symbols(block), rest.data());
    }
  }
}

void decode_join_with(const Kernels& kernels, std::size_t stream_from_bytes, std::span<const std::byte> chunk,
                      std::span<const std::uint8_t> sign_mantissa, std::span<std::uint16_t> bf16) {
  const View view = parse(chunk);
  check_symbols(view, sign_mantissa.size(), "sign-mantissa plane");
  check_symbols(view, bf16.size(), "output");
  const StreamingScope scope(bf16.size_bytes() >= stream_from_bytes);
  if (view.mode == Mode::raw)
    return kernels.join(view.raw.data(), sign_mantissa.data(), bf16.size(), bf16.data(), scope.streaming());
  Blocks blocks(view);
  for (std::size_t block = 0; block < blocks.count(); ++block) {
    const std::uint8_t* other = sign_mantissa.data() + block * kBlock;
    std::uint16_t* to = bf16.data() + block * kBlock;
    if (blocks.symbols(block) % kTile == 0) {
      blocks.decode(block, [&](const auto&... parts) {
        return kernels.decode_join(parts..., other, to, scope.streaming());
      });
    } else {
      std::uint8_t buffer[kBlock + kSlack];
      blocks.decode(block, [&](const auto&... parts) { return kernels.decode(parts..., buffer, false); });
      kernels.join(buffer, other, blocks.symbols(block), to, scope.streaming());
    }
  }
}

}  // namespace fixed3

std::size_t fixed3_bound(std::size_t symbols) {
  return fixed3::kHeaderBytes + symbols;
}

void fixed3_decode(std::span<const std::byte> chunk, std::span<std::uint8_t> plane) {
  fixed3::decode_with(*fixed3::kernels_here().front(), fixed3::kStreamPlaneFromBytes, chunk, plane);
}

void fixed3_decode_join(std::span<const std::byte> chunk, std::span<const std::uint8_t> sign_mantissa,
                        std::span<std::uint16_t> bf16) {
  fixed3::decode_join_with(*fixed3::kernels_here().front(), fixed3::kStreamJoinFromBytes, chunk,
                           sign_mantissa, bf16);
}

}  // namespace moelab
