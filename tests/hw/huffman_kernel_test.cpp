// The Huffman kernel's body on the CPU: on sound streams against the plane that was encoded, on damaged ones
// against the CPU's decoder, which refuses a block wherever the kernel has to.
#include <catch2/catch.hpp>

#include "hw/codec/codec_error.hpp"
#include "tests/hw/kernel_runs.hpp"
#include "tests/random_runs.hpp"

namespace moelab::huffman_kernel_test {
namespace {

TEST_CASE("a run holds the codes that single lookups yield one after another") {
  Random random(11);
  for (const NamedPlane& plane : all_kinds_of_planes()) {
    if (plane.bytes.empty()) continue;
    INFO(plane.name);
    const HuffmanLengths lengths = huffman_lengths(count_bytes(plane.bytes));
    const std::array<std::uint16_t, 256> codes = canonical_codes(lengths);
    const HuffmanRuns runs = huffman_runs(lengths);
    const bool alone = std::ranges::count(lengths, 0) == 255;
    for (unsigned index = 0; index < 1U << kHuffmanMaxLength; ++index) {
      unsigned at = 0;
      const unsigned count = runs.steps[index] >> 4 & 7;
      REQUIRE((count >= 1 && count <= kMaxRun));
      for (unsigned i = 0; i < count; ++i) {
        const unsigned symbol = runs.symbols[index] >> (8 * i) & 0xFF, length = lengths[symbol];
        REQUIRE(length > 0);
        REQUIRE((alone || (index >> at & ((1U << length) - 1)) == codes[symbol]));
        at += length;
        if (i == 0) REQUIRE(runs.steps[index] >> 8 == length);
      }
      REQUIRE(at == (runs.steps[index] & 15));
      REQUIRE(at <= kHuffmanMaxLength);
      if (count < kMaxRun) {
        REQUIRE(runs.symbols[index] >> (8 * count) == 0);
        // Nothing that is left in the index is a whole code.
        const bool another = [&] {
          for (unsigned b = 0; b < 256; ++b)
            if (lengths[b] > 0 && at + lengths[b] <= kHuffmanMaxLength &&
                (index >> at & ((1U << lengths[b]) - 1)) == codes[b])
              return true;
          return false;
        }();
        REQUIRE_FALSE(another);
      }
    }
  }
}

TEST_CASE("the Huffman kernel decodes and joins every kind of plane, segment and window") {
  Random random(12);
  for (const NamedPlane& plane : all_kinds_of_planes()) {
    const std::vector<std::byte> signs = sign_mantissas(plane.bytes.size(), random);
    const std::vector<std::uint16_t> expected = joined(plane.bytes, signs);
    for (const std::size_t segment_bytes : {8, 16, 32, 64}) {
      const std::vector<std::byte> stored = huffman_encode(plane.bytes, segment_bytes);
      for (const std::uint32_t window : {0, 8, 104, 4096}) {
        if (window == 8 && plane.bytes.size() > 1000 && segment_bytes != 8) continue;  // takes long
        // Of each size of segment one window of large planes, of each window one size.
        if (test::kFewerRuns && plane.bytes.size() > 1000 &&
            segment_bytes != (window == 8     ? 8
                              : window == 104 ? 16
                              : window == 0   ? 32
                                              : 64))
          continue;
        INFO(plane.name << ", segments of " << segment_bytes << ", window " << window);
        const Recovered result = run_huffman(stored, signs, window, random);
        REQUIRE(result.sound);
        REQUIRE((result.bf16 == expected));
      }
    }
  }
}

/// A plane of a few to 256 values, common and rare ones.
std::vector<std::byte> any_plane(std::size_t count, Random& random) {
  std::vector<std::byte> plane =
      uniform_plane(count, 1 + static_cast<unsigned>(random.below(256)), random.next());
  if (random.below(2) == 0) return plane;
  const std::size_t rare = 1 + random.below(60);
  for (std::byte& b : plane)
    if (random.below(rare) > 0) b = static_cast<std::byte>(120 + random.below(1 + random.below(8)));
  return plane;
}

TEST_CASE("the Huffman kernel decodes random planes of every length") {
  Random random(13);
  for (std::size_t round = 0; round < test::random_runs(std::size_t{2000}, std::size_t{650}); ++round) {
    const std::size_t count = round < test::random_runs(std::size_t{650}, std::size_t{130})
                                  ? round % 65
                                  : random.below(round % 50 == 0 ? 30'000 : 600);
    const std::vector<std::byte> plane = any_plane(count, random), signs = sign_mantissas(count, random);
    const std::vector<std::byte> stored = huffman_encode(plane, std::size_t{8} << random.below(4));
    INFO("round " << round << ", " << count << " symbols");
    const auto window = static_cast<std::uint32_t>(random.below(3) == 0 ? 8 * (1 + random.below(40)) : 0);
    const Recovered result = run_huffman(stored, signs, window, random);
    REQUIRE(result.sound);
    REQUIRE((result.bf16 == joined(plane, signs)));
  }
}

/// Runs both decoders on a damaged stream; false where it does not even parse.
bool same_outcome(const std::vector<std::byte>& stored, const std::vector<std::byte>& signs, Random& random,
                  int& refused) {
  try {
    if (huffman_parse(stored).symbols != signs.size()) return false;
  } catch (const CodecError&) {
    return false;
  }
  std::vector<std::byte> plane(signs.size());
  bool sound = true;
  try {
    huffman_decode(stored, plane);
  } catch (const CodecError&) {
    sound = false;
  }
  const Recovered result = run_huffman(stored, signs, 256, random);
  REQUIRE(result.sound == sound);
  if (sound) REQUIRE((result.bf16 == joined(plane, signs)));
  refused += !sound;
  return true;
}

TEST_CASE("the Huffman kernel refuses the damaged streams that the CPU refuses, and stays inside") {
  Random random(14);
  int parsed = 0, refused = 0;
  for (int round = 0; round < test::random_runs(3000, 600); ++round) {
    const std::size_t count = 1 + random.below(round % 20 == 0 ? 9000 : 400);
    const std::vector<std::byte> plane = any_plane(count, random), signs = sign_mantissas(count, random);
    std::vector<std::byte> stored = huffman_encode(plane, std::size_t{8} << random.below(4));
    const std::size_t gaps = (huffman_parse(stored).segments + 1) / 2;
    const auto damage = [&](std::size_t first, std::size_t size) {
      stored[first + random.below(size)] ^= static_cast<std::byte>(1U << random.below(8));
    };
    for (std::size_t times = 1 + random.below(3); times > 0; --times) {
      switch (random.below(4)) {
        case 0:
          damage(stored.size() - gaps, gaps);
          break;
        case 1:
          damage(0, stored.size());
          break;
        default:
          damage(kHuffmanHeaderBytes, stored.size() - kHuffmanHeaderBytes - gaps);
          break;
      }
    }
    INFO("round " << round);
    parsed += same_outcome(stored, signs, random, refused);
  }
  CHECK(parsed > test::random_runs(1000, 150));
  CHECK(refused > test::random_runs(300, 45));
  CHECK(parsed - refused > test::random_runs(100, 12));  // a changed code may well decode
}

TEST_CASE("an unsound block writes nothing, and the blocks beside it are right") {
  Random random(15);
  const std::vector<std::byte> plane = gaussian_plane(60'000, 16),
                               signs = sign_mantissas(plane.size(), random);
  std::vector<std::byte> stored = huffman_encode(plane, 16);
  const std::size_t gaps_at = stored.size() - (huffman_parse(stored).segments + 1) / 2;
  // The gap of segment 300: block 1 starts it elsewhere, and finds it not to be where segment 299 ends.
  std::byte& gap = stored[gaps_at + 150];
  gap = (gap & std::byte{0xF0}) | ((gap & std::byte{0x0F}) == std::byte{0} ? std::byte{1} : std::byte{0});
  const HuffmanStream stream = huffman_parse(stored);
  REQUIRE(stream.blocks > 3);
  std::vector<std::uint16_t> expected = joined(plane, signs);
  std::fill(expected.begin() + static_cast<std::ptrdiff_t>(stream.position(1)),
            expected.begin() + static_cast<std::ptrdiff_t>(stream.position(2)), kUntouched);
  const Recovered result = run_huffman(stored, signs, 0, random);
  CHECK_FALSE(result.sound);
  CHECK((result.bf16 == expected));
}

TEST_CASE("the window holds a whole block where it can") {
  const std::vector<std::byte> gaussian = gaussian_plane(100'000, 17);
  for (const std::size_t segment_bytes : {8, 16}) {
    const std::vector<std::byte> stored = huffman_encode(gaussian, segment_bytes);
    const HuffmanStream stream = huffman_parse(stored);
    const std::uint32_t window = kernels::huffman_window(stream);
    CHECK(window % kernels::kGroupElements == 0);
    for (std::size_t b = 0; b < stream.blocks; ++b)
      CHECK(window >= stream.position(b + 1) - stream.position(b) / 8 * 8);
  }
  // 64-byte segments of one-bit codes: 131,072 symbols a block.
  const std::vector<std::byte> constant = huffman_encode(std::vector<std::byte>(200'000), 64);
  CHECK(kernels::huffman_window(huffman_parse(constant)) == kernels::kMaxWindow);
}

}  // namespace
}  // namespace moelab::huffman_kernel_test
