// Buffers against a naive account of what every state keeps, over random lives of experts.
#include "hw/executor/expert_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "hw/codec/planes.hpp"
#include "hw/executor/cpu_device.hpp"
#include "models/input_error.hpp"
#include "tests/hw/small_stores.hpp"
#include "tests/random_runs.hpp"
#include "traces/random.hpp"

namespace moelab::expert_memory_test {

using namespace moelab::test;
using engine::ExpertPlace;
using engine::Kept;

namespace {

constexpr std::uint32_t kShards = 3;

/// A store in memory, as the writer's own parts: what buffers must hold.
struct Packed {
  Packed() : source(small_experts(), 7) {
    pack(source, folder / "store", {"fixed3", kShards, 1, {}});
    reader = std::make_unique<ChunkStoreReader>(folder / "store");
    for (std::uint64_t o = 0; o < reader->weights().tensors(); ++o) {
      tensors.push_back(tensor_of(source, o));
      chunks.push_back(make_tensor_chunks(*find_codec("fixed3"), tensors.back(), kShards));
    }
  }
  ScratchFolder folder;
  SyntheticSource source;
  std::unique_ptr<ChunkStoreReader> reader;
  std::vector<std::vector<std::uint16_t>> tensors;
  std::vector<TensorChunks> chunks;
};

template <class T>
void fill(const Buffer& buffer, const std::vector<T>& from) {
  REQUIRE(buffer.bytes == from.size() * sizeof(T));
  std::memcpy(buffer.data, from.data(), buffer.bytes);
}
template <class T>
bool holds(const Buffer& buffer, const std::vector<T>& what) {
  return buffer && buffer.bytes == what.size() * sizeof(T) &&
         std::memcmp(buffer.data, what.data(), buffer.bytes) == 0;
}

bool has_sm_chunk(Kept kept) {
  return kept == Kept::both_planes || kept == Kept::sign_mantissas;
}
bool has_e_chunks(Kept kept) {
  return kept == Kept::both_planes || kept == Kept::exponents;
}

/// Loads what the state has not, as a layer's operations do.
void load(ExpertMemory& memory, const Packed& packed, ExpertPlace expert, Kept state) {
  if (state == Kept::full) return;
  for (std::uint32_t kind = 0; kind < 3; ++kind) {
    const TensorPlace place{expert.layer, expert.expert, kind};
    const std::uint64_t o = ordinal_of(packed.source.weights(), place);
    TensorParts& parts = memory.parts(place);
    if (!has_sm_chunk(state)) {
      memory.take_sign_mantissas(place);
      fill(parts.sign_mantissas, packed.chunks[o].sign_mantissas.stored);
    }
    for (std::uint32_t c = 0; c < kShards && !has_e_chunks(state); ++c) {
      const Chunk& chunk = packed.chunks[o].exponents[c];
      memory.take_exponent_chunk(place, c, chunk.record.stored_bytes);
      fill(parts.exponent_chunks[c], chunk.stored);
    }
    memory.take_exponents(place);
    memory.take_exponents(place);  // for every chunk, but one plane
    memory.take_tensor(place);
    fill(parts.tensor, packed.tensors[o]);
    memory.give_exponents(place);
  }
}

/// Whether of every expert exactly that is in memory which its state keeps. Returns its bytes.
std::uint64_t check_contents(ExpertMemory& memory, const Packed& packed, const std::vector<Kept>& states) {
  std::uint64_t bytes = 0;
  bool exact = true;
  for (std::uint64_t o = 0; o < packed.tensors.size(); ++o) {
    const Kept kept = states[o / 3];
    const TensorParts& parts = memory.parts(place_of(packed.source.weights(), o));
    const TensorChunks& chunks = packed.chunks[o];
    exact &= !parts.exponents;
    exact &= kept == Kept::full ? holds(parts.tensor, packed.tensors[o]) : !parts.tensor;
    exact &= has_sm_chunk(kept) ? holds(parts.sign_mantissas, chunks.sign_mantissas.stored)
                                : !parts.sign_mantissas;
    for (std::uint32_t c = 0; c < kShards; ++c) {
      exact &= has_e_chunks(kept) ? holds(parts.exponent_chunks[c], chunks.exponents[c].stored)
                                  : !parts.exponent_chunks[c];
      if (has_e_chunks(kept)) bytes += chunks.exponents[c].stored.size();
    }
    if (kept == Kept::full) bytes += 2 * chunks.elements;
    if (has_sm_chunk(kept)) bytes += chunks.elements;
  }
  CHECK(exact);
  return bytes;
}

}  // namespace

TEST_CASE("expert memory: after every use exactly what the state keeps is there, with the right bytes") {
  const Packed packed;
  CpuDevice cpu({40, 57, 3}, 1 << 12);
  ExpertMemory memory(*packed.reader, cpu, 0);
  std::vector<Kept> states(6, Kept::nothing);
  Random random(5);
  int full_to_planes = 0;
  for (int step = 0; step < 3000; ++step) {
    const auto number = static_cast<std::uint32_t>(random.below(6));
    const ExpertPlace expert{number / 3, number % 3};
    const Kept found = states[number];
    Kept next = static_cast<Kept>(random.below(5));
    if (random.below(4) == 0) {  // it leaves for another one
      if (found != Kept::nothing) memory.keep(expert, found, Kept::nothing);
      states[number] = Kept::nothing;
    } else {
      // An expert in F has no E-chunks.
      if (found == Kept::full && has_e_chunks(next)) next = Kept::sign_mantissas;
      const auto overlap = random.below(3);  // further uses, such as a fetch's
      for (std::uint64_t i = 0; i <= overlap; ++i) memory.use(expert);
      load(memory, packed, expert, found);
      if (next != found) memory.keep(expert, found, next);
      for (std::uint64_t i = 0; i < overlap; ++i) memory.release(expert);
      for (std::uint32_t kind = 0; kind < 3; ++kind)  // still all there
        CHECK(memory.parts({expert.layer, expert.expert, kind}).tensor);
      memory.release(expert);
      full_to_planes += found == Kept::full && next == Kept::sign_mantissas ? 1 : 0;
      states[number] = next;
    }
    CHECK(memory.ledger().held() == check_contents(memory, packed, states));
  }
  CHECK(full_to_planes > 100);
  CHECK(memory.conversion_seconds() > 0);
}

TEST_CASE("expert memory: what the serving loop must not say is refused") {
  const Packed packed;
  CpuDevice cpu({40, 57, 3}, 1 << 12);
  ExpertMemory memory(*packed.reader, cpu, 0);
  CHECK_THROWS_AS(memory.keep({0, 0}, Kept::nothing, Kept::full), std::logic_error);  // nothing was loaded
  CHECK_THROWS_AS(memory.release({0, 0}), std::logic_error);
  CHECK_THROWS_AS(memory.use({0, 3}), std::logic_error);
  CHECK_THROWS_AS(memory.use({2, 0}), std::logic_error);
  memory.use({0, 0});
  load(memory, packed, {0, 0}, Kept::nothing);
  CHECK_THROWS_AS(memory.take_tensor({0, 0, 0}), std::logic_error);  // a second time
  CHECK_THROWS_AS(memory.keep({0, 0}, Kept::full, Kept::nothing), std::logic_error);
  memory.keep({0, 0}, Kept::nothing, Kept::full);
  memory.release({0, 0});
  CHECK_THROWS_AS(memory.keep({0, 0}, Kept::full, Kept::both_planes), std::logic_error);
  CHECK_THROWS_AS(memory.keep({0, 0}, Kept::full, Kept::exponents), std::logic_error);
}

TEST_CASE("buffer pool: more than the limit is refused") {
  HostMemory host;
  MemoryLedger ledger(20'480);
  BufferPool pool(host, ledger);
  Buffer a = pool.take(12'000), b = pool.take(8'000);
  CHECK(ledger.held() == 20'000);
  CHECK_THROWS_AS(pool.take(481), InputError);
  CHECK(ledger.held() == 20'000);
  pool.give(b);
  CHECK_FALSE(b);
  b = pool.take(7'000);
  CHECK(ledger.held() == 19'000);
  pool.give(a);
  pool.give(b);
  pool.give(b);  // an empty one
  CHECK(ledger.held() == 0);
  CHECK(ledger.peak() == 20'000);
}

TEST_CASE("buffer pool: buffers never share a byte, and what is given back is one piece again") {
  std::mt19937 random(7);
  for (int instance = 0; instance < moelab::test::random_runs(300); ++instance) {
    HostMemory host;
    MemoryLedger ledger(0);
    BufferPool pool(host, ledger);
    if (instance % 2 == 0) pool.reserve(random() % 3'000'000);
    std::vector<Buffer> held;
    std::uint64_t bytes = 0;
    for (int step = 0; step < 200; ++step) {
      if (held.empty() || random() % 5 < 3) {
        held.push_back(pool.take(random() % (random() % 10 == 0 ? 1'500'000 : 40'000)));
        const Buffer& taken = held.back();
        bytes += taken.bytes;
        REQUIRE(reinterpret_cast<std::uintptr_t>(taken.data) % 4096 == 0);
        REQUIRE(taken.room >= taken.bytes);
      } else {
        std::swap(held[random() % held.size()], held.back());
        bytes -= held.back().bytes;
        pool.give(held.back());
        held.pop_back();
      }
      REQUIRE(ledger.held() == bytes);
    }
    std::ranges::sort(held, {}, &Buffer::data);
    for (std::size_t i = 0; i + 1 < held.size(); ++i)
      REQUIRE(held[i].data + held[i].room <= held[i + 1].data);
    for (Buffer& buffer : held) pool.give(buffer);
    // All slabs together hold what they held: buffers of 64 KiB fill the first one without another.
    const std::size_t slabs = pool.slab_bytes();
    if (slabs < 1 << 20) continue;
    for (std::size_t i = 0; i < (1 << 20) / (64 << 10); ++i) pool.take(64 << 10);
    CHECK(pool.slab_bytes() == slabs);
  }
}

TEST_CASE("buffer pool: what was reserved serves buffers of all sizes up to the limit") {
  HostMemory host;
  MemoryLedger ledger(64 << 20);
  BufferPool pool(host, ledger);
  pool.reserve(64 << 20);
  for (const std::size_t size : {std::size_t{2} << 20, std::size_t{1} << 20, std::size_t{64} << 20}) {
    std::vector<Buffer> all;
    while (ledger.held() + size <= ledger.limit()) all.push_back(pool.take(size));
    CHECK(all.size() == (std::size_t{64} << 20) / size);
    for (Buffer& buffer : all) pool.give(buffer);
  }
  CHECK(pool.slab_bytes() == 64 << 20);
}

TEST_CASE("CPU device: the sign-mantissa plane of every value") {
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  std::vector<std::byte> exponents(all.size()), expected(all.size()), found(all.size());
  split_planes(all, exponents, expected);
  CpuDevice cpu({8, 8, 2}, 1 << 12);
  cpu.extract(all, found);
  CHECK(found == expected);
}

namespace {

/// A device that does nothing, and counts what was made in its memory and not unmade.
class CountingDevice final : public ComputeDevice, public MemorySource {
 public:
  std::size_t made = 0;
  std::byte* make(std::size_t bytes) override {
    ++made;
    return host_.make(bytes);
  }
  void unmake(std::byte* memory) override {
    --made;
    host_.unmake(memory);
  }
  MemorySource* memory() override { return this; }
  void load(std::span<const std::byte>, std::span<std::uint16_t>) override {}
  void store(std::span<const std::uint16_t>, std::span<std::byte>) override {}
  void recover(std::span<const std::byte>, std::span<const std::byte>, std::span<std::uint16_t>) override {}
  std::uint64_t checksum_of(std::span<const std::uint16_t>) override { return 0; }
  void extract(std::span<const std::uint16_t>, std::span<std::byte>) override {}
  void execute(const ExpertOperands&, std::uint32_t) override {}
  void dense(double, double, int) override {}

 private:
  HostMemory host_;
};

}  // namespace

TEST_CASE("expert memory: a device that outlives a run gets all its memory back") {
  const Packed packed;
  CountingDevice device;
  for (int run = 0; run < 3; ++run) {
    ExpertMemory memory(*packed.reader, device, 0);
    memory.take_tensor({0, 1, 0});
    memory.take_tensor({1, 2, 2});
    CHECK(device.made > 0);
  }
  CHECK(device.made == 0);
}

}  // namespace moelab::expert_memory_test
