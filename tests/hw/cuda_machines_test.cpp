// On a GPU, what the other tests of machines do on one that the CPU plays: paged memory, tensors that lie
// compressed there, and random systems against the simulator, every tensor and result checked.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "hw/codec/codec_error.hpp"
#include "hw/executor/cuda_compute_device.hpp"
#include "hw/executor/linked_experts.hpp"
#include "hw/kernels/cuda_expert.hpp"
#include "hw/kernels/cuda_paged_memory.hpp"
#include "hw/kernels/cuda_stream.hpp"
#include "tests/hw/gpu_here.hpp"
#include "tests/hw/linked_comparison.hpp"
#include "tests/hw/windowed_runs.hpp"

namespace moelab::cuda_machines_test {

using namespace moelab::test;

namespace {

constexpr std::uint64_t kRuns = 40;

bool pages_here() {
  return gpu_here() && cuda_paging_missing().empty();
}

std::vector<std::byte> at(const CudaPagedMemory& memory, std::size_t address, std::size_t bytes) {
  std::vector<std::byte> found(bytes);
  const CudaStream stream;
  stream.copy(found.data(), memory.at(address), bytes);
  stream.wait();
  return found;
}

/// The chunks of a tensor, and the view of them that a device is given.
struct Stored {
  explicit Stored(const TensorChunks& tensor) {
    for (const Chunk& chunk : tensor.exponents) add(chunk);
    add(tensor.sign_mantissas);
  }
  void add(const Chunk& chunk) {
    records.push_back(chunk.record);
    bytes.push_back(chunk.stored);
  }
  StoredTensor view(std::size_t elements) {
    chunks.assign(bytes.begin(), bytes.end());
    return {elements, records, chunks};
  }
  std::vector<ChunkRecord> records;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::span<const std::byte>> chunks;
};

std::vector<std::uint16_t> weights_like(std::size_t elements, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint16_t> weights(elements);
  for (std::uint16_t& weight : weights)  // exponents near one value, any sign and mantissa
    weight = static_cast<std::uint16_t>((random.below(2) << 15) | ((120 + random.below(4)) << 7) |
                                        random.below(128));
  return weights;
}

}  // namespace

TEST_CASE("paged memory: pieces keep their bytes from address to address") {
  if (!pages_here()) return;
  const std::size_t unit = CudaPagedMemory::granularity();
  const std::vector<std::size_t> pieces = {unit, 3 * unit};
  CudaPagedMemory memory(8 * unit, pieces);
  CHECK(memory.bytes() == 4 * unit);
  const CudaStream stream;
  for (std::size_t round = 0; round < 5; ++round) {
    for (const std::size_t piece : {std::size_t{0}, std::size_t{1}}) {
      const std::size_t frame = piece * unit, address = (round % 5) * unit;
      memory.map(address, frame);
      if (round > 0)
        CHECK((at(memory, address, pieces[piece]) ==
               std::vector<std::byte>(pieces[piece], static_cast<std::byte>(10 * piece + round - 1))));
      stream.fill(memory.at(address), static_cast<unsigned char>(10 * piece + round), pieces[piece]);
      stream.wait();
      memory.unmap(address, frame);
    }
  }
}

TEST_CASE("paged memory: what would map over something or beyond the addresses is refused") {
  if (!pages_here()) return;
  const std::size_t unit = CudaPagedMemory::granularity();
  CudaPagedMemory memory(2 * unit, std::vector<std::size_t>{unit, 2 * unit});
  CHECK_THROWS_AS(memory.map(0, unit / 2), std::invalid_argument);
  CHECK_THROWS_AS(memory.map(unit, unit), std::invalid_argument);
  memory.map(unit, 0);
  CHECK_THROWS_AS(memory.map(0, 0), std::invalid_argument);
  CHECK_THROWS_AS(memory.unmap(0, 0), std::invalid_argument);
  memory.unmap(unit, 0);
  CHECK_THROWS_AS(memory.unmap(unit, 0), std::invalid_argument);
}

TEST_CASE("compressed tensors on the GPU are decoded to the weights that were packed") {
  if (!gpu_here()) return;
  const auto gpu = make_cuda_compute_device({8, 8, 2}, 1 << 20);
  if (gpu->paging() == nullptr) return;
  for (const char* name : {"huffman", "fixed3", "none"}) {
    for (std::size_t shards = 1; shards <= 3; ++shards) {
      const std::size_t elements = 16 * 6 * 2049;
      const std::vector<std::uint16_t> weights = weights_like(elements, shards);
      Stored stored(make_tensor_chunks(*find_codec(name), weights, shards));
      const auto kept = gpu->paging()->keep(stored.view(elements), true);
      auto* const memory = reinterpret_cast<std::uint16_t*>(gpu->memory()->make(2 * elements));
      const std::span<std::uint16_t> into(memory, elements);
      kept->decode(into);
      CHECK(gpu->checksum_of(into) == checksum(std::span<const std::uint16_t>(weights)));
      gpu->memory()->unmake(reinterpret_cast<std::byte*>(memory));
      stored.bytes.back()[7] ^= std::byte{4};
      CHECK_THROWS_AS(gpu->paging()->keep(stored.view(elements), true), CodecError);
    }
  }
}

TEST_CASE("many compressed tensors are decoded together, each to its own place") {
  if (!gpu_here()) return;
  const auto gpu = make_cuda_compute_device({8, 8, 2}, 1 << 20);
  if (gpu->paging() == nullptr) return;
  Random random(7);
  std::vector<std::unique_ptr<CompressedTensor>> kept;
  std::vector<TensorDecoding> decodings;
  std::vector<std::uint64_t> sums;
  for (std::uint64_t i = 0; i < 100; ++i) {  // of several launches, from one block of work to many
    const std::size_t elements = 16 * (1 + random.below(i % 10 == 0 ? 30000 : 400));
    const std::vector<std::uint16_t> weights = weights_like(elements, i);
    Stored stored(make_tensor_chunks(*find_codec(i % 3 == 0   ? "fixed3"
                                                 : i % 3 == 1 ? "huffman"
                                                              : "none"),
                                     weights, 1));
    kept.push_back(gpu->paging()->keep(stored.view(elements), true));
    auto* const memory = reinterpret_cast<std::uint16_t*>(gpu->memory()->make(2 * elements));
    decodings.push_back({kept.back().get(), {memory, elements}});
    sums.push_back(checksum(std::span<const std::uint16_t>(weights)));
  }
  gpu->paging()->decode_all(decodings);
  for (std::size_t i = 0; i < decodings.size(); ++i) CHECK(gpu->checksum_of(decodings[i].into) == sums[i]);
}

TEST_CASE("many products in one launch are what the matrices say") {
  if (!gpu_here()) return;
  const CudaStream stream;
  CublasHandle cublas(stream);
  Random random(8);
  struct Operands {
    std::size_t m, n, k;
    std::vector<std::uint16_t> matrix, in;
    DeviceMemory on_gpu[3];
  };
  const auto value_of = [](std::uint16_t bits) {
    return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
  };
  const auto filled = [&](std::size_t count) {
    std::vector<std::uint16_t> values(count);
    for (std::uint16_t& value : values)
      value = static_cast<std::uint16_t>((random.below(2) << 15) | (0x3F00 + random.below(128)));
    return values;
  };
  for (int round = 0; round < 5; ++round) {
    std::vector<Operands> all(2 + random.below(20));
    std::vector<CublasProduct> products;
    for (Operands& o : all) {
      o.m = 8 * (1 + random.below(20)), o.n = 1 + random.below(9), o.k = 8 * (1 + random.below(20));
      o.matrix = filled(o.m * o.k);
      o.in = filled(o.n * o.k);
      o.on_gpu[0] = DeviceMemory(2 * o.m * o.k);
      o.on_gpu[1] = DeviceMemory(2 * o.n * o.k);
      o.on_gpu[2] = DeviceMemory(2 * o.n * o.m);
      stream.copy(o.on_gpu[0].data(), o.matrix.data(), 2 * o.m * o.k);
      stream.copy(o.on_gpu[1].data(), o.in.data(), 2 * o.n * o.k);
      products.push_back({o.on_gpu[0].data(), o.on_gpu[1].data(), o.on_gpu[2].data(), o.m, o.n, o.k});
    }
    cublas.multiply_all(products);
    for (const Operands& o : all) {
      std::vector<std::uint16_t> out(o.n * o.m);
      stream.copy(out.data(), o.on_gpu[2].data(), 2 * out.size());
      stream.wait();
      double worst = 0;
      for (std::size_t row = 0; row < o.n; ++row)
        for (std::size_t column = 0; column < o.m; ++column) {
          double sum = 0;
          for (std::size_t i = 0; i < o.k; ++i)
            sum += value_of(o.matrix[column * o.k + i]) * value_of(o.in[row * o.k + i]);
          const double error = std::abs(value_of(out[row * o.m + column]) - sum);
          worst = std::max(worst, error - std::abs(sum) / 256);  // BF16 keeps 8 bits
        }
      CHECK(worst < 1e-3 * static_cast<double>(o.k));
    }
  }
}

TEST_CASE("codecs without a kernel, and shards that kernels cannot begin at, are refused") {
  if (!gpu_here()) return;
  const auto gpu = make_cuda_compute_device({8, 8, 2}, 1 << 20);
  if (gpu->paging() == nullptr) return;
  const std::vector<std::uint16_t> weights = weights_like(65537, 1);
  Stored zstd(make_tensor_chunks(*find_codec("zstd"), weights, 1));
  CHECK_THROWS_WITH(gpu->paging()->keep(zstd.view(weights.size()), true),
                    Catch::Contains("no kernel decodes it"));
  Stored odd(make_tensor_chunks(*find_codec("fixed3"), weights, 2));  // the second begins at 32769
  CHECK_THROWS_WITH(gpu->paging()->keep(odd.view(weights.size()), true), Catch::Contains("multiples of 16"));
}

TEST_CASE("random systems with experts in the host's memory decide on the GPU as in the simulator") {
  if (!gpu_here()) return;
  std::uint64_t checked = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const SmallRun run = random_linked_run(seed);
    INFO("seed " << seed);
    const RunStore files(run.scenario.model, "none", 1, seed);
    const ChunkStoreReader store(files.path);
    const auto gpu = make_cuda_compute_device(shape_of(run.scenario.model), 1 << 20);
    const HostExperts host(store, gpu.get());
    const LinkedPair pair = run_linked(run, files, host, *gpu);
    if (!pair.fast) continue;
    ++checked;
    check_same_decisions(pair);
  }
  CHECK(checked > kRuns / 6);
}

TEST_CASE("random systems whose experts are paged do on the GPU what they do in the simulator") {
  if (!pages_here()) return;
  std::uint64_t streamed = 0, decoded = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const WindowedCase c(seed);
    if (!c.can_run() || c.shards > 1) continue;  // shards of small tensors begin anywhere
    INFO("seed " << seed);
    const auto gpu = make_cuda_compute_device(shape_of(c.run.scenario.model), 1 << 20);
    const WindowedRun hardware = run_windowed(c.run, c.run.system(), c.store, c.host, {.gpu = gpu.get()});
    TellingWindow telling;
    const RunResult fast = simulate_windowed(c.run, c.run.system(), hardware.arrivals, telling);
    CHECK(hardware.told == telling.told);
    CHECK(hardware.stored.places == telling.stored.places);
    CHECK(hardware.result.metrics.bytes == fast.metrics.bytes);
    CHECK(hardware.result.metrics.serving.decoded_bytes == fast.metrics.serving.decoded_bytes);
    CHECK(hardware.peak <= hardware.limit);
    const WindowedRun unchecked = run_windowed(c.run, c.run.system(), c.store, c.host,
                                               {.gpu = gpu.get(), .verify = false});  // experts all at once
    CHECK(unchecked.streamed == hardware.streamed);
    streamed += hardware.streamed.loaded;
    decoded += hardware.streamed.decoded;
  }
  CHECK(streamed > 0);
  CHECK(decoded > 0);
}

}  // namespace moelab::cuda_machines_test
