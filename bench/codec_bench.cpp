// Planes and codecs on the exponents of Gaussian weights (sigma 0.02): each compared with memcpy of the
// decoded bytes, measured in turns in the same process. Every result is compared with what went in. See
// README.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "hw/codec/codec.hpp"
#include "hw/codec/planes.hpp"
#include "tests/hw/exponent_planes.hpp"

namespace moelab {
namespace {

constexpr std::size_t kShard = std::size_t{1} << 20;
constexpr std::size_t kDecodedShards = 32;  // decoded in turn, so that the output leaves the caches
constexpr int kRounds = 11;                 // of the comparison with memcpy; odd, for the median

template <typename Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

/// Times of `work` relative to a memcpy of `from`, in turns; then the benchmark's own loop.
template <typename T, typename Work>
void measure(benchmark::State& state, std::span<const T> from, const Work& work) {
  std::vector<T> to(from.size());
  std::vector<double> copies, works;
  for (int round = -1; round < kRounds; ++round) {  // the first warms up
    const double copy = seconds([&] {
      std::memcpy(to.data(), from.data(), from.size_bytes());
      benchmark::ClobberMemory();
    });
    const double own = seconds(work);
    if (round < 0) continue;
    copies.push_back(copy);
    works.push_back(own);
  }
  state.counters["of_memcpy"] = median(works) / median(copies);
  for (auto _ : state) work();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(from.size_bytes()));
}

void planes(benchmark::State& state, bool join, Stores stores) {
  const std::vector<std::uint16_t> weights = gaussian_weights(static_cast<std::size_t>(state.range(0)), 1);
  std::vector<std::uint16_t> joined(weights.size());
  std::vector<std::byte> exponents(weights.size()), sign_mantissas(weights.size());
  split_planes(weights, exponents, sign_mantissas, stores);
  measure(state, std::span(weights), [&] {
    if (join) join_planes(exponents, sign_mantissas, joined, stores);
    if (!join) split_planes(weights, exponents, sign_mantissas, stores);
    benchmark::ClobberMemory();
  });
  join_planes(exponents, sign_mantissas, joined, stores);
  if (joined != weights) state.SkipWithError("the tensor did not come back");
}

void encode(benchmark::State& state, const std::string& name) {
  const std::vector<std::byte> plane = gaussian_plane(kShard, 2);
  const std::unique_ptr<Codec> codec = find_codec(name);
  std::vector<std::byte> stored, decoded(plane.size());
  for (auto _ : state) stored = codec->encode(plane);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kShard));
  state.counters["ratio"] = static_cast<double>(stored.size()) / static_cast<double>(kShard);
  codec->decode(stored, decoded);
  if (decoded != plane) state.SkipWithError("the plane did not come back");
}

void decode(benchmark::State& state, const std::string& name) {
  const std::vector<std::byte> plane = gaussian_plane(kShard, 2);
  const std::unique_ptr<Codec> codec = find_codec(name);
  const std::vector<std::byte> stored = codec->encode(plane);
  std::vector<std::byte> shards, decoded(kShard * kDecodedShards);
  for (std::size_t s = 0; s < kDecodedShards; ++s) shards.insert(shards.end(), plane.begin(), plane.end());
  measure(state, std::span<const std::byte>(shards), [&] {
    for (std::size_t s = 0; s < kDecodedShards; ++s) {
      codec->decode(stored, std::span(decoded).subspan(s * kShard, kShard));
    }
    benchmark::ClobberMemory();
  });
  state.counters["ratio"] = static_cast<double>(stored.size()) / static_cast<double>(kShard);
  if (decoded != shards) state.SkipWithError("the plane did not come back");
}

const bool registered = [] {
  for (const bool join : {false, true}) {
    for (const Stores stores : {Stores::cached, Stores::streaming}) {
      const std::string name =
          std::string(join ? "join/" : "split/") + (stores == Stores::cached ? "cached" : "streaming");
      benchmark::RegisterBenchmark(name.c_str(), planes, join, stores)
          ->Arg(1 << 16)
          ->Arg(2'883'584)
          ->Arg(1 << 25);
    }
  }
  std::vector<std::string> names = {"zstd-3"};
  for (const CodecRow& row : codec_table()) names.push_back(find_codec(row.name)->name());
  for (const std::string& name : names) {
    benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode, name)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, name)->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace moelab
