// What paging takes on a GPU with memory of its own, from the results of machines that are made of equations.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/device_writer.hpp"
#include "models/timing.hpp"
#include "models/yaml_reader.hpp"
#include "tests/hw/synthetic_machine.hpp"
#include "tests/random_runs.hpp"

namespace moelab::paging_figures_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

constexpr double kLargest = 268435456;  // of the synthetic recoveries

SyntheticMachine paging_machine() {
  SyntheticMachine machine;
  machine.gpu = machine.gpu_paging = true;
  return machine;
}

/// Three codecs: kernels decode fixed3 and, at two levels, Huffman codes; LZ4 they do not.
ProfileContext discrete_context() {
  ProfileContext context = synthetic_context();
  context.gpu_memory = GpuMemoryFound{8'000'000'000, 7'500'000'000};
  context.ratios.push_back({"huffman", "huffman-16", {0.34, 0.36, 0.38, 0.36}});
  return context;
}

const CalibrationFigure& figure(const CalibratedProfile& made, const std::string& path) {
  const auto found = std::ranges::find(made.figures, path, &CalibrationFigure::path);
  REQUIRE(found != made.figures.end());
  return *found;
}

/// Without the results that `goes` names.
template <class Goes>
CalibratedProfile made_without(const Goes& goes) {
  std::vector<BenchResult> results = paging_machine().results();
  std::erase_if(results, goes);
  return profile_from(results, discrete_context());
}

bool is(const BenchResult& result, const char* name, const BenchParameters& parameters = {}) {
  return result.name == name && result.parameters.include(parameters);
}

/// Sets the samples of one point, in the order of their rounds.
void set_samples(std::vector<BenchResult>& results, const char* step, std::uint64_t bytes,
                 const std::vector<double>& samples) {
  for (BenchResult& result : results) {
    if (!is(result, "cuda-remap", {{"step", step}, {"bytes", bytes}})) continue;
    result.samples = samples;
    result.statistics = statistics_of(samples);
  }
}

TEST_CASE("codecs that kernels decode and remapping have the parameters of their equations") {
  Random random(11);
  for (int round = 0; round < moelab::test::random_runs(300); ++round) {
    SyntheticMachine machine = paging_machine();
    for (double* parameter :
         {&machine.recover_fixed, &machine.fixed3_rate, &machine.huffman_rate, &machine.map_fixed,
          &machine.map_rate, &machine.unmap_fixed, &machine.unmap_rate})
      *parameter *= 0.2 + 3 * random.uniform();
    ProfileContext context = discrete_context();
    double sum = 0;
    for (double& sample : context.ratios.back().samples) sum += sample = 0.2 + 0.8 * random.uniform();
    const GpuProfile gpu = profile_from(machine.results(), context).profile.gpu.value();
    REQUIRE(gpu.codecs.size() == 2);
    const GpuCodecProfile &fixed3 = gpu.codecs.at("fixed3"), &huffman = gpu.codecs.at("huffman");
    CHECK(fixed3.ratio.value == Approx((1 + 0.42) / 2));
    CHECK(huffman.ratio.value == Approx((1 + sum / 4) / 2));
    const auto rate = [&](double of_kernel) {
      return Approx(kLargest / (machine.recover_fixed + kLargest / of_kernel)).epsilon(1e-9);
    };
    CHECK(fixed3.rate.value.value() == rate(machine.fixed3_rate));
    CHECK(huffman.rate.value.value() == rate(machine.huffman_rate));
    const Curve& remap = gpu.remap.value().value;
    CHECK(remap.points().size() == 3);
    for (const double bytes : {2097152.0, 5e6, 16777216.0, 3e7, 67108864.0, 1e9})  // the last slope goes on
      CHECK(remap(bytes) == Approx(machine.map_fixed + bytes / machine.map_rate + machine.unmap_fixed +
                                   bytes / machine.unmap_rate)
                                .epsilon(1e-9));
  }
}

TEST_CASE("paging's figures say what they were taken from, and vary as it did") {
  SyntheticMachine machine = paging_machine();
  const CalibratedProfile calm = profile_from(machine.results(), discrete_context());
  CHECK(figure(calm, "gpu.codecs.fixed3.ratio").value == "0.71");
  CHECK_THAT(figure(calm, "gpu.codecs.fixed3.ratio").source,
             Contains("whole weights, (1 + that of their exponents) / 2") && Contains("equations"));
  CHECK_THAT(figure(calm, "gpu.codecs.huffman.rate").source,
             Contains("cuda-recover codec=huffman-16") && Contains("7 samples at 1 point") &&
                 Contains("at the largest amount measured, 268.4 MB of BF16"));
  CHECK(figure(calm, "gpu.remap").value == "50 us + 276.9 GB/s");  // 1 / (1 / 400 + 1 / 900)
  CHECK_THAT(figure(calm, "gpu.remap").source,
             Contains("map and unmap") && Contains("21 samples at 3 points") && Contains("within 0.0 %"));
  for (const char* path : {"gpu.codecs.fixed3.ratio", "gpu.codecs.fixed3.rate", "gpu.codecs.huffman.ratio",
                           "gpu.codecs.huffman.rate", "gpu.remap"}) {
    INFO(path);
    CHECK(figure(calm, path).in_profile);
    CHECK_FALSE(figure(calm, path).noisy);
  }
  // A ratio's spread is that of its chunks, as it is of whole weights.
  const Spread ratio = calm.profile.gpu->codecs.at("huffman").ratio.spread.value();
  CHECK((ratio.p10 >= 0.67 && ratio.p10 < 0.68 && ratio.p90 > 0.68 && ratio.p90 <= 0.69));

  machine.noise = 0.3;
  const CalibratedProfile made = profile_from(machine.results(), discrete_context());
  for (const char* path : {"gpu.codecs.fixed3.rate", "gpu.codecs.huffman.rate", "gpu.remap"}) {
    INFO(path);
    CHECK(figure(made, path).noisy);
  }
  CHECK_FALSE(figure(made, "gpu.codecs.fixed3.ratio").noisy);
  const Sourced<BytesPerSecond>& rate = made.profile.gpu->codecs.at("fixed3").rate;
  const Spread times = figure(made, "gpu.codecs.fixed3.rate").spread.value();
  CHECK(rate.spread.value().p10 == Approx(rate.value.value() / times.p90));  // slow times, low rates
  CHECK(rate.spread.value().p90 == Approx(rate.value.value() / times.p10));
}

TEST_CASE("mapping and unmapping are added round by round") {
  std::vector<BenchResult> results = paging_machine().results();
  // Medians are 6 and 1 ms, but of the sums 10, 6, 7, 8 and 10 it is 8.
  set_samples(results, "map", 67108864, {1e-3, 5e-3, 6e-3, 7e-3, 8e-3});
  set_samples(results, "unmap", 67108864, {9e-3, 1e-3, 1e-3, 1e-3, 2e-3});
  // What one step gains the other loses.
  set_samples(results, "map", 16777216, {1e-3, 2e-3, 3e-3, 2e-3, 1e-3});
  set_samples(results, "unmap", 16777216, {3e-3, 2e-3, 1e-3, 2e-3, 3e-3});
  const CalibratedProfile made = profile_from(results, discrete_context());
  const Curve& remap = made.profile.gpu->remap.value().value;
  CHECK(remap(67108864) == Approx(8e-3));
  CHECK(remap(16777216) == Approx(4e-3));
  set_samples(results, "map", 67108864, {4e-3, 4e-3, 4e-3, 4e-3, 4e-3});
  set_samples(results, "unmap", 67108864, {4e-3, 4e-3, 4e-3, 4e-3, 4e-3});
  CHECK(figure(profile_from(results, discrete_context()), "gpu.remap").variation < 1e-9);
}

TEST_CASE("remapping that falls with more bytes is made not to") {
  std::vector<BenchResult> results = paging_machine().results();
  const std::vector<double> half(7, 0.5e-3), quarter(7, 0.25e-3);
  for (const char* step : {"map", "unmap"}) {
    set_samples(results, step, 16777216, half);
    set_samples(results, step, 67108864, quarter);
  }
  const CalibratedProfile made = profile_from(results, discrete_context());
  const Curve& remap = made.profile.gpu->remap.value().value;
  CHECK(remap.points().size() == 3);
  // Of a and a / 2 the nearest value that does not fall is 0.6 a: (1 / a + 2 / a) / (1 / a^2 + 4 / a^2).
  CHECK(remap(16777216) == Approx(0.6e-3));
  CHECK(remap(67108864) == Approx(0.6e-3));
  CHECK(figure(made, "gpu.remap").correction == Approx(0.4));
}

TEST_CASE("what was not measured of paging is left out") {
  const auto paging_of = [](const CalibratedProfile& made) {
    std::set<std::string> keys;
    for (const CalibrationFigure& one : made.figures)
      if (one.path.starts_with("gpu.codecs.") || one.path == "gpu.remap") keys.insert(one.path);
    const GpuProfile& gpu = made.profile.gpu.value();
    std::set<std::string> in_profile;
    for (const auto& [name, codec] : gpu.codecs)
      in_profile.insert({"gpu.codecs." + name + ".ratio", "gpu.codecs." + name + ".rate"});
    if (gpu.remap) in_profile.insert("gpu.remap");
    CHECK(keys == in_profile);
    CHECK_NOTHROW(device_to_yaml(made.profile));
    return keys;
  };
  using Keys = std::set<std::string>;
  const Keys fixed3 = {"gpu.codecs.fixed3.ratio", "gpu.codecs.fixed3.rate"};
  const Keys both = {"gpu.codecs.fixed3.ratio", "gpu.codecs.fixed3.rate", "gpu.codecs.huffman.ratio",
                     "gpu.codecs.huffman.rate"};
  CHECK(paging_of(made_without([](const BenchResult& r) { return is(r, "cuda-remap"); })) == both);
  CHECK(paging_of(made_without([](const BenchResult& r) {
          return is(r, "cuda-remap") || is(r, "cuda-recover", {{"codec", "huffman-16"}});
        })) == fixed3);
  CHECK(paging_of(made_without([](const BenchResult& r) { return is(r, "cuda-recover"); })) ==
        Keys{"gpu.remap"});
  // A step alone is no remapping, and one amount no curve.
  for (const char* step : {"map", "unmap"}) {
    CHECK(paging_of(made_without([&](const BenchResult& r) {
            return is(r, "cuda-remap", {{"step", step}});
          })) == both);
    CHECK(paging_of(made_without([&](const BenchResult& r) {
            return is(r, "cuda-remap", {{"step", step}}) && !is(r, "cuda-remap", {{"bytes", 2097152U}});
          })) == both);
  }
  // Points that were skipped are as good as none: the rate is that of the largest that was not.
  SyntheticMachine machine = paging_machine();
  std::vector<BenchResult> results = machine.results();
  for (BenchResult& result : results) {
    if (!is(result, "cuda-recover", {{"bytes", 268435456U}})) continue;
    result.status = BenchStatus::skipped;
    result.samples.clear();
    result.statistics = {};
  }
  const CalibratedProfile made = profile_from(results, discrete_context());
  CHECK(made.profile.gpu->codecs.at("fixed3").rate.value.value() ==
        Approx(16777216 / (machine.recover_fixed + 16777216 / machine.fixed3_rate)));
  CHECK_THAT(figure(made, "gpu.codecs.fixed3.rate").source, Contains("16.78 MB of BF16"));
}

TEST_CASE("a GPU without memory of its own pages nothing") {
  ProfileContext context = discrete_context();
  context.gpu_memory.reset();
  const CalibratedProfile made = profile_from(paging_machine().results(), context);
  CHECK(made.profile.gpu.value().codecs.empty());
  CHECK_FALSE(made.profile.gpu->remap);
  for (const CalibrationFigure& one : made.figures)
    CHECK_FALSE((one.path.starts_with("gpu.codecs.") || one.path == "gpu.remap"));
  CHECK_NOTHROW(device_to_yaml(made.profile));
}

TEST_CASE("a GPU that the CPU plays decodes and joins by a thread, and moves the process's pages") {
  SyntheticMachine machine = paging_machine();
  machine.gpu = false;
  ProfileContext context = discrete_context();
  context.gpu_memory.reset();
  context.stand_in_bytes = 4e9;
  CHECK_FALSE(profile_from(machine.results(), context).profile.gpu->remap);  // cuda-remap is no word about it
  machine.process_paging = true;
  const DeviceProfile made = profile_from(machine.results(), context).profile;
  REQUIRE(made.has_stand_in());
  constexpr double kPlane = 5767168;  // the largest that was measured
  const double seconds =
      machine.decode_fixed + kPlane / machine.decode_rate + machine.join_fixed + kPlane / machine.join_rate;
  for (const CodecRatio& ratio : context.ratios) {
    const GpuCodecProfile& codec = made.gpu->codecs.at(ratio.profile_name);
    CHECK(codec.rate.value.value() == Approx(2 * kPlane / seconds));
    CHECK(2 * codec.ratio.value - 1 == Approx(made.codecs.at(ratio.profile_name).ratio.value));
  }
  const TimingModel timing(made);
  for (const double bytes : {2097152.0, 67108864.0})
    CHECK(timing.remap(Bytes(bytes)).value() ==
          Approx((machine.map_fixed + machine.unmap_fixed) / 5 + bytes / machine.map_rate +
                 bytes / machine.unmap_rate));
  const GpuCodecProfile& fixed3 = made.gpu->codecs.at("fixed3");
  CHECK(timing.decode(fixed3, Bytes(1e6)).value() == Approx(1e6 / fixed3.rate.value.value()));
  Problems problems;
  const DeviceProfile back = read_device(YamlDocument::from_text("made", device_to_yaml(made), problems));
  problems.throw_if_any();
  CHECK(back.gpu == made.gpu);
}

TEST_CASE("the simulator remaps and decodes in the times that were measured") {
  const SyntheticMachine machine = paging_machine();
  const CalibratedProfile made = profile_from(paging_machine().results(), discrete_context());
  Problems problems;
  const DeviceProfile back =
      read_device(YamlDocument::from_text("made", device_to_yaml(made.profile), problems));
  problems.throw_if_any();
  CHECK(back.gpu->codecs == made.profile.gpu->codecs);
  CHECK(back.gpu->remap == made.profile.gpu->remap);
  const TimingModel timing(back);
  CHECK(timing.remap(Bytes(16777216)).value() == Approx(50e-6 + 16777216 / 400e9 + 16777216 / 900e9));
  CHECK(timing.decode(back.gpu->codecs.at("huffman"), Bytes(kLargest)).value() ==
        Approx(machine.recover_fixed + kLargest / machine.huffman_rate));
}

}  // namespace
}  // namespace moelab::paging_figures_test
