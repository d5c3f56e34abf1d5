// Recovery: the exponent and sign-mantissa planes of a tensor joined into BF16 (hw/codec/planes.hpp), and the
// joining of eight elements, which the decoders share.
//
// A thread loads 16 bytes of each plane: 16 elements, which make 32 bytes. Were it to store them as they are,
// neighbours' 16-byte stores would be 32 bytes apart, and each store would fill half of the memory's 32-byte
// sectors. So the two threads of a pair first exchange halves. Elements of a pair, eight to a letter:
//
//   loaded by the even thread: A B    by the odd thread: C D
//   first store:  A by the even, B by the odd; second store:  C by the even, D by the odd
#pragma once

#include "hw/kernels/host_device.hpp"

namespace moelab::kernels {

inline constexpr unsigned kPairElements = 32, kGroupElements = 8;

/// One BF16 value: bits s eeeeeeee mmmmmmm of the bytes eeeeeeee and smmmmmmm.
MOELAB_HOST_DEVICE inline std::uint16_t join_element(std::uint8_t exponent, std::uint8_t sign_mantissa) {
  return static_cast<std::uint16_t>((sign_mantissa & 0x80) << 8 | exponent << 7 | (sign_mantissa & 0x7F));
}

/// Two BF16 values, the first in the low half, of the two low bytes of each.
MOELAB_HOST_DEVICE inline std::uint32_t join_two(std::uint32_t exponents, std::uint32_t sign_mantissas) {
  const std::uint32_t e = (exponents & 0xFF) | (exponents & 0xFF00) << 8;
  const std::uint32_t s = (sign_mantissas & 0xFF) | (sign_mantissas & 0xFF00) << 8;
  return (s & 0x00800080) << 8 | e << 7 | (s & 0x007F007F);
}

MOELAB_HOST_DEVICE inline Bytes16 join_eight(const Bytes8& exponents, const Bytes8& sign_mantissas) {
  return {{join_two(exponents.words[0], sign_mantissas.words[0]),
           join_two(exponents.words[0] >> 16, sign_mantissas.words[0] >> 16),
           join_two(exponents.words[1], sign_mantissas.words[1]),
           join_two(exponents.words[1] >> 16, sign_mantissas.words[1] >> 16)}};
}

/// A tensor to be joined. Planes and weights have `elements` elements and do not overlap.
struct RecoveryJob {
  const std::uint8_t* exponents;
  const std::uint8_t* sign_mantissas;
  std::uint16_t* bf16;
  std::uint64_t elements;

  /// Pairs of threads' worth that vectors move; what remains, all where an address is not a multiple of 16,
  /// is joined one element a thread.
  MOELAB_HOST_DEVICE std::uint64_t pairs() const {
    const auto addresses = reinterpret_cast<std::uintptr_t>(exponents) |
                           reinterpret_cast<std::uintptr_t>(sign_mantissas) |
                           reinterpret_cast<std::uintptr_t>(bf16);
    return addresses % sizeof(Bytes16) == 0 ? elements / kPairElements : 0;
  }
};

/// Eight elements of each plane.
struct Halves {
  Bytes8 exponents, sign_mantissas;
};

/// What a thread holds of its pair: the eight elements for its first store and those for its second, one of
/// which is the other thread's until they swap.
struct PairShare {
  Halves first, second;
};

MOELAB_HOST_DEVICE inline PairShare load_share(const RecoveryJob& job, std::uint64_t pair, unsigned odd) {
  const std::uint64_t vector = 2 * pair + odd;
  const Bytes16 e = load_once(reinterpret_cast<const Bytes16*>(job.exponents) + vector);
  const Bytes16 s = load_once(reinterpret_cast<const Bytes16*>(job.sign_mantissas) + vector);
  return {{{{e.words[0], e.words[1]}}, {{s.words[0], s.words[1]}}},
          {{{e.words[2], e.words[3]}}, {{s.words[2], s.words[3]}}}};
}

MOELAB_HOST_DEVICE inline void store_share(const RecoveryJob& job, std::uint64_t pair, unsigned odd,
                                           const PairShare& share) {
  Bytes16* const to = reinterpret_cast<Bytes16*>(job.bf16) + 4 * pair + odd;
  store_vector(to, join_eight(share.first.exponents, share.first.sign_mantissas));
  store_vector(to + 2, join_eight(share.second.exponents, share.second.sign_mantissas));
}

/// What block `block` of `blocks` does of the job.
template <class Team>
MOELAB_HOST_DEVICE void recover_planes(Team& team, const RecoveryJob& job, std::uint64_t block,
                                       std::uint64_t blocks) {
  constexpr unsigned block_pairs = Team::kThreads / 2;
  const std::uint64_t pairs = job.pairs();
  for (std::uint64_t first = block * block_pairs; first < pairs; first += blocks * block_pairs) {
    typename Team::template Each<PairShare> share;
    typename Team::template Each<Halves> given;
    team.each([&](unsigned t) {
      if (first + t / 2 >= pairs) return;
      share[t] = load_share(job, first + t / 2, t % 2);
      given[t] = t % 2 == 0 ? share[t].second : share[t].first;
    });
    team.swap_with_neighbour(given);
    team.each([&](unsigned t) {
      if (first + t / 2 >= pairs) return;
      (t % 2 == 0 ? share[t].second : share[t].first) = given[t];
      store_share(job, first + t / 2, t % 2, share[t]);
    });
  }
  team.each([&](unsigned t) {
    const std::uint64_t stride = blocks * Team::kThreads;
    for (std::uint64_t i = pairs * kPairElements + block * Team::kThreads + t; i < job.elements;
         i += stride) {
      job.bf16[i] = join_element(job.exponents[i], job.sign_mantissas[i]);
    }
  });
}

/// Where a decoder puts its exponents: joined with `sign_mantissas` into `bf16`, both aligned to 16 bytes.
struct JoinTarget {
  const std::uint8_t* sign_mantissas;
  std::uint16_t* bf16;
};

/// Whether the eight elements from `at` on are all in first ... last - 1.
MOELAB_HOST_DEVICE inline bool whole_group(std::uint64_t at, std::uint64_t first, std::uint64_t last) {
  return at >= first && at + kGroupElements <= last;
}

/// The signs and mantissas of the eight elements from `at` on, a multiple of 8.
MOELAB_HOST_DEVICE inline Bytes8 sign_mantissas_of(const JoinTarget& target, std::uint64_t at) {
  return load_once(reinterpret_cast<const Bytes8*>(target.sign_mantissas + at));
}

/// Joins a whole group.
MOELAB_HOST_DEVICE inline void store_group(const JoinTarget& target, const Bytes8& exponents,
                                           const Bytes8& sign_mantissas, std::uint64_t at) {
  store_vector(reinterpret_cast<Bytes16*>(target.bf16 + at), join_eight(exponents, sign_mantissas));
}

/// Joins the eight elements from `at` on, a multiple of 8, or those of them in first ... last - 1.
MOELAB_HOST_DEVICE inline void join_group(const JoinTarget& target, const Bytes8& exponents, std::uint64_t at,
                                          std::uint64_t first, std::uint64_t last) {
  if (whole_group(at, first, last)) {
    store_group(target, exponents, sign_mantissas_of(target, at), at);
    return;
  }
  for (unsigned i = 0; i < kGroupElements; ++i) {
    if (at + i < first || at + i >= last) continue;
    const auto exponent = static_cast<std::uint8_t>(exponents.words[i / 4] >> (8 * (i % 4)));
    target.bf16[at + i] = join_element(exponent, target.sign_mantissas[at + i]);
  }
}

}  // namespace moelab::kernels
