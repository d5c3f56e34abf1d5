// Layers shared out to GPUs, held against trying every way to cut the list of layers.
#include "sim/advise/gpu_shares.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "models/runtime.hpp"

namespace moelab::gpu_shares_test {
namespace {

/// Bytes of each layer, of the head behind them.
std::vector<double> bytes_of_layers(const Architecture& model, const SplitMemory& memory, double tokens,
                                    double requests) {
  std::vector<double> kept;
  for (const Layer& layer : model.layers) {
    const Attention& t = layer.attention;
    const double in_sight = t.window > 0 && tokens > t.window * requests ? t.window * requests : tokens;
    kept.push_back(kv_values_per_token(t) * in_sight + state_values(t) * requests);
  }
  const double all = std::accumulate(kept.begin(), kept.end(), 0.0);
  std::vector<double> bytes;
  double weights = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    weights += layer_bytes(model, model.layers[i]).value();
    bytes.push_back(layer_bytes(model, model.layers[i]).value() + memory.gpu_kv * kept[i] / all);
  }
  bytes.push_back(memory.gpu_weights - weights);
  return bytes;
}

/// The most that one of `gpus` has, where the best of all cuts is made.
double least_most(const std::vector<double>& bytes, std::size_t from, int gpus) {
  double best = std::numeric_limits<double>::infinity(), here = 0;
  if (gpus == 1) return std::accumulate(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), 0.0);
  for (std::size_t next = from + 1; next <= bytes.size(); ++next) {
    here += bytes[next - 1];
    if (here >= best) break;
    best = std::min(best, std::max(here, least_most(bytes, next, gpus - 1)));
  }
  return best;
}

TEST_CASE("GPU shares: the fullest GPU has as little as any cut leaves it, caches where their layers are") {
  MachineParts machine =
      machine_of({.gpu = "rtx-3090-24gb", .gpus = 2, .cpu = "i9-14900K", .ram = "128 GiB"});
  const Runtime runtime = load_runtime("llama.cpp-cuda");
  for (const char* name : {"gpt-oss-20b", "qwen3-next-80b-a3b", "granite-4.0-h-small", "olmoe-1b-7b"})
    for (const double tokens : {4096.0, 131'072.0})
      for (const int gpus : {2, 3}) {
        INFO(name << ", " << tokens << " tokens, " << gpus << " GPUs");
        const Architecture model = load_architecture(name);
        machine.gpus = gpus;
        LoadOptions options;
        options.sequences = 2;
        const SplitMemory memory = ServingEstimate(model, machine, runtime, {}).memory(tokens, options);
        const GpuShares shares = gpu_shares(model, runtime, {}, memory, gpus, tokens, 2);
        const std::vector<double> bytes = bytes_of_layers(model, memory, tokens, 2);
        const double others = (memory.gpu_compute + memory.gpu_context + memory.gpu_reserve) / gpus;
        CHECK(shares.most - others == Approx(least_most(bytes, 0, gpus)).epsilon(1e-6));
        REQUIRE(shares.layers.size() == static_cast<std::size_t>(gpus));
        auto layer = bytes.begin();
        for (const int count : shares.layers) {
          CHECK(std::accumulate(layer, layer + count, 0.0) <= (shares.most - others) * (1 + 1e-9));
          layer += count;
        }
        CHECK(layer == bytes.end());
      }
}

TEST_CASE("GPU shares: layers with a window keep what it leaves, whatever the context") {
  const Architecture model = load_architecture("gpt-oss-20b");
  const Attention& windowed = model.layers[0].attention;
  const Attention& full = model.layers[1].attention;
  REQUIRE((windowed.window == 128 && full.window == 0));
  // 8 heads of 64 values, keys and values.
  CHECK(kept_bytes(model, windowed, 100, 1) == 2 * 1024 * 100);
  CHECK(kept_bytes(model, windowed, 100'000, 1) == 2 * 1024 * 128);
  CHECK(kept_bytes(model, windowed, 100'000, 3) == 2 * 1024 * 3 * 128);
  CHECK(kept_bytes(model, full, 100'000, 3) == 2 * 1024 * 100'000);
}

}  // namespace
}  // namespace moelab::gpu_shares_test
