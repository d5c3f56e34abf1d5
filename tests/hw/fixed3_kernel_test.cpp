// The fixed3 kernel's body on the CPU: on sound chunks against the plane that was encoded, on damaged ones
// against the CPU's decoder.
#include <catch2/catch.hpp>

#include "hw/codec/fixed3.hpp"
#include "tests/hw/kernel_runs.hpp"
#include "tests/random_runs.hpp"

namespace moelab::fixed3_kernel_test {
namespace {

std::vector<std::byte> encoded(const std::vector<std::byte>& plane) {
  return fixed3_encode({reinterpret_cast<const std::uint8_t*>(plane.data()), plane.size()});
}

/// Seven common bytes, and one in `rare` another; with a burst of those somewhere, if wanted.
std::vector<std::byte> escaping_plane(std::size_t count, std::size_t rare, bool burst, Random& random) {
  std::vector<std::byte> plane(count);
  const std::size_t from = random.below(count + 1), to = burst ? from + count / 4 : from;
  const std::size_t alphabet = random.below(256);
  for (std::size_t i = 0; i < count; ++i) {
    const bool escape = random.below(rare) == 0 || (i >= from && i < to);
    plane[i] = static_cast<std::byte>(alphabet + (escape ? 7 + random.below(249) : random.below(7)));
  }
  return plane;
}

TEST_CASE("the fixed3 kernel decodes and joins every kind of plane") {
  Random random(21);
  int coded = 0;
  for (const NamedPlane& plane : all_kinds_of_planes()) {
    const std::vector<std::byte> signs = sign_mantissas(plane.bytes.size(), random);
    const std::optional<Recovered> result = run_fixed3(encoded(plane.bytes), signs, random);
    if (!result) continue;  // too small, or as random as bytes can be
    INFO(plane.name);
    ++coded;
    CHECK(result->sound);
    CHECK((result->bf16 == joined(plane.bytes, signs)));
  }
  CHECK(coded >= 4);
}

TEST_CASE("the fixed3 kernel decodes random planes of every tail") {
  Random random(22);
  int coded = 0;
  // Where each takes its time every fourth: 4 divides neither 65 nor 3, so that all tails and bursts occur.
  const std::size_t step = test::random_runs(std::size_t{1}, std::size_t{4});
  for (std::size_t round = 0; round < 1500; round += step) {
    // Tails 0 ... 64 after whole blocks, whole tiles and whole rows, and any length.
    const std::size_t whole = std::array<std::size_t, 4>{4096, 512, 1216, 8192}[round / 65 % 4];
    const std::size_t count = round < 780 ? whole + round % 65 : random.below(9000);
    const std::vector<std::byte> plane = escaping_plane(count, 2 + random.below(60), round % 3 == 0, random),
                                 signs = sign_mantissas(count, random);
    const std::optional<Recovered> result = run_fixed3(encoded(plane), signs, random);
    if (!result) continue;
    INFO("round " << round << ", " << count << " symbols");
    ++coded;
    REQUIRE(result->sound);
    REQUIRE((result->bf16 == joined(plane, signs)));
  }
  CHECK(coded > test::random_runs(1000, 200));
}

TEST_CASE("the fixed3 kernel refuses the damaged chunks that the CPU refuses, and stays inside") {
  Random random(23);
  int parsed = 0, refused = 0;
  for (int round = 0; round < test::random_runs(2000, 400); ++round) {
    const std::size_t count = 500 + random.below(round % 10 == 0 ? 13'000 : 700);
    const std::vector<std::byte> plane = escaping_plane(count, 20, false, random),
                                 signs = sign_mantissas(count, random);
    std::vector<std::byte> chunk = encoded(plane);
    for (std::size_t times = 1 + random.below(3); times > 0; --times) {
      const std::size_t at = random.below(random.below(4) == 0 ? 64 : chunk.size());
      chunk[at] ^= static_cast<std::byte>(1U << random.below(8));
    }
    const auto* const sign_bytes = reinterpret_cast<const std::uint8_t*>(signs.data());
    std::vector<std::uint16_t> expected(count);
    bool sound = true;
    try {
      if (fixed3::parse(chunk).symbols != count) continue;
      try {
        fixed3_decode_join(chunk, {sign_bytes, count}, expected);
      } catch (const CodecError&) {
        sound = false;
      }
    } catch (const CodecError&) {
      continue;
    }
    const std::optional<Recovered> result = run_fixed3(chunk, signs, random);
    if (!result) continue;
    INFO("round " << round);
    ++parsed;
    refused += !sound;
    REQUIRE(result->sound == sound);
    if (sound) REQUIRE((result->bf16 == expected));
  }
  CHECK(parsed > test::random_runs(1000, 150));
  CHECK(refused > test::random_runs(200, 30));
  CHECK(parsed - refused > test::random_runs(200, 30));
}

}  // namespace
}  // namespace moelab::fixed3_kernel_test
