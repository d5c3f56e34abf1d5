// What rows attend to: closed forms against counting row by row, and the time and work that come of it.
#include "sim/serving/attended.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "models/timing.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/request_stream.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/serving_reference.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::attended_test {

using namespace moelab::test;

namespace {

constexpr double kTile = 128;  // rows of a prompt that share one read of keys and values

/// Windows on a third of the layers.
void give_windows(Architecture& model, Random& random) {
  for (Layer& layer : model.layers)
    if (random.below(3) == 0) layer.attention.window = static_cast<int>(from(random, 1, 10));
}

/// A layer's attention, gate and dense feed-forward part in a static pass, from what each row attends to.
Work naive_work(const Architecture& model, const Layer& layer, const NaiveAttention& rows,
                double newly_encoded) {
  const bool prompt = !rows.prompts.empty();
  const std::vector<double>& attended = prompt ? rows.prompts : rows.decoding;
  const auto tokens = static_cast<double>(attended.size());
  Work all = attention_work(model, layer, tokens, sum_through(attended, layer.attention.window) / tokens,
                            prompt ? kTile : 1, sum_through(rows.encoded, 0) / tokens);
  for (const Work& more :
       {cross_cache_work(model, layer, newly_encoded),
        layer.feed_forward.kind == FeedForward::Kind::dense ? dense_work(model, layer, tokens) : Work{}}) {
    all.flops += more.flops;
    all.weight_bytes += more.weight_bytes;
    all.kv_bytes += more.kv_bytes;
    all.kernels += more.kernels;
  }
  return all;
}

/// Passes of a batch of requests of these lengths.
class PassesOf {
 public:
  PassesOf(const Architecture& model, const std::vector<Lengths>& lengths)
      : model_(model),
        trace_(trace_of(model, lengths)),
        passes_(trace_, static_cast<std::uint32_t>(lengths.size()), {.encoded = model.has_encoder()}) {}
  Pass next() {
    Pass pass;
    REQUIRE(passes_.next(pass));
    return pass;
  }
  /// Of one layer in the pass that comes next, with its feed-forward part where that is dense.
  KernelTime next_layer(std::size_t layer) {
    DenseTimes times(model_, timing_);
    times.begin(next());
    return times.dense(layer);
  }

 private:
  static RoutingTrace trace_of(const Architecture& model, const std::vector<Lengths>& lengths) {
    Random random(1);
    return random_trace(random, model, lengths, false);
  }
  const Architecture& model_;
  DeviceProfile device_ = small_device();
  TimingModel timing_{device_};
  RoutingTrace trace_;
  StaticPasses passes_;
};

}  // namespace

TEST_CASE("attended: rows that follow each other are summed as one by one") {
  for (const double first : {1.0, 2.0, 2.5, 7.0, 12.5, 40.0})
    for (std::uint32_t rows = 1; rows <= 30; ++rows)
      for (int window = 0; window <= 45; ++window) {
        std::vector<double> one_by_one;
        for (std::uint32_t i = 0; i < rows; ++i) one_by_one.push_back(first + i);
        REQUIRE(attended_tokens({.first = first, .rows = rows}, window) == sum_through(one_by_one, window));
        REQUIRE(attended_tokens({.first = first, .rows = rows, .whole = true}, window) ==
                sum_through(std::vector<double>(rows, first), window));
      }
}

TEST_CASE("attended: a prompt of a million tokens through a window, in one piece and in chunks") {
  constexpr double kRows = 1e6, kWindow = 4096;
  const double closed = kWindow * kRows - kWindow * (kWindow - 1) / 2;  // the first rows see fewer
  CHECK(attended_tokens({.first = 1, .rows = 1'000'000}, 4096) == closed);
  double chunks = 0;
  for (std::uint32_t done = 0; done < 1'000'000; done += 1250)
    chunks += attended_tokens({.first = done + 1.0, .rows = 1250}, 4096);
  CHECK(chunks == closed);
}

TEST_CASE("attended: every layer of a static pass takes what its rows attend to") {
  int windowed = 0, encoders = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    INFO("seed " << seed);
    SmallRun run = random_run(seed);
    Architecture& model = run.scenario.model;
    Random random(seed + 0x3d0);
    give_windows(model, random);
    const TimingModel timing(run.scenario.device);
    DenseTimes times(model, timing);
    encoders += model.has_encoder() ? 1 : 0;
    std::set<std::size_t> encoded;  // requests whose encoder's tokens have got their keys and values
    const std::uint32_t size = run.scenario.workload.batch;
    const auto passes = naive_passes(run.trace, size, model.has_encoder());
    std::size_t p = 0;
    StaticPasses stream(run.trace, size, {.encoded = model.has_encoder()});
    for (Pass pass; stream.next(pass); ++p) {
      REQUIRE(p < passes.size());
      times.begin(pass);
      const NaiveAttention rows = naive_attention(run, passes[p]);
      double newly_encoded = 0;
      for (const std::size_t q : passes[p].gets_token)
        if (model.has_encoder() && encoded.insert(q).second)
          newly_encoded +=
              static_cast<double>(run.trace.requests()[q].decode_begin - run.trace.requests()[q].begin);
      for (const auto& [layer, moe] : layers_of(model, passes[p].prompt)) {
        const auto l = static_cast<std::size_t>(layer);
        const Work work = naive_work(model, model.layers[l], rows, newly_encoded);
        const KernelTime time = times.dense(l);
        CHECK(time.flops == Approx(work.flops.value()).epsilon(1e-12));
        CHECK(time.bytes == Approx((work.weight_bytes + work.kv_bytes).value()).epsilon(1e-12));
        CHECK(time.seconds == Approx((timing.kernel(work) + timing.dispatch()).value()).epsilon(1e-12));
        windowed += model.layers[l].attention.window > 0 ? 1 : 0;
      }
    }
    CHECK(p == passes.size());
  }
  CHECK(windowed > moelab::test::random_runs(300));
  CHECK(encoders > moelab::test::random_runs(30));
}

TEST_CASE("attended: gpt-oss-20b, a long and a short prompt, then a token of each") {
  // Layers 0, 2, ... through a window of 128. 64 heads of 64, keys and values of 8 heads; 2 bytes a value.
  const Architecture model = load_architecture("gpt-oss-20b");
  const double weights = attention_weights(model, model.layers[0]) + gate_weights(model, model.layers[0]);
  const auto check = [&](const KernelTime& time, double rows, double attended, double rows_a_read) {
    CHECK(time.flops == Approx(2 * weights * rows + 2.0 * 64 * (64 + 64) * attended).epsilon(1e-14));
    CHECK(time.bytes == Approx(2 * weights + 8.0 * (64 + 64) * 2 * attended / rows_a_read).epsilon(1e-14));
  };
  const std::vector<Lengths> lengths = {{1000, 2}, {60, 2}};
  const double windowed = 128 * 1000 - 128 * 127 / 2.0 + 60 * 61 / 2.0;  // the mean of all is not cut
  const double full = 1000 * 1001 / 2.0 + 60 * 61 / 2.0;
  PassesOf even(model, lengths), odd(model, lengths);
  check(even.next_layer(0), 1060, windowed, 128);
  check(odd.next_layer(1), 1060, full, 128);
  check(even.next_layer(0), 2, 128 + 61, 1);
  check(odd.next_layer(1), 2, 1001 + 61, 1);
}

TEST_CASE("attended: switch-large-128, encoder, cross-attention's keys and values, decoder") {
  // 16 heads of 64, hidden 1024: a projection has 1024 * 1024 weights. Even layers have a dense feed-forward
  // part of 4096, two matrices. Layers 0 to 23 are the encoder's.
  const Architecture model = load_architecture("switch-large-128");
  constexpr double kProjection = 1024.0 * 1024, kDense = 2 * 1024.0 * 4096, kPair = 2.0 * 16 * (64 + 64);
  constexpr double kCached = 16.0 * (64 + 64) * 2;  // bytes of keys and values of a token in a layer
  const std::vector<Lengths> lengths = {{128, 3}, {50, 3}};
  PassesOf passes(model, lengths);
  const KernelTime encoder = passes.next_layer(0);
  const double encoder_weights = 4 * kProjection + 2 * 1024 + kDense;
  const double seen = 128.0 * 128 + 50.0 * 50;
  CHECK(encoder.flops == Approx(2 * encoder_weights * 178 + kPair * seen).epsilon(1e-14));
  CHECK(encoder.bytes == Approx(2 * encoder_weights + kCached * seen / kTile).epsilon(1e-14));
  // Two attentions, one without its keys' and values' projections, which see the encoder's tokens, once.
  const double decoder_weights = 6 * kProjection + 3 * 1024 + kDense;
  for (const int step : {0, 1, 2}) {
    const KernelTime decoder = passes.next_layer(24);
    const double made = step == 0 ? 2 * kProjection : 0;
    const double attended = 2 * (step + 1) + 128 + 50;  // the decoder's own tokens, and each one's encoder's
    CHECK(decoder.flops ==
          Approx(2 * decoder_weights * 2 + 2 * made * 178 + kPair * attended).epsilon(1e-14));
    CHECK(decoder.bytes == Approx(2 * (decoder_weights + made) + kCached * attended).epsilon(1e-14));
  }
}

TEST_CASE("attended: an encoder-decoder keeps each token once") {
  // 24 decoder layers; of an encoder's token cross-attention keeps as much as self-attention of a decoder's.
  const Architecture model = load_architecture("switch-large-128");
  constexpr double kToken = 24 * 16.0 * (64 + 64) * 2;
  CHECK(kv_bytes_per_token(model).value() == kToken);
  CHECK(cross_kv_bytes_per_token(model).value() == kToken);
  SmallRun run;
  Scenario& s = run.scenario;
  s.model = model;
  s.device = small_device();
  s.device.memory.total.value = Bytes(1e12);
  s.systems = {plain_system()};
  s.workload.batch = 2;
  s.budget = Bytes(9e11);
  Random random(1);
  run.trace = random_trace(random, model, {{128, 64}, {50, 10}, {200, 1}}, false);
  // Of each request its prompt, what it decoded, and the token that comes last.
  CHECK(plan_memory(s, run.system(), run.costs(), run.trace).kv_cache.value() ==
        kToken * (128 + 64 + 1 + 50 + 10 + 1));
}

}  // namespace moelab::attended_test
