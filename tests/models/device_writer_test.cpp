// Profiles that are written read back as they were.
#include "models/device_writer.hpp"
#include "models/yaml_reader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/models/random_device.hpp"
#include "tests/random_runs.hpp"

namespace moelab::device_writer_test {
namespace {

DeviceProfile read_back(const std::string& text) {
  Problems problems;
  DeviceProfile device = read_device(YamlDocument::from_text("device.yaml", text, problems));
  problems.throw_if_any();
  return device;
}

/// Reading fills these in.
void take_account(const DeviceProfile& from, DeviceProfile& to) {
  to.provenance = from.provenance;
  to.unmeasured = from.unmeasured;
}

}  // namespace

TEST_CASE("device writer: random profiles read back equal, number for number") {
  int on_cpu = 0, discrete = 0, stand_ins = 0, pageable = 0, with_spread = 0, with_curve = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(1500u, 150u); ++seed) {
    INFO("seed " << seed);
    DeviceProfile device = test::RandomDevice(seed).draw();
    const std::string text = device_to_yaml(device);
    const DeviceProfile back = read_back(text);
    take_account(back, device);
    REQUIRE(back == device);
    REQUIRE(device_to_yaml(back) == text);
    on_cpu += !device.gpu;
    discrete += device.is_discrete();
    stand_ins += device.has_stand_in();
    pageable += device.is_discrete() && device.gpu->own->link.pageable;
    with_spread += device.ssd.read.spread.has_value();
    for (const auto& [name, codec] : device.codecs)
      with_curve += std::holds_alternative<Sourced<Curve>>(codec.decompress);
  }
  CHECK(on_cpu > moelab::test::random_runs(500, 40));
  CHECK(discrete > moelab::test::random_runs(250, 15));
  CHECK(stand_ins > moelab::test::random_runs(100, 5));
  CHECK(pageable > moelab::test::random_runs(100, 5));
  CHECK(with_spread > moelab::test::random_runs(500, 40));
  CHECK(with_curve > moelab::test::random_runs(500, 40));
}

TEST_CASE("device writer: the embedded profiles read back equal") {
  for (const char* name : {"jetson-agx-orin-64gb", "jetson-agx-orin-32gb", "rtx-3080-ti-12gb",
                           "rtx-4060-ti-16gb", "rtx-a6000-48gb", "a100-40gb"}) {
    const DeviceProfile device = load_device(name);
    DeviceProfile back = read_back(device_to_yaml(device));
    // The same account in another order: the file lists its codecs as a person would, the writer by name.
    CHECK(std::is_permutation(back.provenance.begin(), back.provenance.end(), device.provenance.begin(),
                              device.provenance.end()));
    CHECK(back.unmeasured == device.unmeasured);
    take_account(device, back);
    CHECK(back == device);
  }
}

TEST_CASE("device writer: what the reader would not give back is refused") {
  const DeviceProfile good = test::RandomDevice(1).draw();
  const auto refused = [&](const char* says, auto change) {
    DeviceProfile bad = good;
    change(bad);
    CHECK_THROWS_WITH(device_to_yaml(bad), Catch::Contains(says));
  };
  refused("not among the profile's sources", [](DeviceProfile& d) { d.cpu.dispatch.source = "unlisted"; });
  refused("cpu.threads", [](DeviceProfile& d) { d.cpu.threads.value = 0; });
  refused("ssd.readers", [](DeviceProfile& d) { d.ssd.readers.value = {0.5}; });
  refused("memory.total", [](DeviceProfile& d) { d.memory.total.value = Bytes(-1); });
  refused("gpu.reserve leaves nothing", [](DeviceProfile& d) {
    d.memory.bandwidth.reset();
    d.gpu = {{FlopsPerSecond(1), d.cpu.dispatch.source},
             {1, d.cpu.dispatch.source},
             {Seconds(0), d.cpu.dispatch.source}};
    d.gpu->own = {{Bytes(1), d.cpu.dispatch.source}, {Bytes(1), d.cpu.dispatch.source}, {}, {}};
  });
  refused("falls", [](DeviceProfile& d) { d.ssd.read.spread = Spread{3, 2, 1}; });
  refused("UTF-8", [](DeviceProfile& d) { d.title = "\xff"; });
  refused("under other names", [](DeviceProfile& d) { d.sources.begin()->second.name = "another"; });
}

TEST_CASE("device writer: exact quantities are short where they can be and exact everywhere") {
  CHECK(to_exact_string(Bytes(64e9)) == "64 GB");
  CHECK(to_exact_string(Bytes(1048576)) == "1 MiB");
  CHECK(to_exact_string(Seconds(0)) == "0 s");
  CHECK(to_exact_string(Seconds(900e-6)) == "0.9 ms");
  CHECK(to_exact_string(BytesPerSecond(3.5e9)) == "3.5 GB/s");
  test::Dice dice(11);
  for (int round = 0; round < moelab::test::random_runs(20000, 2000); ++round) {
    // All 53 bits, over the orders of magnitude that occur.
    const double x =
        (dice.from(1, 1 << 30) + dice.from(0, 1 << 22) * 0x1p-22) * std::pow(2.0, dice.from(-70, 30));
    Seconds seconds;
    Bytes bytes;
    std::string expected;
    REQUIRE(parse(to_exact_string(Seconds(x)), seconds, expected));
    REQUIRE(seconds.value() == x);
    REQUIRE(parse(to_exact_string(Bytes(x)), bytes, expected));
    REQUIRE(bytes.value() == x);
  }
}

}  // namespace moelab::device_writer_test
