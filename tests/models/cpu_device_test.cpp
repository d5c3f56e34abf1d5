// Profiles of machines that compute on the CPU: what they hold, who does what, and how long it takes.
#include <catch2/catch.hpp>

#include "models/device.hpp"
#include "models/timing.hpp"
#include "tests/models/profile_text.hpp"
#include "tests/models/random_architecture.hpp"

namespace moelab::cpu_device_test {

using namespace moelab::test;

namespace {

const std::string kProfile = R"(name: cpu-device
title: A machine without GPU
sources:
  bench: {kind: measured, text: a benchmark}
measured_on: {cpu: EPYC, kernel: Linux 6.1, date: 2026-01-01, command: moelab calibrate}
memory:
  total: {value: 24 GB, source: bench}
  system_reserve: {value: 1 GB, source: bench}
cpu:
  threads: {value: 2, source: bench}
  dispatch: {value: 24 us, spread: [20 us, 24 us, 40 us], source: bench}
  recover: {points: [[1000000, 100 us], [3000000, 300 us]], source: bench}
  experts:
    - {hidden: 2048, width: 1408, matrices: 3, seconds: {points: [[1, 1 ms], [5, 2 ms]], source: bench}}
  peak: {value: 200 GFLOP/s, source: bench}
  bandwidth: {value: 20 GB/s, source: bench}
  dense_launch: {value: 5 us, source: bench}
  sharing: {value: [1, 1.1, 1.5], source: bench}
  slowdown_while_reading: {value: 1.07, spread: [1, 1.07, 1.2], source: bench}
ssd:
  read: {latency: 50 us, rate: 2 GB/s, spread: [0.8, 1, 1.9], source: bench}
  slowdown_while_decompressing: {value: 1, source: bench}
  readers: {value: [1, 2], source: bench}
page_cache:
  read: {latency: 2 us, rate: 10 GB/s, source: bench}
codecs:
  lz4hc: {ratio: {value: 0.5, source: bench}, decompress: {value: 3.6 GB/s, spread: [3.5 GB/s, 3.6 GB/s, 3.7 GB/s], source: bench}}
  zstd: {ratio: {value: 0.36, source: bench}, decompress: {points: [[64 KiB, 40 us], [1 MiB, 600 us]], source: bench}}
)";

}  // namespace

TEST_CASE("cpu device: every field is read") {
  const DeviceProfile d = profile_of(kProfile);
  CHECK_FALSE(d.gpu);
  CHECK_FALSE(d.memory.bandwidth);
  CHECK(d.cpu.dispatch.spread == Spread{20e-6, 24e-6, 40e-6});
  CHECK(d.cpu.recover->value.points() == std::vector<CurvePoint>{{1e6, 100e-6}, {3e6, 300e-6}});
  REQUIRE(d.cpu.experts.size() == 1);
  CHECK(d.cpu.experts[0].hidden == 2048);
  CHECK(d.cpu.experts[0].width == 1408);
  CHECK(d.cpu.experts[0].matrices == 3);
  CHECK(d.cpu.experts[0].seconds.value.points() == std::vector<CurvePoint>{{1, 1e-3}, {5, 2e-3}});
  CHECK(d.cpu.peak->value == FlopsPerSecond(200e9));
  CHECK(d.cpu.bandwidth->value == BytesPerSecond(20e9));
  CHECK(d.cpu.dense_launch->value == Seconds(5e-6));
  CHECK(d.cpu.sharing->value == std::vector<double>{1, 1.1, 1.5});
  CHECK(d.cpu.slowdown_while_reading.value().value == 1.07);
  CHECK(d.cpu.slowdown_while_reading->spread == Spread{1, 1.07, 1.2});
  CHECK(d.ssd.read.spread == Spread{0.8, 1, 1.9});
  CHECK(std::get<Sourced<BytesPerSecond>>(d.codecs.at("lz4hc").decompress).spread ==
        Spread{3.5e9, 3.6e9, 3.7e9});
  CHECK(d.measured_on == MeasuredOn{{"EPYC", "Linux 6.1", "", ""}, "2026-01-01", "moelab calibrate"});
  CHECK_FALSE(d.unmeasured);
}

TEST_CASE("cpu device: provenance tells machine and spread") {
  const std::vector<std::string> lines = profile_of(kProfile).provenance;
  const auto has = [&](const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  CHECK(lines.front() == "measured on EPYC, Linux 6.1; 2026-01-01, moelab calibrate");
  CHECK(has("cpu.dispatch: measured (a benchmark); p10 20 us, p50 24 us, p90 40 us"));
  CHECK(has("ssd.read: measured (a benchmark); p10 0.8x, p50 1x, p90 1.9x"));
  CHECK(has("cpu.experts, 3 matrices of 2048 by 1408: measured (a benchmark)"));
  CHECK(has("codecs.lz4hc.decompress: measured (a benchmark); p10 3.5 GB/s, p50 3.6 GB/s, p90 3.7 GB/s"));
}

TEST_CASE("cpu device: what is wrong is said") {
  struct Case {
    std::string was, becomes, message;
  };
  const Case bad = GENERATE(values<Case>({
      {"  peak: {value: 200 GFLOP/s, source: bench}\n", "",
       "the profile has no 'gpu' section, and not all is there that a machine without GPU needs; missing: "
       "cpu.peak"},
      {"  recover: {points: [[1000000, 100 us], [3000000, 300 us]], source: bench}\n", "",
       "missing: cpu.recover"},
      {"  dense_launch: {value: 5 us, source: bench}\n", "", "missing: cpu.dense_launch"},
      {"  bandwidth: {value: 20 GB/s, source: bench}\n", "", "missing: cpu.bandwidth"},
      {"system_reserve: {value: 1 GB, source: bench}",
       "system_reserve: {value: 1 GB, source: bench}\n  bandwidth: {value: 9 GB/s, source: bench}",
       "memory.bandwidth is what the GPU streams"},
      {"[1, 1.1, 1.5]", "[1.1, 1.5]", "cpu.sharing begins with 1.1; expected 1"},
      {"[1, 1.1, 1.5]", "[1, 0.9]", "'0.9' for cpu.sharing"},
      {"[1, 1.1, 1.5]", "[]", "cpu.sharing lists no factor"},
      {"{value: 1.07", "{value: 0.9", "cpu.slowdown_while_reading"},
      {"{value: 1.07", "{value: 101", "cpu.slowdown_while_reading"},
      {"slowdown_while_reading", "slowdown_while_readin", "did you mean 'slowdown_while_reading'"},
      {"  sharing: {value: [1, 1.1, 1.5], source: bench}\n", "",
       "cpu.slowdown_while_reading is given without cpu.sharing; expected both, or neither"},
      {"[[1000000, 100 us]", "[[1 MB, 100 us]", "'1 MB' for elements"},
      {"[[1, 1 ms]", "[[1.5, 1 ms]", "'1.5' for tokens"},
      {"matrices: 3, seconds", "matrices: 4, seconds", "matrices"},
      {"matrices: 3, seconds", "matrixes: 3, seconds", "did you mean 'matrices'"},
      {"width: 1408", "wdith: 1408", "unknown key 'wdith'"},
      {"    - {hidden: 2048",
       "    - {hidden: 2048, width: 1408, matrices: 3, seconds: {points: [[1, 1 ms]], source: "
       "bench}}\n    - {hidden: 2048",
       "are listed twice"},
      {"spread: [20 us, 24 us, 40 us]", "spread: [20 us, 40 us]", "the spread of cpu.dispatch has 2 values"},
      {"spread: [20 us, 24 us, 40 us]", "spread: [20 us, 40 us, 24 us]", "the spread of cpu.dispatch falls"},
      {"spread: [20 us, 24 us, 40 us]", "spread: [20, 24, 40]", "a percentile"},
      {"spread: [0.8, 1, 1.9]", "spread: [1 ms, 2 ms, 3 ms]", "a factor on the values"},
      {"spread: [0.8, 1, 1.9]", "sprad: [0.8, 1, 1.9]", "did you mean 'spread'"},
      {"  dense_launch:", "  dense_lunch:", "did you mean 'dense_launch'"},
      {"kernel: Linux 6.1, ", "", "missing key 'kernel' in measured_on"},
      {"date: 2026", "dat: 2026", "did you mean 'date'"},
      {"measured_on: {", "measured_onn: {", "did you mean 'measured_on'"},
      {"[64 KiB, 40 us], [1 MiB", "[64 KiB, 40 us], [1 KiB", "amounts must rise"},
  }));
  INFO(bad.becomes);
  CHECK_THROWS_WITH(profile_of(replaced(kProfile, bad.was, bad.becomes)), Catch::Contains(bad.message));
}

TEST_CASE("cpu device: times are the measured ones where there are any, else the CPU's roofline") {
  const TimingModel timing(profile_of(kProfile));
  const DeviceProfile& d = timing.device();
  CHECK(timing.recovers_on_cpu());
  CHECK(timing.computes_on_cpu());
  CHECK(timing.recover(2e6).value() == Approx(200e-6));  // half way
  CHECK(timing.decompress(d.codecs.at("lz4hc"), Bytes(3.6e6)).value() == Approx(1e-3));
  // 544 KiB lie half way from 64 KiB to 1 MiB.
  CHECK(timing.decompress(d.codecs.at("zstd"), Bytes(544 * 1024)).value() == Approx(320e-6));

  Architecture model;
  model.hidden = 2048;
  FeedForward ff;
  ff.kind = FeedForward::Kind::moe;
  ff.width = 1408;
  ff.matrices = 3;
  CHECK(timing.expert(model, ff, 1).value() == Approx(1e-3));
  CHECK(timing.expert(model, ff, 3).value() == Approx(1.5e-3));
  CHECK(timing.expert(model, ff, 9).value() == Approx(3e-3));  // the last slope goes on
  CHECK(timing.expert(model, ff, 0).value() == 0);
  // Another shape, or weights of another size: 2 FLOPs and 2 bytes a weight, against 200e9 and 20e9 a second.
  const auto roofline = [&](double weights, double bytes_a_weight, double tokens) {
    const double launches = expert_work(model, ff, tokens).kernels;
    return std::max(2 * weights * tokens / 200e9, bytes_a_weight * weights / 20e9) + launches * 5e-6;
  };
  for (const double tokens : {1.0, 7.0, 300.0}) {
    ff.width = 1409;
    CHECK(timing.expert(model, ff, tokens).value() == Approx(roofline(3.0 * 2048 * 1409, 2, tokens)));
    ff.width = 1408;
    ff.matrices = 2;
    CHECK(timing.expert(model, ff, tokens).value() == Approx(roofline(2.0 * 2048 * 1408, 2, tokens)));
    ff.matrices = 3;
    model.stored = StoredWeights::plain(0.5);
    CHECK(timing.expert(model, ff, tokens).value() == Approx(roofline(3.0 * 2048 * 1408, 0.5, tokens)));
    model.stored = {};
  }
}

TEST_CASE("cpu device: with a GPU beside it, the CPU recovers only where that was measured") {
  std::string text =
      replaced(kProfile, "system_reserve: {value: 1 GB, source: bench}",
               "system_reserve: {value: 1 GB, source: bench}\n  bandwidth: {value: 100 GB/s, source: bench}");
  text +=
      "gpu:\n  peak: {value: 10 TFLOP/s, source: bench}\n  flops_efficiency: {value: 0.5, source: bench}\n"
      "  launch: {value: 3 us, source: bench}\n";
  const TimingModel both(profile_of(text));
  CHECK_FALSE(both.computes_on_cpu());
  CHECK(both.recover(2e6).value() == Approx(200e-6));
  Architecture model;
  model.hidden = 2048;
  FeedForward ff;
  ff.width = 1408;
  const Work work = expert_work(model, ff, 1);
  CHECK(both.expert(model, ff, 1).value() ==
        Approx(3 * 2048 * 1408 * 2 / 100e9 + work.kernels * 3e-6));  // memory-bound on the GPU
  const TimingModel gpu(profile_of(
      replaced(text, "  recover: {points: [[1000000, 100 us], [3000000, 300 us]], source: bench}\n", "")));
  CHECK_FALSE(gpu.recovers_on_cpu());
  CHECK(gpu.recover(2e6).value() == Approx(8e6 / 100e9 + 3e-6));
}

TEST_CASE("cpu device: a profile knows the machine it was measured on") {
  const DeviceProfile d = profile_of(kProfile);
  const MachineIdentity there{"EPYC", "Linux 6.1", "", ""};
  CHECK(same_machine(d, there));
  CHECK(machine_differences(d, there).empty());
  for (const MachineIdentity& other :
       {MachineIdentity{"Xeon", "Linux 6.1", "", ""}, MachineIdentity{"EPYC", "Linux 6.2", "", ""},
        MachineIdentity{"EPYC", "Linux 6.1", "580.1", ""},
        MachineIdentity{"EPYC", "Linux 6.1", "", "H200"}}) {
    CHECK_FALSE(same_machine(d, other));
    CHECK(machine_differences(d, other).size() == 1);
  }
  CHECK(machine_differences(d, {"EPYC", "Linux 6.1", "", "H200"}).front() ==
        "gpu: device profile 'cpu-device' was measured with none, here is 'H200'");
  CHECK(machine_differences(d, {"a", "b", "c", "d"}).size() == 4);
  CHECK_FALSE(same_machine(load_device("jetson-agx-orin-64gb"), there));  // does not say
}

}  // namespace moelab::cpu_device_test
