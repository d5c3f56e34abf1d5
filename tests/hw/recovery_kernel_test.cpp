// The recovery kernel's body on the CPU, against the definition of the planes.
#include <catch2/catch.hpp>

#include "tests/hw/kernel_runs.hpp"

namespace moelab::recovery_kernel_test {
namespace {

using Team = HostTeam<256>;

std::vector<std::uint16_t> recovered(const std::vector<std::byte>& exponents,
                                     const std::vector<std::byte>& signs, std::uint64_t blocks,
                                     Random& random, std::size_t shift = 0) {
  std::vector<std::byte> moved_exponents(shift), moved_signs(shift);
  moved_exponents.insert(moved_exponents.end(), exponents.begin(), exponents.end());
  moved_signs.insert(moved_signs.end(), signs.begin(), signs.end());
  std::vector<std::uint16_t> bf16(shift + exponents.size(), kUntouched);
  Team team(random);
  for (std::uint64_t b = 0; b < blocks; ++b) {
    kernels::recover_planes(team,
                            {reinterpret_cast<const std::uint8_t*>(moved_exponents.data() + shift),
                             reinterpret_cast<const std::uint8_t*>(moved_signs.data() + shift),
                             bf16.data() + shift, exponents.size()},
                            b, blocks);
  }
  REQUIRE(std::all_of(bf16.begin(), bf16.begin() + static_cast<std::ptrdiff_t>(shift),
                      [](std::uint16_t weight) { return weight == kUntouched; }));
  bf16.erase(bf16.begin(), bf16.begin() + static_cast<std::ptrdiff_t>(shift));
  return bf16;
}

TEST_CASE("the recovery kernel makes every BF16 value") {
  std::vector<std::byte> exponents, signs;
  std::vector<std::uint16_t> all;
  for (unsigned value = 0; value < 65536; ++value) {
    all.push_back(static_cast<std::uint16_t>(value));
    exponents.push_back(static_cast<std::byte>(value >> 7));
    signs.push_back(static_cast<std::byte>((value >> 8 & 0x80) | (value & 0x7F)));
  }
  Random random(1);
  for (const unsigned blocks : {1, 2, 7, 100}) CHECK((recovered(exponents, signs, blocks, random) == all));
}

TEST_CASE("the recovery kernel takes any length and any address") {
  Random random(2);
  for (const std::size_t whole : {0, 32, 4096, 12288}) {
    for (std::size_t tail = 0; tail <= 64; ++tail) {
      const std::vector<std::byte> exponents = sign_mantissas(whole + tail, random),
                                   signs = sign_mantissas(whole + tail, random);
      const std::size_t shift = tail % 4 == 3 ? random.below(16) : 0;
      INFO(whole + tail << " elements, moved by " << shift);
      REQUIRE((recovered(exponents, signs, 1 + tail % 3, random, shift) == joined(exponents, signs)));
    }
  }
}

TEST_CASE("vectors are used where all three addresses allow it, and only there") {
  alignas(16) std::uint8_t bytes[96];
  alignas(16) std::uint16_t weights[96];
  for (std::size_t shift = 0; shift < 32; ++shift) {
    const bool aligned = shift % 16 == 0;
    CHECK(kernels::RecoveryJob{bytes + shift, bytes, weights, 64}.pairs() == (aligned ? 2 : 0));
    CHECK(kernels::RecoveryJob{bytes, bytes + shift, weights, 64}.pairs() == (aligned ? 2 : 0));
    CHECK(kernels::RecoveryJob{bytes, bytes, weights + shift, 63}.pairs() == (shift % 8 == 0 ? 1 : 0));
  }
}

}  // namespace
}  // namespace moelab::recovery_kernel_test
