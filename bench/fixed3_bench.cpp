// fixed3 on exponent planes of normal weights: decode, decode fused with the join, encode, beside memcpy and
// a plain join of the same bytes in the same run. GB/s of plane, or of BF16 where it is joined. See
// README.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "hw/codec/fixed3.hpp"
#include "hw/codec/fixed3_kernels.hpp"

namespace moelab {
namespace {

struct Data {
  std::vector<std::uint8_t> plane, sign_mantissa, decoded;
  std::vector<std::uint16_t> bf16;
  std::vector<std::byte> chunk;
};

/// Rows of normal weights whose deviations differ, as trained matrices have them: about 3 % escape.
Data make_data(std::size_t symbols) {
  Data data{std::vector<std::uint8_t>(symbols),
            std::vector<std::uint8_t>(symbols),
            std::vector<std::uint8_t>(symbols),
            std::vector<std::uint16_t>(symbols),
            {}};
  std::mt19937_64 random(1);
  const auto unit = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(unit())) * std::cos(2 * std::acos(-1.0) * unit());
  };
  double sigma = 0;
  for (std::size_t i = 0; i < symbols; ++i) {
    if (i % 2048 == 0) sigma = 0.02 * std::exp(0.4 * normal());
    const auto value = static_cast<float>(sigma * normal());
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    data.plane[i] = static_cast<std::uint8_t>(bits >> 23);
    data.sign_mantissa[i] = static_cast<std::uint8_t>((bits >> 24 & 0x80) | (bits >> 16 & 0x7F));
  }
  data.chunk = fixed3_encode(data.plane);
  return data;
}

/// Made once for each size; outputs are cleared, so that every benchmark shows that its own are right.
Data& data_for(const benchmark::State& state) {
  static std::map<std::int64_t, Data> made;
  auto [entry, is_new] = made.try_emplace(state.range(0));
  if (is_new) entry->second = make_data(static_cast<std::size_t>(state.range(0)));
  std::fill(entry->second.decoded.begin(), entry->second.decoded.end(), std::uint8_t{0});
  std::fill(entry->second.bf16.begin(), entry->second.bf16.end(), std::uint16_t{0});
  return entry->second;
}

void report(benchmark::State& state, const Data& data, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.counters["ratio"] = static_cast<double>(data.chunk.size()) / static_cast<double>(data.plane.size());
}

void check(benchmark::State& state, bool correct) {
  if (!correct) state.SkipWithError("wrong bytes");
}

bool is_joined(const Data& data) {
  for (std::size_t i = 0; i < data.plane.size(); ++i)
    if (data.bf16[i] != fixed3::join_one(data.plane[i], data.sign_mantissa[i])) return false;
  return true;
}

void copy(benchmark::State& state) {
  Data& data = data_for(state);
  for (auto _ : state) {
    std::memcpy(data.decoded.data(), data.plane.data(), data.plane.size());
    benchmark::ClobberMemory();
  }
  check(state, data.decoded == data.plane);
  report(state, data, data.plane.size());
}

void decode(benchmark::State& state, const fixed3::Kernels& kernels) {
  Data& data = data_for(state);
  for (auto _ : state) {
    fixed3::decode_with(kernels, fixed3::kStreamPlaneFromBytes, data.chunk, data.decoded);
    benchmark::ClobberMemory();
  }
  check(state, data.decoded == data.plane);
  report(state, data, data.plane.size());
}

void join(benchmark::State& state, const fixed3::Kernels& kernels) {
  Data& data = data_for(state);
  const bool streaming = 2 * data.plane.size() >= fixed3::kStreamJoinFromBytes;
  for (auto _ : state) {
    kernels.join(data.plane.data(), data.sign_mantissa.data(), data.plane.size(), data.bf16.data(),
                 streaming);
    benchmark::ClobberMemory();
  }
  check(state, is_joined(data));
  report(state, data, 2 * data.plane.size());
}

void decode_join(benchmark::State& state, const fixed3::Kernels& kernels) {
  Data& data = data_for(state);
  for (auto _ : state) {
    fixed3::decode_join_with(kernels, fixed3::kStreamJoinFromBytes, data.chunk, data.sign_mantissa,
                             data.bf16);
    benchmark::ClobberMemory();
  }
  check(state, is_joined(data));
  report(state, data, 2 * data.plane.size());
}

void encode(benchmark::State& state) {
  Data& data = data_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(data.chunk = fixed3_encode(data.plane));
  fixed3_decode(data.chunk, data.decoded);
  check(state, data.decoded == data.plane);
  report(state, data, data.plane.size());
}

using Case = void (*)(benchmark::State&, const fixed3::Kernels&);

bool register_all() {
  const auto sizes = [](benchmark::internal::Benchmark* b) { b->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20); };
  sizes(benchmark::RegisterBenchmark("fixed3/memcpy", copy));
  sizes(benchmark::RegisterBenchmark("fixed3/encode", encode));
  for (const fixed3::Kernels* kernels : fixed3::kernels_here())
    for (const auto& [name, run] :
         {std::pair<const char*, Case>{"decode", decode}, {"join", join}, {"decode_join", decode_join}})
      sizes(benchmark::RegisterBenchmark(
          ("fixed3/" + std::string(name) + "/" + kernels->name).c_str(),
          [run = run, kernels](benchmark::State& state) { run(state, *kernels); }));
  return true;
}

[[maybe_unused]] const bool registered = register_all();

}  // namespace
}  // namespace moelab
