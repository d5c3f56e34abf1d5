// Profiles of machines whose GPU has memory of its own: what they hold, and how long what takes there.
#include <catch2/catch.hpp>

#include "models/device.hpp"
#include "models/timing.hpp"
#include "tests/models/profile_text.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::discrete_device_test {

using namespace moelab::test;

namespace {

const std::string kProfile = R"(name: discrete-device
title: A machine with a card
sources:
  bench: {kind: measured, text: a benchmark}
memory:
  total: {value: 64 GB, source: bench}
  system_reserve: {value: 2 GB, source: bench}
cpu:
  threads: {value: 8, source: bench}
  dispatch: {value: 1 us, source: bench}
  experts:
    - {hidden: 2048, width: 1408, matrices: 3, seconds: {points: [[1, 300 us], [5, 700 us]], source: bench}}
  peak: {value: 300 GFLOP/s, source: bench}
  bandwidth: {value: 50 GB/s, source: bench}
  dense_launch: {value: 5 us, source: bench}
ssd:
  read: {latency: 50 us, rate: 2 GB/s, source: bench}
  slowdown_while_decompressing: {value: 1, source: bench}
  readers: {value: [1, 2], source: bench}
page_cache:
  read: {latency: 2 us, rate: 10 GB/s, source: bench}
codecs: {}
gpu:
  peak: {value: 100 TFLOP/s, source: bench}
  flops_efficiency: {value: 0.5, source: bench}
  launch: {value: 3 us, source: bench}
  memory: {value: 12 GB, source: bench}
  reserve: {value: 1 GB, source: bench}
  bandwidth: {value: 800 GB/s, source: bench}
  link:
    to_device: {latency: 10 us, rate: 25 GB/s, spread: [0.9, 1, 1.2], source: bench}
    to_host: {points: [[1 MB, 60 us], [3 MB, 140 us]], source: bench}
    pageable: {latency: 20 us, rate: 5 GB/s, source: bench}
)";

const std::string kMemory = "  memory: {value: 12 GB, source: bench}\n";
const std::string kReserve = "  reserve: {value: 1 GB, source: bench}\n";
const std::string kBandwidth = "  bandwidth: {value: 800 GB/s, source: bench}\n";
const std::string kLink = kProfile.substr(kProfile.find("  link:\n"));
const std::string kPageable = "    pageable: {latency: 20 us, rate: 5 GB/s, source: bench}\n";

/// One expert of this shape: 3 matrices of 2048 by 1408 weights of two bytes.
constexpr double kWeights = 3.0 * 2048 * 1408;

struct Expert {
  Architecture model;
  FeedForward ff;
};
Expert measured_shape() {
  Expert e;
  e.model.hidden = 2048;
  e.ff.kind = FeedForward::Kind::moe;
  e.ff.width = 1408;
  e.ff.matrices = 3;
  return e;
}

}  // namespace

TEST_CASE("discrete device: every field is read") {
  const DeviceProfile d = profile_of(kProfile);
  REQUIRE(d.is_discrete());
  CHECK_FALSE(d.memory.bandwidth);
  CHECK(d.memory.total.value == Bytes(64e9));  // the host's
  const GpuMemory& own = *d.gpu->own;
  CHECK(own.total.value == Bytes(12e9));
  CHECK(own.reserve.value == Bytes(1e9));
  CHECK(own.bandwidth.value == BytesPerSecond(800e9));
  CHECK(own.link.to_device.value == Curve::affine(10e-6, 25e9));
  CHECK(own.link.to_device.spread == Spread{0.9, 1, 1.2});
  CHECK(own.link.to_host.value.points() == std::vector<CurvePoint>{{1e6, 60e-6}, {3e6, 140e-6}});
  CHECK(own.link.pageable->value == Curve::affine(20e-6, 5e9));
  CHECK(d.codecs.empty());
  for (const char* line :
       {"gpu.memory: measured (a benchmark)", "gpu.reserve: measured (a benchmark)",
        "gpu.bandwidth: measured (a benchmark)",
        "gpu.link.to_device: measured (a benchmark); p10 0.9x, p50 1x, p90 1.2x",
        "gpu.link.to_host: measured (a benchmark)", "gpu.link.pageable: measured (a benchmark)"})
    CHECK(std::find(d.provenance.begin(), d.provenance.end(), line) != d.provenance.end());
  CHECK_FALSE(d.unmeasured);
  CHECK_FALSE(profile_of(replaced(kProfile, kPageable, "")).gpu->own->link.pageable);
}

TEST_CASE("discrete device: what is wrong is said") {
  struct Case {
    std::string was, becomes, message;
  };
  const Case bad = GENERATE(values<Case>({
      {kLink, "", "given: gpu.memory, gpu.reserve, gpu.bandwidth; missing: gpu.link"},
      {kMemory, "", "given: gpu.reserve, gpu.bandwidth, gpu.link; missing: gpu.memory"},
      {kMemory + kReserve + kBandwidth, "",
       "given: gpu.link; missing: gpu.memory, gpu.reserve, gpu.bandwidth"},
      {kReserve + kBandwidth + kLink, "", "given: gpu.memory; missing: gpu.reserve, gpu.bandwidth, gpu.link"},
      {"  system_reserve: {value: 2 GB, source: bench}\n",
       "  system_reserve: {value: 2 GB, source: bench}\n  bandwidth: {value: 50 GB/s, source: bench}\n",
       "memory.bandwidth is what a GPU streams that shares this memory"},
      {kMemory + kReserve + kBandwidth + kLink, "", "missing key 'bandwidth' in memory"},
      {"value: 12 GB", "value: -12 GB", "gpu.memory.value"},
      {"value: 12 GB", "value: 12 GB/s", "'12 GB/s' for gpu.memory.value"},
      {"value: 1 GB,", "value: -1 GB,", "gpu.reserve.value"},
      {"value: 1 GB,", "value: 12 GB,", "gpu.reserve leaves nothing of gpu.memory"},
      {"value: 800 GB/s", "value: 0 GB/s", "gpu.bandwidth.value"},
      {"value: 800 GB/s", "value: -800 GB/s", "gpu.bandwidth.value"},
      {"rate: 25 GB/s", "rate: -25 GB/s", "gpu.link.to_device.rate"},
      {"latency: 10 us", "latency: -10 us", "gpu.link.to_device.latency"},
      {"[3 MB, 140 us]", "[3 MB, 14 us]", "times must not fall as amounts rise"},
      {"[3 MB, 140 us]", "[1 MB, 140 us]", "amounts must rise"},
      {"    to_host:", "    to_hosts:", "missing key 'to_host' in gpu.link"},
      {"    to_host:", "    to_hosts:", "did you mean 'to_host'"},
      {"    pageable:", "    pagable:", "did you mean 'pageable'"},
      {kLink, "  link: 25 GB/s\n", "gpu.link"},
      {"  reserve: {value: 1 GB, source: bench}", "  reserve: {value: 1 GB, source: bnch}",
       "'bnch' is not among the profile's sources"},
      {"gpu:\n", "gpu: none\nigpu:\n", "gpu"},
  }));
  INFO(bad.was << " -> " << bad.becomes);
  CHECK_THROWS_WITH(profile_of(replaced(kProfile, bad.was, bad.becomes)), Catch::Contains(bad.message));
}

TEST_CASE("discrete device: transfers take their curve, kernels the GPU's own memory") {
  const TimingModel timing(profile_of(kProfile));
  CHECK(timing.is_discrete());
  CHECK_FALSE(timing.computes_on_cpu());
  CHECK_FALSE(timing.recovers_on_cpu());
  CHECK(timing.load(Bytes(17301504)).value() == Approx(10e-6 + 17301504 / 25e9));
  CHECK(timing.store(Bytes(2e6)).value() == Approx(100e-6));  // half way
  CHECK(timing.store(Bytes(1e3)).value() == Approx(60e-6));
  CHECK(timing.load_pageable(Bytes(5e6)).value().value() == Approx(20e-6 + 1e-3));
  CHECK_FALSE(TimingModel(profile_of(replaced(kProfile, kPageable, ""))).load_pageable(Bytes(5e6)));
  // Planes read and values written, 4 bytes an element, and one launch.
  CHECK(timing.recover(1e6).value() == Approx(4e6 / 800e9 + 3e-6));
  const Expert e = measured_shape();
  for (const double tokens : {1.0, 3.0, 62.0, 63.0, 500.0}) {  // 50e12 FLOP/s and 800e9 B/s meet at 62.5
    const double launches = expert_work(e.model, e.ff, tokens).kernels;
    const double flops = 2 * kWeights * tokens / 50e12, traffic = 2 * kWeights / 800e9;
    CHECK((tokens <= 62.5 ? flops < traffic : flops > traffic));
    CHECK(timing.expert(e.model, e.ff, tokens).value() ==
          Approx(std::max(flops, traffic) + launches * 3e-6).epsilon(1e-12));
  }
}

TEST_CASE("discrete device: the CPU computes experts beside the GPU") {
  const TimingModel timing(profile_of(kProfile));
  Expert e = measured_shape();
  CHECK(timing.cpu_expert(e.model, e.ff, 1).value().value() == Approx(300e-6));
  CHECK(timing.cpu_expert(e.model, e.ff, 3).value().value() == Approx(500e-6));
  CHECK(timing.cpu_expert(e.model, e.ff, 9).value().value() == Approx(1100e-6));  // the last slope goes on
  CHECK(timing.cpu_expert(e.model, e.ff, 0).value().value() == 0);
  // Other shapes: the CPU's roofline, 300e9 FLOP/s and 50e9 B/s, which meet at 6 tokens.
  e.ff.width = 1400;
  const double weights = 3.0 * 2048 * 1400;
  for (const double tokens : {1.0, 6.0, 7.0, 40.0}) {
    const double launches = expert_work(e.model, e.ff, tokens).kernels;
    CHECK(timing.cpu_expert(e.model, e.ff, tokens).value().value() ==
          Approx(std::max(2 * weights * tokens / 300e9, 2 * weights / 50e9) + launches * 5e-6));
  }
  CHECK(timing.cpu_expert(e.model, e.ff, 0).value().value() == 0);
  // Neither curve nor roofline: nothing is known.
  for (const char* line :
       {"  peak: {value: 300 GFLOP/s, source: bench}\n", "  bandwidth: {value: 50 GB/s, source: bench}\n",
        "  dense_launch: {value: 5 us, source: bench}\n"}) {
    const TimingModel less(profile_of(replaced(kProfile, line, "")));
    CHECK_FALSE(less.cpu_expert(e.model, e.ff, 1));
    CHECK(less.cpu_expert(measured_shape().model, measured_shape().ff, 1).value().value() == Approx(300e-6));
  }
}

TEST_CASE("discrete device: random experts take what the formulas say") {
  const TimingModel timing(profile_of(kProfile));
  test::Dice dice(17);
  for (int round = 0; round < moelab::test::random_runs(3000); ++round) {
    Expert e;
    e.model.hidden = 8 * dice.from(1, 1000);
    e.ff.width = 8 * dice.from(1, 1000);
    e.ff.matrices = dice.from(2, 3);
    e.model.stored = StoredWeights::plain(dice.coin() ? 2 : 1);
    const double weights = 1.0 * e.ff.matrices * e.model.hidden * e.ff.width, tokens = dice.from(1, 300);
    const double bytes = weights * e.model.stored.of(WeightPart::experts), flops = 2 * weights * tokens;
    const double launches = expert_work(e.model, e.ff, tokens).kernels;
    CHECK(timing.expert(e.model, e.ff, tokens).value() ==
          Approx(std::max(flops / 50e12, bytes / 800e9) + launches * 3e-6).epsilon(1e-12));
    CHECK(timing.cpu_expert(e.model, e.ff, tokens).value().value() ==
          Approx(std::max(flops / 300e9, bytes / 50e9) + launches * 5e-6).epsilon(1e-12));
    CHECK(timing.load(Bytes(bytes)).value() == Approx(10e-6 + bytes / 25e9).epsilon(1e-9));
  }
}

TEST_CASE("discrete device: a stand-in has memory and a link, and is the CPU for the rest") {
  const std::string cpu = replaced(kProfile, "  peak: {value: 300",
                                   "  recover: {points: [[0, 1 us], [1000, 2 us]], source: bench}\n"
                                   "  peak: {value: 300");
  std::string text = replaced(cpu, kBandwidth, "");
  for (const char* const line :
       {"  flops_efficiency: {value: 0.5, source: bench}\n", "  launch: {value: 3 us, source: bench}\n"})
    text = replaced(text, line, "");
  text = replaced(text, "  peak: {value: 100 TFLOP/s, source: bench}\n", "  stand_in: true\n");
  const DeviceProfile d = profile_of(text);
  CHECK(d.is_discrete());
  CHECK(d.has_stand_in());
  CHECK(d.gpu->own->total.value == Bytes(12e9));
  const TimingModel timing(d);
  CHECK(timing.computes_on_cpu());
  CHECK(timing.copies_on_cpu());
  CHECK(timing.load(Bytes(25e6)).value() == Approx(10e-6 + 1e-3));
  const Expert e = measured_shape();
  CHECK(timing.expert(e.model, e.ff, 5).value() == Approx(700e-6));
  CHECK(timing.cpu_expert(e.model, e.ff, 5)->value() == Approx(700e-6));
  // 50 GB/s and 5 us: the CPU's.
  CHECK(timing.kernel({Flops(0), Bytes(5e6), Bytes(0), 1}).value() == Approx(105e-6));

  CHECK_THROWS_WITH(profile_of(replaced(text, "  stand_in: true\n", "  stand_in: true\n" + kBandwidth)),
                    Catch::Contains("gpu.bandwidth is given beside gpu.stand_in"));
  const std::string pages =
      "  stand_in: true\n  remap: {latency: 5 us, rate: 100 GB/s, source: bench}\n"
      "  codecs: {h: {ratio: {value: 0.7, source: bench}, rate: {value: 2 GB/s, source: bench}}}\n";
  const TimingModel paging(profile_of(replaced(text, "  stand_in: true\n", pages)));
  CHECK(paging.remap(Bytes(1e6)).value() == Approx(15e-6));
  CHECK(paging.decode(paging.device().gpu->codecs.at("h"), Bytes(1e6)).value() ==
        Approx(5e-4));  // by a thread
  CHECK_THROWS_WITH(
      profile_of(replaced(text, "  stand_in: true\n",
                          "  stand_in: true\n  node: {gpus: {value: 2, source: bench}, all_reduce: []}\n")),
      Catch::Contains("the CPU plays one GPU"));
  CHECK_THROWS_WITH(profile_of(replaced(text, "  dense_launch: {value: 5 us, source: bench}\n", "")),
                    Catch::Contains("stands in for the GPU") && Catch::Contains("missing: cpu.dense_launch"));
  CHECK_THROWS_WITH(profile_of(replaced(text, kMemory, "")), Catch::Contains("memory"));
  CHECK_FALSE(profile_of(kProfile).has_stand_in());
}

}  // namespace moelab::discrete_device_test
