// Device profiles, curves and the timing model.
#include "models/device.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "models/timing.hpp"
#include "tests/models/profile_text.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::device_test {

using namespace moelab::test;

namespace {

const std::string kProfile = R"(name: test-device
title: Test device
sources:
  bench: {kind: measured, text: "a benchmark, 2026-01-01"}
  sheet: {kind: datasheet, text: a sheet}
memory:
  total: {value: 64 GB, source: sheet}
  system_reserve: {value: 3 GB, source: bench}
  bandwidth: {value: 164 GB/s, source: bench}
cpu:
  threads: {value: 12, source: bench}
  dispatch: {value: 2 us, source: bench}
ssd:
  read: {points: [[4 KiB, 50 us], [1 MiB, 330 us], [4 MiB, 1200 us]], source: bench}
  slowdown_while_decompressing: {value: 1.08, source: bench}
  readers: {value: [1, 1.5, 2.5], source: bench}
page_cache:
  read: {latency: 2 us, rate: 10 GB/s, source: bench}
codecs:
  lz4hc: {ratio: {value: 0.48, source: bench}, decompress: {value: 1.2 GB/s, source: bench}}
gpu:
  peak: {value: 40 TFLOP/s, source: bench}
  flops_efficiency: {value: 0.7, source: bench}
  launch: {value: 3 us, source: bench}
)";

int line_of(const std::string& text, const std::string& what) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

TEST_CASE("device: every number of a profile is read in base units") {
  const DeviceProfile d = profile_of(kProfile);
  CHECK(d.name == "test-device");
  CHECK(d.memory.total.value == Bytes(64e9));
  CHECK(d.memory.total.source == "sheet");
  CHECK(d.memory.system_reserve.value == Bytes(3e9));
  CHECK(d.memory.bandwidth->value == BytesPerSecond(164e9));
  CHECK(d.cpu.threads.value == 12);
  CHECK(d.cpu.dispatch.value.value() == Approx(2e-6));
  REQUIRE(d.ssd.read.value.points().size() == 3);
  CHECK(d.ssd.read.value.points()[1].amount == 1048576);
  CHECK(d.ssd.read.value.points()[1].seconds == Approx(330e-6));
  CHECK(d.ssd.slowdown_while_decompressing.value == 1.08);
  CHECK(d.ssd.readers.value == std::vector<double>{1, 1.5, 2.5});
  CHECK(d.page_cache.read.value(1e9) == Approx(2e-6 + 0.1));
  CHECK(d.codecs.at("lz4hc").ratio.value == 0.48);
  CHECK(std::get<Sourced<BytesPerSecond>>(d.codecs.at("lz4hc").decompress).value == BytesPerSecond(1.2e9));
  CHECK(d.gpu->peak.value == FlopsPerSecond(40e12));
  CHECK(d.gpu->flops_efficiency.value == 0.7);
  CHECK(d.gpu->launch.value.value() == Approx(3e-6));
  CHECK(d.sources.at("bench").kind == Source::Kind::measured);
  CHECK(d.sources.at("bench").text == "a benchmark, 2026-01-01");
}

TEST_CASE("device: provenance names every number, and one that was not measured marks the profile") {
  const DeviceProfile d = profile_of(kProfile);
  const std::vector<std::string> paths = {"memory.total",
                                          "memory.system_reserve",
                                          "memory.bandwidth",
                                          "cpu.threads",
                                          "cpu.dispatch",
                                          "ssd.read",
                                          "ssd.slowdown_while_decompressing",
                                          "ssd.readers",
                                          "page_cache.read",
                                          "codecs.lz4hc.ratio",
                                          "codecs.lz4hc.decompress",
                                          "gpu.peak",
                                          "gpu.flops_efficiency",
                                          "gpu.launch"};
  std::vector<std::string> expected;
  for (const std::string& path : paths)
    expected.push_back(
        path + (path == "memory.total" ? ": datasheet (a sheet)" : ": measured (a benchmark, 2026-01-01)"));
  CHECK(d.provenance == expected);
  CHECK(d.unmeasured);
  CHECK_FALSE(profile_of(replaced(kProfile, "64 GB, source: sheet", "64 GB, source: bench")).unmeasured);
}

TEST_CASE("device: the embedded profiles load and say that they are unmeasured") {
  for (const char* name : {"jetson-agx-orin-64gb", "jetson-agx-orin-32gb"}) {
    const DeviceProfile d = load_device(name);
    CHECK(d.name == name);
    CHECK(d.unmeasured);
    // 13 numbers and two for each codec, each with a source and its text.
    CHECK(d.provenance.size() == 13 + 2 * d.codecs.size());
    CHECK(d.memory.controller->value == BytesPerSecond(204.8e9));  // LPDDR5, 256 bit at 6.4 GT/s
    for (const std::string& line : d.provenance) {
      INFO(line);
      CHECK(line.find(": ") != std::string::npos);
      CHECK(line.find(" ()") == std::string::npos);
    }
  }
  // The paper's boards (ZipMoE, section 5): 64 GB and 32 GB.
  CHECK(load_device("jetson-agx-orin-64gb").memory.total.value == Bytes(64e9));
  CHECK(load_device("jetson-agx-orin-32gb").memory.total.value == Bytes(32e9));
}

TEST_CASE("device: the GPUs of the SMoE paper have the memory, lanes and cores of its settings") {
  struct Board {
    const char* name;
    double memory, bandwidth, peak;  // of the data sheets; peak dense BF16
    double lanes;
  };
  // PCIe 4.0: 16 GT/s a lane, 128 bits in 130.
  constexpr double kLane = 16e9 / 8 * 128 / 130;
  for (const Board& board :
       {Board{"rtx-3080-ti-12gb", 12, 912e9, 68.2e12, 16}, Board{"rtx-4060-ti-16gb", 16, 288e9, 44.1e12, 8},
        Board{"rtx-a6000-48gb", 48, 768e9, 154.8e12, 16}}) {
    INFO(board.name);
    const DeviceProfile d = load_device(board.name);
    CHECK(d.name == board.name);
    CHECK(d.unmeasured);
    REQUIRE(d.is_discrete());
    const GpuMemory& own = *d.gpu->own;
    CHECK(own.total.value.value() == board.memory * 0x1p30);
    CHECK(d.gpu->peak.value == FlopsPerSecond(board.peak));
    CHECK(d.cpu.threads.value == 8);
    // What is achieved is most of what is promised, and no more.
    const auto most = [](double share) { return share > 0.75 && share < 1; };
    CHECK(most(own.bandwidth.value.value() / board.bandwidth));
    for (const Curve* link : {&own.link.to_device.value, &own.link.to_host.value})
      CHECK(most(1e9 / ((*link)(2e9) - (*link)(1e9)) / (board.lanes * kLane)));
    for (const std::string& line : d.provenance) CHECK(line.find(" ()") == std::string::npos);
  }
}

TEST_CASE("device: the SMoE paper's orders of magnitude come out of its A6000's profile") {
  // Section III, Fig. 3: loading an expert over PCIe takes one to two orders of magnitude longer than one
  // token's time on the GPU, and computing it on the CPU about one; section VI-C: in S3 the CPU takes about a
  // third of loading. An order of magnitude is taken as a factor from sqrt(10) to 10 sqrt(10).
  const TimingModel timing(load_device("rtx-a6000-48gb"));
  for (const char* name : {"deepseek-moe-16b", "xverse-moe-a4.2b", "qwen2-57b-a14b"}) {
    INFO(name);
    const Architecture a = load_architecture(name);
    const double gpu = timing.expert(a, a.moe(), 1).value();
    const double cpu = timing.cpu_expert(a, a.moe(), 1).value().value();
    const double load = timing.load(expert_bytes(a)).value();
    CHECK((cpu / gpu > std::sqrt(10) && cpu / gpu < 10 * std::sqrt(10)));
    CHECK((load / gpu > 10 && load / gpu < 100));
    CHECK((cpu / load > 0.25 && cpu / load < 0.45));
    // Fig. 8: CPU times are stable at low batch sizes.
    CHECK(timing.cpu_expert(a, a.moe(), 3).value().value() == cpu);
  }
}

TEST_CASE(
    "device: the A100 has its data sheet's memory and speed, and an expert takes what others measured") {
  const DeviceProfile d = load_device("a100-40gb");
  CHECK(d.unmeasured);
  REQUIRE(d.is_discrete());
  const GpuMemory& own = *d.gpu->own;
  // Of 40 GiB the driver keeps less than 2 %; 1,555 GB/s, 312 TFLOP/s, PCIe 4.0 x16.
  CHECK(own.total.value.value() < 40 * 0x1p30);
  CHECK(own.total.value.value() > 0.98 * 40 * 0x1p30);
  CHECK(d.gpu->peak.value == FlopsPerSecond(312e12));
  CHECK(d.memory.total.value.value() == 256 * 0x1p30);
  const auto most = [](double share) { return share > 0.75 && share < 1; };
  CHECK(most(own.bandwidth.value.value() / 1555e9));
  for (const Curve* link : {&own.link.to_device.value, &own.link.to_host.value})
    CHECK(most(1e9 / ((*link)(2e9) - (*link)(1e9)) / (16 * 16e9 / 8 * 128 / 130)));
  for (const std::string& line : d.provenance) CHECK(line.find(" ()") == std::string::npos);
  // Not what the profile was made of: vLLM's fused kernel takes 454 us for one token's two experts of
  // Mixtral-8x7B on an A100 with 2,039 GB/s (ai-dynamo/aiconfigurator@095f58a, moe of a100_sxm).
  const TimingModel timing(d);
  const Architecture mixtral = load_architecture("mixtral-8x7b");
  CHECK(2 * timing.expert(mixtral, mixtral.moe(), 1).value() == Approx(454e-6 * 2039 / 1555).epsilon(0.05));
}

TEST_CASE("device: what is wrong with a profile is said with its line") {
  struct Case {
    std::string was, becomes, message;
  };
  const Case bad = GENERATE(values<Case>({
      {"bandwidth: {value: 164 GB/s, source: bench}",
       "bandwidth: {value: 164 GB/s, source: bench}\n  controller: {value: 160 GB/s, source: bench}",
       "memory.controller is less than memory.bandwidth, which the GPU alone moves through it"},
      {"bandwidth: {value: 164 GB/s, source: bench}",
       "bandwidth: {value: 164 GB/s, source: bench}\n  controller: {value: 0 GB/s, source: bench}",
       "memory.controller.value"},
      {"bandwidth: {value: 164 GB/s, source: bench}", "bandwidth: {value: 164 GB/s}",
       "missing key 'source' in memory.bandwidth"},
      {"dispatch: {value: 2 us, source: bench}", "dispatch: {value: 2 us, source: bnch}",
       "'bnch' is not among the profile's sources (did you mean 'bench'?)"},
      {"[1 MiB, 330 us]", "[1 MiB, 30 us]", "times must not fall as amounts rise"},
      {"[1 MiB, 330 us]", "[2 KiB, 330 us]", "amounts must rise from point to point"},
      {"[1 MiB, 330 us]", "[1 MiB]", "a point of the curve has 1 values; expected [size, time]"},
      {"[1 MiB, 330 us]", "[1 MiB, 330]", "'330' for time"},
      {"points: [[4 KiB, 50 us], [1 MiB, 330 us], [4 MiB, 1200 us]]", "points: []",
       "a curve needs at least one point"},
      {"points: [[4 KiB, 50 us], [1 MiB, 330 us], [4 MiB, 1200 us]]", "rate: 1 GB/s",
       "missing key 'latency' in ssd.read"},
      {"launch: {value: 3 us", "launch: {value: 3", "'3' for gpu.launch.value"},
      {"launch: {value: 3 us", "launch: {value: 3 GB", "expected a time"},
      {"launch: {value: 3 us", "launch: {value: -3 us", "gpu.launch.value"},
      {"launch: {value: 3 us", "launch: {vlue: 3 us, value: 3 us", "unknown key 'vlue' in gpu.launch"},
      {"value: [1, 1.5, 2.5]", "value: []", "ssd.readers lists no factor"},
      {"value: [1, 1.5, 2.5]", "value: [0.5]", "'0.5' for ssd.readers"},
      {"threads: {value: 12", "threads: {value: 0", "'0' for cpu.threads.value"},
      {"ratio: {value: 0.48", "ratio: {value: 0", "'0' for codecs.lz4hc.ratio.value"},
      {"ratio: {value: 0.48", "ratio: {value: 1.2", "'1.2' for codecs.lz4hc.ratio.value"},
      {"flops_efficiency: {value: 0.7", "flops_efficiency: {value: 1.7",
       "'1.7' for gpu.flops_efficiency.value"},
      {"kind: measured", "kind: measurd", "(did you mean 'measured'?)"},
      {"  dispatch:", "  threads: {value: 1, source: bench}\n  dispatch:", "threads"},
      {"page_cache:\n  read", "page_cash:\n  read", "unknown key 'page_cash'"},
  }));
  const std::string text = replaced(kProfile, bad.was, bad.becomes);
  INFO(bad.becomes);
  try {
    profile_of(text);
    FAIL("no error");
  } catch (const InputError& error) {
    INFO(error.what());
    const int line = line_of(text, bad.becomes);
    CHECK(std::any_of(error.problems().begin(), error.problems().end(), [&](const Problem& p) {
      // A duplicate is found at its second place, on the next line here.
      return p.file == "device.yaml" && (p.line == line || p.line == line + 1) &&
             p.what.find(bad.message) != std::string::npos;
    }));
  }
}

TEST_CASE("device: all problems of a profile are said at once") {
  std::string text = replaced(kProfile, "164 GB/s", "164");
  text = replaced(text, "{value: 12,", "{value: twelve,");
  text = replaced(text, "3 us", "3 uss");
  try {
    profile_of(text);
    FAIL("no error");
  } catch (const InputError& error) {
    REQUIRE(error.problems().size() == 3);
    CHECK(error.problems()[0].line == line_of(text, "bandwidth"));
    CHECK(error.problems()[1].line == line_of(text, "threads"));
    CHECK(error.problems()[2].line == line_of(text, "launch"));
  }
}

TEST_CASE("device: an unknown device is named with the closest known one") {
  CHECK_THROWS_WITH(load_device("jetson-agx-orin-64g"),
                    Catch::Contains("did you mean 'jetson-agx-orin-64gb'"));
}

namespace {

/// The definition in curve.hpp, by looking at every segment.
double naive_curve(const std::vector<CurvePoint>& points, double amount) {
  if (amount <= points.front().amount || points.size() == 1) return points.front().seconds;
  std::size_t i = 1;
  while (i + 1 < points.size() && amount > points[i].amount) ++i;
  const double share = (amount - points[i - 1].amount) / (points[i].amount - points[i - 1].amount);
  return (1 - share) * points[i - 1].seconds + share * points[i].seconds;
}

}  // namespace

TEST_CASE("curve: linear between its points, flat before, the last slope beyond") {
  test::Dice dice(3);
  for (int round = 0; round < moelab::test::random_runs(2000); ++round) {
    std::vector<CurvePoint> points;
    double amount = dice.from(0, 3), seconds = dice.from(0, 3);
    for (int n = dice.from(1, 6); n > 0; --n) {
      points.push_back({amount, seconds});
      amount += dice.from(1, 9);
      seconds += dice.from(0, 9);
    }
    REQUIRE(Curve::problem_with(points).empty());
    const Curve curve(points);
    double before = 0;
    for (double x = 0; x < amount + 5; x += 0.25) {
      const double y = curve(x);
      if (y != Approx(naive_curve(points, x)).epsilon(1e-12)) FAIL("differs at " << x);
      if (y < before) FAIL("falls at " << x);
      before = y;
    }
    for (const CurvePoint& p : points) CHECK(curve(p.amount) == p.seconds);
  }
}

TEST_CASE("curve: latency and rate") {
  test::Dice dice(4);
  for (int round = 0; round < moelab::test::random_runs(1000); ++round) {
    const double latency = dice.from(0, 1000) * 1e-6, rate = dice.from(1, 1000) * 1e8;
    const double bytes = dice.from(0, 1000) * 1e5;
    CHECK(Curve::affine(latency, rate)(bytes) == Approx(latency + bytes / rate).epsilon(1e-9));
  }
}

TEST_CASE("curve: what is no curve") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(Curve::problem_with({{0, 0}}).empty());
  CHECK(Curve::problem_with({{0, 1}, {1, 1}}).empty());
  for (const std::vector<CurvePoint>& points : std::vector<std::vector<CurvePoint>>{{},
                                                                                    {{-1, 0}},
                                                                                    {{0, -1}},
                                                                                    {{inf, 0}},
                                                                                    {{0, inf}},
                                                                                    {{nan, 0}},
                                                                                    {{0, nan}},
                                                                                    {{1, 1}, {1, 2}},
                                                                                    {{1, 1}, {0, 2}},
                                                                                    {{0, 2}, {1, 1}}})
    CHECK_FALSE(Curve::problem_with(points).empty());
}

TEST_CASE("timing: closed forms") {
  const DeviceProfile device = profile_of(kProfile);
  const TimingModel timing(device);
  // 4 bytes an element move through memory (both planes read, BF16 written), and one kernel is launched.
  CHECK(timing.recover(1e6).value() == Approx(4e6 / 164e9 + 3e-6).epsilon(1e-12));
  CHECK(timing.decompress(device.codecs.at("lz4hc"), Bytes(3e6)).value() == Approx(3e6 / 1.2e9));
  CHECK(timing.page_cache_read(Bytes(5e6)).value() == Approx(2e-6 + 5e6 / 10e9));
  CHECK(timing.dispatch().value() == Approx(2e-6));
  // Between two points of the table: 2.5 MiB lie half way from 1 to 4 MiB.
  CHECK(timing.ssd_read(Bytes(2.5 * 1048576)).value() == Approx((330e-6 + 1200e-6) / 2));
  // Roofline: 0.7 * 40e12 = 28e12 FLOP/s and 164e9 B/s meet at 170.7 FLOP a byte.
  const double peak = 28e12, bandwidth = 164e9;
  const Work compute{Flops(1e9), Bytes(1e6), Bytes(0), 2};
  CHECK(timing.kernel(compute).value() == Approx(1e9 / peak + 2 * 3e-6).epsilon(1e-12));
  const Work memory{Flops(1e6), Bytes(1e6), Bytes(2e6), 0};
  CHECK(timing.kernel(memory).value() == Approx(3e6 / bandwidth).epsilon(1e-12));
  CHECK(timing.kernel({}).value() == 0);
  test::Dice dice(5);
  for (int round = 0; round < moelab::test::random_runs(1000); ++round) {
    const Work work{Flops(dice.from(0, 1000000) * 1e4), Bytes(dice.from(0, 1000) * 1e4),
                    Bytes(dice.from(0, 1000) * 1e4), dice.from(0, 9)};
    const double traffic = (work.weight_bytes.value() + work.kv_bytes.value()) / bandwidth;
    CHECK(timing.kernel(work).value() ==
          Approx(std::max(work.flops.value() / peak, traffic) + work.kernels * 3e-6).epsilon(1e-12));
  }
}

}  // namespace moelab::device_test
