// Profiles from the results of machines that are made of equations: the equations' parameters must come back,
// exactly where there is no noise, within the noise where there is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "hw/calibrate/calibrate.hpp"
#include "hw/calibrate/curve_figures.hpp"
#include "models/device_writer.hpp"
#include "models/input_error.hpp"
#include "models/timing.hpp"
#include "models/yaml_reader.hpp"
#include "tests/hw/synthetic_machine.hpp"
#include "tests/random_runs.hpp"

namespace moelab::calibrate_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

const CalibrationFigure& figure(const CalibratedProfile& made, const std::string& path) {
  const auto found = std::ranges::find(made.figures, path, &CalibrationFigure::path);
  REQUIRE(found != made.figures.end());
  return *found;
}

std::string source_text(const CalibratedProfile& made, const std::string& name) {
  REQUIRE(made.profile.sources.contains(name));
  return made.profile.sources.at(name).text;
}

/// Every number of the profile is its equation's, but for so large a part of it.
void check_equations(const SyntheticMachine& machine, const DeviceProfile& profile, double part) {
  const auto near = [&](double value) { return Approx(value).epsilon(part + 1e-9); };
  // Between the points too: the equations are lines.
  for (const double bytes : {65536.0, 300000.0, 720896.0, 2883584.0, 4e6, 5767168.0}) {
    CHECK(profile.ssd.read.value(bytes) == near(machine.read_latency + bytes / machine.read_rate));
    CHECK(profile.page_cache.read.value(bytes) == near(machine.cached_latency + bytes / machine.cached_rate));
    for (const char* codec : {"fixed3", "lz4hc"})
      CHECK(profile.codecs.at(codec).decompress_seconds(Bytes(bytes)).value() ==
            near(machine.decode_fixed + bytes / machine.decode_rate));
    if (!machine.gpu)
      CHECK(profile.cpu.recover.value().value(bytes) == near(machine.join_fixed + bytes / machine.join_rate));
  }
  REQUIRE(profile.cpu.experts.size() == 1);
  const CpuExperts& experts = profile.cpu.experts.front();
  CHECK((experts.hidden == 2048 && experts.width == 1408 && experts.matrices == 3));
  for (const double tokens : {1.0, 3.0, 16.0})
    CHECK(experts.seconds.value(tokens) == near(machine.expert_fixed + tokens * machine.expert_token));
  CHECK(profile.cpu.dispatch.value.value() == near(2 * machine.hand_off));
  // Quotients of two noisy times.
  const auto quotient = [&](double value) { return Approx(value).epsilon(2 * part / (1 - part) + 1e-9); };
  CHECK(profile.ssd.slowdown_while_decompressing.value == quotient(machine.slowdown));
  CHECK(profile.cpu.slowdown_while_reading.value().value == quotient(machine.slowed_by_reads));
  REQUIRE(profile.ssd.readers.value.size() == 4);
  for (std::size_t n = 1; n <= 4; ++n)
    CHECK(profile.ssd.readers.value[n - 1] == quotient(static_cast<double>(n)));
  REQUIRE(profile.cpu.sharing.value().value.size() == machine.sharing.size());
  for (std::size_t n = 0; n < machine.sharing.size(); ++n)
    CHECK(profile.cpu.sharing->value[n] == quotient(machine.sharing[n]));
}

TEST_CASE("a profile has the parameters of the equations that its results were made of") {
  Random random(5);
  for (int round = 0; round < moelab::test::random_runs(200); ++round) {
    SyntheticMachine machine;
    for (double* parameter :
         {&machine.read_latency, &machine.read_rate, &machine.cached_rate, &machine.decode_fixed,
          &machine.decode_rate, &machine.join_rate, &machine.hand_off, &machine.expert_fixed, &machine.peak,
          &machine.bandwidth, &machine.dense_fixed})
      *parameter *= 0.7 + 0.6 * random.uniform();  // the ridge stays between 2 and 16 FLOPs a byte
    const CalibratedProfile made = profile_from(machine.results(), synthetic_context());
    check_equations(machine, made.profile, 0);
    const CpuProfile& cpu = made.profile.cpu;
    CHECK(cpu.peak.value().value.value() == Approx(machine.peak).epsilon(1e-6));
    CHECK(cpu.bandwidth.value().value.value() == Approx(machine.bandwidth).epsilon(1e-6));
    CHECK(cpu.dense_launch.value().value.value() == Approx(machine.dense_fixed / 14).epsilon(1e-4));
    for (const CalibrationFigure& one : made.figures) {
      CHECK_FALSE(one.noisy);
      CHECK(one.correction < 1e-9);
      if (one.fit_error) CHECK(*one.fit_error < 1e-9);
    }
  }
}

TEST_CASE("the simulator's time of a dense operation is that of the executor's one kernel") {
  SyntheticMachine machine;
  const TimingModel timing(profile_from(machine.results(), synthetic_context()).profile);
  const Work attention{Flops(4e6), Bytes(4e6), Bytes(0), 14};  // one token: 1 FLOP a byte
  CHECK(timing.kernel(attention).value() == Approx(machine.dense_fixed + 4e6 / machine.bandwidth));
}

TEST_CASE("a GPU that the CPU plays has half of the memory and the copies for a link") {
  SyntheticMachine machine;
  ProfileContext context = synthetic_context();
  const DeviceProfile plain = profile_from(machine.results(), context).profile;
  CHECK_FALSE(plain.gpu);
  context.stand_in_bytes = 4e9;
  const DeviceProfile made = profile_from(machine.results(), context).profile;
  REQUIRE(made.has_stand_in());
  CHECK(made.gpu->own->total.value == Bytes(4e9));
  CHECK(made.gpu->own->reserve.value == Bytes(0));
  CHECK(made.memory.system_reserve.value == plain.memory.system_reserve.value + Bytes(4e9));
  for (const double bytes : {4096.0, 1e5, 6e6})  // the last slope goes on
    for (const Curve& curve : {made.gpu->own->link.to_device.value, made.gpu->own->link.to_host.value})
      CHECK(curve(bytes) == Approx(machine.link_fixed + bytes / machine.link_rate));
  CHECK(made.cpu.experts == plain.cpu.experts);
  for (std::size_t n = 0; n < machine.sharing.size(); ++n) {
    CHECK(plain.cpu.sharing->value[n] == Approx(machine.sharing[n]));
    CHECK(made.cpu.sharing->value[n] == Approx(2 * machine.sharing[n] - 1));
  }
  CHECK_NOTHROW(device_to_yaml(made));
}

TEST_CASE("noise stays within its bound, and is called noise") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SyntheticMachine machine;
    machine.seed = seed;
    machine.noise = 0.02;  // uniform: a variation of 1.2 %
    const CalibratedProfile made = profile_from(machine.results(), synthetic_context());
    check_equations(machine, made.profile, machine.noise);
    for (const CalibrationFigure& one : made.figures) {
      // Quotients vary more than what they are made of, but not beyond 5 % either.
      CHECK_FALSE(one.noisy);
      if (one.spread) CHECK((one.spread->p10 > 0.94 && one.spread->p90 < 1.06));
      if (one.fit_error && one.path.find("cpu.") != 0) CHECK(*one.fit_error <= 0.02 / 0.98 + 1e-9);
    }
  }
  SyntheticMachine machine;
  machine.noise = 0.3;  // a variation of 17 %
  const CalibratedProfile made = profile_from(machine.results(), synthetic_context());
  for (const char* path : {"ssd.read", "cpu.dispatch", "cpu.recover", "cpu.peak", "codecs.fixed3.decompress"})
    CHECK(figure(made, path).noisy);
  CHECK_THAT(source_text(made, "ssd_read"), Contains("noisy (cv "));
  CHECK_THAT(source_text(made, "ssd_slowdown_while_decompressing"), Contains("noisy (cv "));
  CHECK(made.profile.ssd.read.spread.value().p90 > 1.05);
  const Spread dispatch = made.profile.cpu.dispatch.spread.value();
  CHECK(dispatch.p50 == Approx(made.profile.cpu.dispatch.value.value()));
  CHECK((dispatch.p10 > 2 * machine.hand_off * 0.7 && dispatch.p90 < 2 * machine.hand_off * 1.3));
  // The rate of a time's slow tenth is the slow one.
  const auto& bandwidth = made.profile.cpu.bandwidth.value();
  const Spread times = figure(made, "cpu.bandwidth").spread.value();
  CHECK(bandwidth.spread.value().p10 == Approx(bandwidth.value.value() / times.p90));
  CHECK(bandwidth.spread.value().p90 == Approx(bandwidth.value.value() / times.p10));
  CHECK_NOTHROW(device_to_yaml(made.profile));  // spreads within what a profile takes
}

TEST_CASE("too few samples are no good figure, however alike") {
  SyntheticMachine machine;
  machine.samples = 3;
  const CalibratedProfile made = profile_from(machine.results(), synthetic_context());
  CHECK(figure(made, "ssd.read").noisy);
  CHECK_THAT(source_text(made, "ssd_read"), Contains("noisy (too few samples to tell)"));
}

DeviceProfile read_back(const DeviceProfile& made) {
  Problems problems;
  DeviceProfile back = read_device(YamlDocument::from_text("made", device_to_yaml(made), problems));
  problems.throw_if_any();
  return back;
}

TEST_CASE("a profile that calibration made reads back as it is") {
  enum class Gpu { none, integrated, discrete };
  for (const Gpu gpu : {Gpu::none, Gpu::integrated, Gpu::discrete}) {
    for (const double noise : {0.0, 0.25}) {
      SyntheticMachine machine;
      machine.gpu = machine.gpu_paging = gpu != Gpu::none;
      machine.noise = noise;
      ProfileContext context = synthetic_context();
      if (gpu == Gpu::discrete) context.gpu_memory = GpuMemoryFound{8'000'000'000, 7'500'000'000};
      const DeviceProfile made = profile_from(machine.results(), context).profile;
      CHECK(made.is_discrete() == (gpu == Gpu::discrete));
      DeviceProfile back = read_back(made);
      CHECK_FALSE(back.provenance.empty());
      CHECK(back.measured_on == made.measured_on);
      back.provenance.clear();
      back.unmeasured = false;
      CHECK(back == made);
    }
  }
}

TEST_CASE("no noise makes a profile that cannot be read") {
  Random random(8);
  for (std::uint64_t i = 0; i < random_runs(1000u, 100u); ++i) {
    SyntheticMachine machine;
    machine.seed = i;
    machine.slowdown = 0.8 + random.uniform();
    machine.slowed_by_reads = 0.9 + 0.2 * random.uniform();
    machine.noise = 0.9 * random.uniform();
    machine.gpu = i % 2 == 1;
    const DeviceProfile made = profile_from(machine.results(), synthetic_context()).profile;
    REQUIRE_NOTHROW(read_back(made));
    for (const Sourced<double>& slowdown :
         {made.ssd.slowdown_while_decompressing, made.cpu.slowdown_while_reading.value()}) {
      REQUIRE(slowdown.spread.value().p10 >= 1);
      REQUIRE(slowdown.spread.value().p50 == slowdown.value);
    }
  }
}

TEST_CASE("a profile says on which machine it was measured") {
  const ProfileContext context = synthetic_context();
  const DeviceProfile made = profile_from(SyntheticMachine().results(), context).profile;
  CHECK(same_machine(made, identity_of(context.machine)));
  MachineContext other = context.machine;
  other.kernel = "Linux 6.2 x86_64";
  CHECK_FALSE(same_machine(made, identity_of(other)));
  CHECK(made.measured_on.value().libraries == "Lemma 2.1");
  CHECK(made.measured_on.value().date == "2026-02-03");
  CHECK(made.memory.total.value.value() == 16e9);
  CHECK(made.memory.system_reserve.value.value() == 2.5e9);  // what was not free
  CHECK_THAT(made.sources.at("memory_system_reserve").text, Contains("13.5 GB"));
  CHECK_THAT(made.sources.at("ssd_read").text, Contains("moelab calibrate, 2026-02-03, Equation 1") &&
                                                   Contains("28 samples at 4 points") &&
                                                   Contains("60 us + 2 GB/s within 0.0 %"));
}

TEST_CASE("times that fall are made not to, and by how much is kept") {
  SyntheticMachine machine;
  std::vector<BenchResult> results = machine.results();
  for (BenchResult& result : results) {
    if (result.name != "read" || !result.parameters.include({{"mode", "cached"}, {"bytes", 5767168U}}))
      continue;
    // Half of the time of the read before it.
    const double before = machine.cached_latency + 2883584 / machine.cached_rate;
    result.samples.assign(result.samples.size(), before / 2);
    result.statistics = statistics_of(result.samples);
  }
  const CalibratedProfile made = profile_from(results, synthetic_context());
  const auto time_of = [&](double bytes) { return machine.cached_latency + bytes / machine.cached_rate; };
  const double a = time_of(2883584), b = a / 2;
  const std::vector<CurvePoint> medians = {
      {65536, time_of(65536)}, {720896, time_of(720896)}, {2883584, a}, {5767168, b}};
  // Apart by what the most rate takes, d: the least of ((t - a) / a)^2 + ((t + d - b) / b)^2, as in ordinary
  // calculus.
  const double d = 2883584 / most_rate(medians);
  const double t = (1 / a + (b - d) / (b * b)) / (1 / (a * a) + 1 / (b * b));
  CHECK(made.profile.page_cache.read.value(2883584) == Approx(t));
  CHECK(made.profile.page_cache.read.value(5767168) == Approx(t + d));
  CHECK(figure(made, "page_cache.read").correction == Approx(std::max(1 - t / a, (t + d) / b - 1)));
  CHECK_THAT(source_text(made, "page_cache_read"), Contains("values that rose less than they must"));
  CHECK(figure(made, "ssd.read").correction == 0);
}

/// The synthetic machine's results with other times of the reads of the profile, by size.
std::vector<BenchResult> with_reads(const std::vector<double>& seconds) {
  std::vector<BenchResult> results = SyntheticMachine().results();
  std::size_t next = 0;
  for (BenchResult& result : results) {
    if (result.name != "read" || !result.parameters.include({{"mode", "io_uring"}, {"depth", 1U}})) continue;
    result.samples.assign(result.samples.size(), seconds.at(next++));
    result.statistics = statistics_of(result.samples);
  }
  REQUIRE(next == seconds.size());
  return results;
}

TEST_CASE("reads of any noise make a curve no faster than what was measured, which a scenario takes") {
  Random random(12);
  const std::vector<double> sizes = {65536, 720896, 2883584, 5767168};
  for (int round = 0; round < random_runs(2000, 200); ++round) {
    std::vector<double> seconds;
    double best_mean = 0;
    for (const double size : sizes) {
      // Of a busy machine: up to eight times as long as 60 us and 2 GB/s.
      seconds.push_back((60e-6 + size / 2e9) * std::pow(8, random.uniform()));
      best_mean = std::max(best_mean, size / seconds.back());
    }
    const DeviceProfile made = profile_from(with_reads(seconds), synthetic_context()).profile;
    const Curve& read = made.ssd.read.value;
    CHECK_NOTHROW(calibrated_text(made));
    // The last slope goes on; 8 GiB of it hide what came before.
    const double rate = 0x1p33 / (read(0x1p34) - read(0x1p33));
    CHECK(rate <= 2 * best_mean * (1 + 1e-9));
    for (double size = 4096; size < 6e6; size *= 1.3) CHECK(size / read(size) <= best_mean * (1 + 1e-9));
  }
  // Found on a busy machine: two sizes of equal time, beyond which any size took no longer.
  const DeviceProfile found =
      profile_from(with_reads({0.1603e-3, 0.5536e-3, 2.92e-3, 2.42e-3}), synthetic_context()).profile;
  CHECK(0x1p30 / found.ssd.read.value(0x1p30) < 3e9);
}

TEST_CASE("a rate is bounded by what points of a fixed cost and a rate can stand for") {
  const auto line = [](double x) { return CurvePoint{x, 1 + x / 4}; };
  CHECK(most_rate(std::vector{line(2), line(4), line(8)}) == Approx(4));  // best mean: 8 / 3
  CHECK(most_rate(std::vector{line(1), line(2)}) ==
        Approx(2 * 2 / 1.5));  // half of the time at most is fixed
  CHECK(most_rate(std::vector<CurvePoint>{{1, 3}, {2, 3}}) == Approx(4 / 3.0));  // times that do not rise
}

TEST_CASE("a calibrated profile that a scenario would refuse is not written") {
  DeviceProfile made = profile_from(SyntheticMachine().results(), synthetic_context()).profile;
  CHECK(calibrated_text(made) == device_to_yaml(made));
  made.ssd.read.value = Curve::affine(60e-6, 4e11);
  CHECK_THROWS_WITH(calibrated_text(made), Contains("faster than any array of SSDs") &&
                                               Contains("measure again when nothing else runs"));
  made.ssd.read.value = Curve::affine(60e-6, 4e9);
  made.ssd.slowdown_while_decompressing.value = 0.5;
  CHECK_THROWS_WITH(calibrated_text(made), Contains("measure again when nothing else runs"));
}

TEST_CASE("a slowdown below 1 is none") {
  SyntheticMachine machine;
  machine.slowdown = 0.8;
  machine.slowed_by_reads = 0.9;
  const CalibratedProfile made = profile_from(machine.results(), synthetic_context());
  CHECK(made.profile.cpu.slowdown_while_reading.value().value == 1);
  CHECK_THAT(source_text(made, "cpu_slowdown_while_reading"), Contains("0.9, taken as 1"));
  CHECK(made.profile.ssd.slowdown_while_decompressing.value == 1);
  CHECK_THAT(source_text(made, "ssd_slowdown_while_decompressing"), Contains("0.8, taken as 1"));
}

std::vector<BenchResult> without(std::vector<BenchResult> results, const std::string& name,
                                 const BenchParameters& parameters, BenchStatus status) {
  for (BenchResult& result : results) {
    if (result.name != name || !result.parameters.include(parameters)) continue;
    result.status = status;
    result.reason = "the kernel refuses";
    result.samples.clear();
    result.statistics = {};
  }
  return results;
}

TEST_CASE("where io_uring is refused, reads are the direct ones and what is missing is assumed") {
  const SyntheticMachine machine;
  std::vector<BenchResult> results = SyntheticMachine().results();
  results = without(std::move(results), "read", {{"mode", "io_uring"}}, BenchStatus::skipped);
  results = without(std::move(results), "interference", {{"mode", "io_uring"}}, BenchStatus::skipped);
  CalibratedProfile made = profile_from(results, synthetic_context());
  CHECK(made.profile.ssd.read.value(65536) ==
        Approx(1.5 * (machine.read_latency + 65536 / machine.read_rate)));
  CHECK(made.profile.ssd.readers.value == std::vector<double>{1, 2});
  CHECK(made.profile.sources.at("ssd_readers").kind == Source::Kind::assumed);
  CHECK_THAT(source_text(made, "ssd_readers"), Contains("the kernel refuses"));
  CHECK(made.profile.sources.at("ssd_slowdown_while_decompressing").kind == Source::Kind::assumed);
  CHECK_FALSE(made.profile.cpu.slowdown_while_reading);
  results = without(std::move(results), "read", {{"mode", "direct"}}, BenchStatus::skipped);
  made = profile_from(results, synthetic_context());
  CHECK(made.profile.ssd.read.value(65536) == Approx(2 * (machine.read_latency + 65536 / machine.read_rate)));
  results = without(std::move(results), "read", {{"mode", "buffered"}}, BenchStatus::skipped);
  CHECK_THROWS_WITH(profile_from(results, synthetic_context()),
                    Contains("ssd.read") && Contains("the kernel refuses"));
}

TEST_CASE("what every profile needs and was not measured is an error with the reason") {
  for (const char* name : {"decompress", "join", "expert", "dense", "handoff"}) {
    INFO(name);
    CHECK_THROWS_WITH(profile_from(without(SyntheticMachine().results(), name, {}, BenchStatus::skipped),
                                   synthetic_context()),
                      Contains("the kernel refuses"));
  }
  // Nothing is sure on a machine that answers wrongly, whatever the profile needs.
  CHECK_THROWS_AS(
      profile_from(without(SyntheticMachine().results(), "sharing", {{"work", "join"}}, BenchStatus::failed),
                   synthetic_context()),
      InputError);
  const DeviceProfile alone =
      profile_from(without(SyntheticMachine().results(), "sharing", {}, BenchStatus::skipped),
                   synthetic_context())
          .profile;
  CHECK_FALSE(alone.cpu.sharing);
  CHECK_FALSE(alone.cpu.slowdown_while_reading);  // a profile has it beside sharing only
  CHECK_NOTHROW(device_to_yaml(alone));
}

TEST_CASE("the section of a GPU in the host's memory has its roofline, and the link is shown beside") {
  SyntheticMachine machine;
  machine.gpu = true;
  const CalibratedProfile made = profile_from(machine.results(), synthetic_context());
  check_equations(machine, made.profile, 0);
  const GpuProfile& gpu = made.profile.gpu.value();
  CHECK(gpu.peak.value.value() == Approx(machine.gpu_peak));
  CHECK(gpu.flops_efficiency.value == 1);
  CHECK(gpu.launch.value.value() == Approx(machine.gpu_fixed / 3));
  CHECK(made.profile.memory.bandwidth.value().value.value() == Approx(machine.copy_rate));
  CHECK_FALSE(made.profile.cpu.recover);
  CHECK(figure(made, "link to_device").value == "9 us + 50 GB/s");
  CHECK_FALSE(figure(made, "link to_device").in_profile);
  CHECK_FALSE(made.profile.sources.contains("link_to_device"));
}

TEST_CASE("the section of a GPU with memory of its own has that memory and the link to it") {
  SyntheticMachine machine;
  machine.gpu = true;
  ProfileContext context = synthetic_context();
  context.gpu_memory = GpuMemoryFound{8'000'000'000, 7'500'000'000};
  const CalibratedProfile made = profile_from(machine.results(), context);
  check_equations(machine, made.profile, 0);
  REQUIRE(made.profile.is_discrete());
  CHECK_FALSE(made.profile.memory.bandwidth);
  CHECK(made.profile.memory.total.value == Bytes(16e9));  // the host's
  CHECK(made.profile.gpu->peak.value.value() == Approx(machine.gpu_peak));
  const GpuMemory& own = *made.profile.gpu->own;
  CHECK(own.total.value == Bytes(8e9));
  CHECK(own.reserve.value == Bytes(0.5e9));  // what was not free
  CHECK_THAT(source_text(made, "gpu_reserve"), Contains("7.5 GB"));
  CHECK(own.bandwidth.value.value() == Approx(machine.copy_rate));
  const TimingModel timing(made.profile);
  for (const double bytes : {1048576.0, 5e6, 17301504.0, 268435456.0}) {  // between the points too
    const double pinned = machine.link_fixed + bytes / machine.link_rate;
    CHECK(timing.load(Bytes(bytes)).value() == Approx(pinned));
    CHECK(timing.store(Bytes(bytes)).value() == Approx(pinned));
    CHECK(timing.load_pageable(Bytes(bytes)).value().value() == Approx(4 * pinned));
  }
  CHECK(figure(made, "gpu.link.to_device").value == "9 us + 50 GB/s");
  CHECK(figure(made, "gpu.link.to_device").in_profile);
  for (const char* name : {"gpu_link_to_device", "gpu_link_to_host", "gpu_link_pageable"})
    CHECK(made.profile.sources.at(name).kind == Source::Kind::measured);
  // Without pageable copies there is no curve of them; without pinned ones no profile.
  const auto lacking = [&](const char* memory) {
    return profile_from(without(machine.results(), "cuda-link", {{"memory", memory}}, BenchStatus::skipped),
                        context);
  };
  CHECK_FALSE(lacking("pageable").profile.gpu->own->link.pageable);
  CHECK_THROWS_WITH(lacking("pinned"), Contains("gpu.link.to_device") && Contains("the kernel refuses"));
  for (const std::uint64_t available : {0ULL, 8'000'000'001ULL}) {
    context.gpu_memory->available = available;
    CHECK_THROWS_WITH(profile_from(machine.results(), context), Contains("gpu.memory"));
  }
}

TEST_CASE("what cannot give a profile is refused before anything is measured") {
  CalibrationOptions options;
  options.models = {load_architecture("olmoe-1b-7b")};
  const auto refused = [&](const CalibrationOptions& how, const std::string& why) {
    CHECK_THROWS_WITH(calibrate(how, [](std::size_t, std::size_t, const std::string&) { FAIL("measured"); }),
                      Contains(why));
  };
  CalibrationOptions how = options;
  how.codecs = {"fixed4"};
  refused(how, "fixed3");
  how.codecs = {"fixed3", "fixed3"};
  refused(how, "named twice");
  how.codecs = {"zstd", "zstd-1"};  // the usual level
  refused(how, "named twice");
  how = options;
  how.shards = 0;
  refused(how, "expected 1 to");
  how = options;
  how.folder = "/no/such/folder";
  refused(how, "is not a folder");
  how = options;
  how.models.back().layers.resize(0);
  refused(how, "has no experts");
  how.models.clear();
  refused(how, "needs a model");
}

}  // namespace
}  // namespace moelab::calibrate_test
