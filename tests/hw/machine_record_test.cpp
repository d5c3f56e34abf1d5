// A machine's record: what of a validation is in it, that it reads back as it was, what is refused, and the
// table of several.
#include "hw/validate/machine_record.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "hw/validate/machine_record_table.hpp"
#include "hw/validate/validation.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "tests/hw/validation_runs.hpp"

namespace moelab::machine_record_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

/// Layers and tokens took as long as was predicted, or `factor` times as long.
ValidationPoint point_of(const std::string& codec, std::uint32_t threads, const std::string& system,
                         double factor) {
  ValidationPoint point;
  point.codec = codec;
  point.threads = threads;
  point.system = system;
  point.budget = Bytes(4e8);
  point.predicted_layers = {0.001, 0.002};
  point.measured_layers = {0.001 * factor, 0.002 * factor};
  point.predicted_tpot = {0.004};
  point.measured_tpot = {0.004 * factor};
  point.operations[OpKind::read_e] = {{1e-4, 1e-4}, {1e-4 * factor, 1e-4 * factor}};
  return point;
}

/// Two codecs. Of the second a point in which other programs took one of two cores for ten seconds.
Validation small_validation() {
  Validation v;
  v.machine.cpu = "A Processor";
  v.machine.cores = 2;
  v.machine.kernel = "Linux 6.18.44-of-ours x86_64";
  v.machine.load = 0.25;
  v.machine.filesystem = "ext4 on /dev/of-ours";
  v.machine.memory = 25'123'456'789;
  v.machine.date = "2026-11-28T10:11:12Z";
  v.machine.libraries = "LZ4 1.9.4";
  v.points = {point_of("lz4hc", 1, "pools", 0.8), point_of("lz4hc", 1, "lru", 1),
              point_of("fixed3", 2, "pools", 1), point_of("fixed3", 2, "lru", 100)};
  v.points[0].disturbance = disturbance_between(ProcessorTime{}, ProcessorTime{10.5, 9.5, 10}, 10);
  v.points[3].disturbance = disturbance_between(ProcessorTime{}, ProcessorTime{20, 0, 10}, 10);
  v.points[1].disturbance.add({.speed_change = 1.125});
  return v;
}

MachineRecord record_of(const Validation& v, ValidationOptions options = {}) {
  options.pace = Pace{BytesPerSecond(8e8), Seconds(1e-4)};
  return machine_record(small_scenario(), options, v, "9.9.9+test");
}

/// With everything in it that may be left out.
MachineRecord full_record() {
  MachineRecord r = record_of(small_validation());
  r.machine.governor = "performance";
  r.machine.filesystem = "ext4";
  r.machine.gpu = "A GPU";
  r.machine.driver = "580.1";
  r.work.profile_date = "2026-11-27";
  r.same_work = false;
  return r;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

/// What reading says, a line a problem; empty where it does not refuse.
std::string refusal_of(const std::string& text) {
  try {
    read_machine_record("here.json", text);
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "";
}

int line_of(const std::string& text, const std::string& what) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

TEST_CASE("machine record: errors by codec and threads, without points that were too noisy") {
  const MachineRecord r = record_of(small_validation());
  REQUIRE(r.groups.size() == 2);
  CHECK(r.groups[0].codec == "lz4hc");
  CHECK(r.groups[0].threads == 1);
  CHECK(r.groups[0].points == 2);
  CHECK(r.groups[0].too_noisy == 0);
  // Half of the layers off by (1 - 0.8) / 0.8 = 0.25, the others by nothing: the middle of 0, 0, 0.25, 0.25.
  CHECK(r.groups[0].layers->count == 4);
  CHECK(r.groups[0].layers->median == Approx(0.125));
  CHECK(r.groups[0].layers->bias == Approx(0.125));
  CHECK(r.groups[0].tpot->count == 2);
  CHECK(r.groups[0].ordering.pairs == 1);
  REQUIRE(r.groups[0].operations.size() == 1);
  CHECK(r.groups[0].operations[0].kind == OpKind::read_e);
  CHECK(r.groups[0].operations[0].error.p90 == Approx(0.25));

  CHECK(r.groups[1].codec == "fixed3");
  CHECK(r.groups[1].too_noisy == 1);
  CHECK(r.groups[1].layers->count == 2);
  CHECK(r.groups[1].layers->p90 == 0);
  CHECK(r.groups[1].operations[0].error.count == 2);
  CHECK(r.groups[1].ordering.pairs == 0);

  CHECK(r.load.before == 0.25);
  CHECK(*r.load.others_mean == Approx((0.05 + 1) / 2));
  CHECK(*r.load.others_most == Approx(1));
  CHECK(r.load.speed_change == 1.125);
  CHECK(r.work.systems.size() == small_scenario().systems.size());
  CHECK(r.work.budgets == std::vector<Bytes>{Bytes(4e8)});
  CHECK_FALSE(r.work.own_profile);
}

TEST_CASE("machine record: what was not counted is left out, and no zero") {
  Validation v = small_validation();
  for (ValidationPoint& point : v.points) point.disturbance = {};  // too short for the processors' clock
  v.points.resize(1);
  v.points[0].measured_tpot = {};
  const nlohmann::json load = nlohmann::json::parse(machine_record_json(record_of(v)))["load"];
  CHECK_FALSE(load.contains("others_mean_cores"));
  CHECK_FALSE(load.contains("others_most_cores"));
  CHECK_FALSE(record_of(v).groups[0].tpot);

  v.points[0].disturbance = disturbance_between(ProcessorTime{}, ProcessorTime{20, 0, 10}, 10);
  const MachineRecord noisy = record_of(v);
  CHECK_FALSE(noisy.groups[0].layers);
  CHECK(noisy.groups[0].operations.empty());
  CHECK(refusal_of(machine_record_json(noisy)).empty());
  CHECK_THAT(machine_records_report(std::array{noisy}, {}), Contains("1 of 1 points too noisy"));
}

TEST_CASE("machine record: it does not say whose machine it is") {
  Validation v = small_validation();
  ValidationOptions on_disk;
  on_disk.pace.reset();
  on_disk.stores = "/of-ours/stores";
  const MachineRecord r = machine_record(small_scenario(), on_disk, v, "9.9.9+test");
  CHECK(r.work.storage == RecordStorage::disk);
  CHECK(r.machine.filesystem == "ext4");
  CHECK(r.machine.kernel == "Linux 6.18 x86_64");
  CHECK(*r.machine.memory == Bytes(25e9));
  CHECK(r.date == "2026-11-28");
  CHECK_THAT(machine_record_json(r), !Contains("ours") && !Contains("10:11"));
  CHECK(record_of(v).machine.filesystem.empty());  // paced: it is not read from
}

TEST_CASE("machine record: a GPU has no codec that experts are stored in, nor threads that decompress") {
  Validation v = small_validation();
  v.discrete = true;
  v.points.resize(2);
  const MachineRecord played = record_of(v);
  CHECK(played.work.storage == RecordStorage::stand_in);
  CHECK(played.groups[0].codec.empty());
  CHECK(played.groups[0].threads == 0);
  CHECK_FALSE(played.work.pace);
  for (ValidationPoint& point : v.points) point.windowed = true;
  CHECK(record_of(v).groups[0].codec == "lz4hc");
  ValidationOptions options;
  options.gpu = true;
  v.machine.gpu = "A GPU";
  CHECK(record_of(v, options).work.storage == RecordStorage::gpu);
  CHECK(record_of(v, options).machine.gpu == "A GPU");
  CHECK(record_of(v).machine.gpu.empty());  // it had no part in it
}

TEST_CASE("machine record: of a kernel's name the family") {
  CHECK(kernel_family("Linux 6.18.44-of-ours x86_64") == "Linux 6.18 x86_64");
  CHECK(kernel_family("Linux 6.1.0-28-amd64 x86_64") == "Linux 6.1 x86_64");
  CHECK(kernel_family("Linux 7 aarch64") == "Linux 7 aarch64");
  CHECK(kernel_family("Linux 5.15 riscv64") == "Linux 5.15 riscv64");
  CHECK(kernel_family("Linux of-ours x86_64") == "Linux x86_64");
  CHECK(kernel_family("Linux 6.of-ours x86_64") == "Linux 6 x86_64");
  CHECK(kernel_family("").empty());
}

TEST_CASE("machine record: what is written reads back as it was") {
  for (const MachineRecord& record : {full_record(), record_of(small_validation())}) {
    const std::string text = machine_record_json(record);
    CHECK(refusal_of(text).empty());
    const MachineRecord again = read_machine_record("here.json", text);
    CHECK(again == record);
    CHECK(machine_record_json(again) == text);
  }
}

TEST_CASE("machine record: names that no record may have are made such as it may") {
  Scenario s = small_scenario();
  s.name = "one\x1b[31m two";
  s.systems[0].name = std::string(1000, 'x');
  const MachineRecord record = machine_record(s, {}, small_validation(), "9.9.9+test");
  CHECK(record.work.scenario == "one?[31m two");
  CHECK(record.work.systems[0].size() == kRecordText);
  CHECK(refusal_of(machine_record_json(record)).empty());
}

TEST_CASE("machine record: whatever is wrong with a file is said with its line") {
  const std::string good = machine_record_json(full_record());
  struct Slip {
    std::string what, with, said;
  };
  for (const Slip& slip : {
           Slip{"\"cores\": 2", "\"cores\": 2,\n    \"hostname\": \"box\"", "unknown key 'hostname'"},
           Slip{"\"processor\"", "\"procesor\"", "did you mean 'processor'"},
           Slip{"\"cores\": 2", "\"cores\": 0", "cores"},
           Slip{"\"cores\": 2", "\"cores\": 2.5", "cores"},
           Slip{"\"bias\": 0.125", "\"bias\": .nan", "bias"},
           Slip{"\"bias\": 0.125", "\"bias\": 1e999", "bias"},
           Slip{"\"bias\": 0.125", "\"bias\": -1.5", "bias"},
           Slip{"\"bias\": 0.125", "\"bias\": null", "bias"},
           Slip{"\"median\": 0.125", "\"median\": 0.9", "expected the median or more"},
           Slip{"\"clear\": 1", "\"clear\": 7", "expected no more than 'pairs'"},
           Slip{"\"too_noisy_points\": 1", "\"too_noisy_points\": 3", "expected no more than 'points'"},
           Slip{"\"kind\": \"read_e\"", "\"kind\": \"read_f\"", "read_e"},
           Slip{"\"codec\": \"fixed3\",\n      \"threads\": 2", "\"codec\": \"lz4hc\",\n      \"threads\": 1",
                "a second time"},
           Slip{"\"storage\": \"paced\"", "\"storage\": \"disk\"", "pace"},
           Slip{"2026-11-28", "2026-02-30", "expected a day"},
           Slip{"2026-11-28", "yesterday", "expected a day"},
           Slip{"A Processor", "A \\u001b[31m Processor", "control characters"},
           Slip{"\"scenario\": \"tiny\"", "\"scenario\": \"\"", "expected a text"},
           Slip{"\"format_version\": 1", "\"format_version\": 2", "expected 1"},
           Slip{"moelab-machine-record", "moelab-validation", "moelab-machine-record"},
           Slip{"\"same_work\": false", "\"same_work\": 0", "same_work"},
           Slip{",\n  \"same_work\": false", "", "missing key 'same_work'"},
       }) {
    const std::string text = replaced(good, slip.what, slip.with);
    const std::string said = refusal_of(text);
    INFO(slip.what << " -> " << slip.with << ": " << said);
    CHECK_THAT(said, Contains(slip.said) && Contains("here.json:"));
  }
  CHECK_THAT(refusal_of(replaced(good, "\"cores\"", "\"chores\"")),
             Contains("here.json:" + std::to_string(line_of(good, "\"cores\"")) + ":"));
  for (std::size_t size = 0; size < good.size() - 2; size += 7)
    CHECK_FALSE(refusal_of(good.substr(0, size)).empty());  // cut off
}

TEST_CASE("machine record: the table has a part for each machine, and says which rows were disturbed") {
  MachineRecord one = record_of(small_validation()), two = one, other = one;
  one.work.own_profile = true;
  two.work.own_profile = true;
  two.work.scenario = "a-first-one";
  two.groups.resize(1);
  other.machine.processor = "Another Processor";
  other.groups.resize(1);
  const std::string text = machine_records_report(std::array{one, other, two}, {.markdown = true});
  INFO(text);
  const std::size_t first = text.find("A Processor: 2 cores, 25 GB, Linux 6.18 x86"),
                    second = text.find("Another Processor: 2 cores");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(text.find("a-first-one") < text.find("| tiny"));  // sorted
  CHECK_THAT(text.substr(first, second - first),
             Contains("12.5 % of 4") && Contains("1 of 2 points too noisy") && Contains("read\\_e +12.5 %") &&
                 !Contains("another machine"));
  CHECK_THAT(text.substr(second),
             Contains("profile of another machine") && Contains("paced, 800 MB/s, 100 us"));
  CHECK(machine_records_report(std::array{two, one, other}, {.markdown = true}) == text);
}

}  // namespace moelab::machine_record_test
