// What else a machine did while a run was timed: read from the system's own figures, and judged.
#include "hw/validate/disturbance.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "hw/validate/validation_report.hpp"
#include "models/json.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::disturbance_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

ProcessorTime at(double busy, double idle, double own) {
  return {.busy = busy, .idle = idle, .own = own};
}

/// A point with one layer and one token, predicted right.
ValidationPoint quiet_point() {
  ValidationPoint point;
  point.codec = "fixed3";
  point.system = "lru";
  point.predicted_layers = point.measured_layers = {0.001};
  point.predicted_tpot = point.measured_tpot = {0.002};
  return point;
}

}  // namespace

TEST_CASE("disturbance: the processors' clock is read as proc(5) says") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "proc");
  // user nice system idle iowait irq softirq steal guest guest_nice
  write_bytes(folder / "proc/stat", "cpu  100 20 30 4000 500 6 7 8 90 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  const auto time = processor_time(folder / "");
  REQUIRE(time);
  CHECK(time->busy * 100 == Approx(100 + 20 + 30 + 6 + 7 + 8));
  CHECK(time->idle * 100 == Approx(4000 + 500));
  CHECK(time->own > 0);

  for (const char* other : {"", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu one 2 3 4 5 6 7 8"}) {
    write_bytes(folder / "proc/stat", other);
    CHECK_FALSE(processor_time(folder / ""));
  }
  CHECK_FALSE(processor_time(folder / "elsewhere"));
}

TEST_CASE(
    "disturbance: of the time that processors worked, what this process did not have them do is others'") {
  // Two cores for ten seconds: twelve seconds of ours, five of others, three idle.
  const Disturbance run = disturbance_between(at(100, 50, 7), at(117, 53, 19), 10);
  CHECK(run.others == Approx(5));
  CHECK(run.idle == Approx(3));
  CHECK(run.others_cores().value() == Approx(0.5));
  CHECK_THAT(run.too_noisy(), Contains("other programs took 0.5 cores and left 0.3 idle"));

  SECTION("runs are added") {
    Disturbance both = run;
    both.add(disturbance_between(at(0, 0, 0), at(10, 10, 10), 10));
    CHECK(both.others_cores().value() == Approx(0.25));
    CHECK_FALSE(both.too_noisy().empty());
    both.add(disturbance_between(at(0, 0, 0), at(40, 40, 40), 40));
    CHECK(both.others_cores().value() == Approx(5.0 / 60));  // less than a tenth of a core
    CHECK(both.too_noisy().empty());
  }
  SECTION("a core that stays idle has room for others") {
    CHECK(disturbance_between(at(0, 0, 0), at(17, 10.5, 12), 10).too_noisy().empty());
    CHECK_FALSE(disturbance_between(at(0, 0, 0), at(17, 9.5, 12), 10).too_noisy().empty());
  }
  SECTION("clocks that tick at different moments make no time below zero") {
    const Disturbance none = disturbance_between(at(0, 0, 0), at(9.99, 0, 10), 10);
    CHECK(none.others == 0);
    CHECK(none.too_noisy().empty());
  }
  SECTION("what is too short for the clock, or has none, is not judged") {
    const Disturbance brief = disturbance_between(at(0, 0, 0), at(0.2, 0, 0.1), 0.1);
    CHECK_FALSE(brief.others_cores());
    CHECK(brief.too_noisy().empty());
    CHECK_FALSE(disturbance_between({}, at(9, 9, 9), 10).others_cores());
  }
}

TEST_CASE("disturbance: what this process has a core do is in what all processors did", "[long]") {
  const auto before = processor_time();
  REQUIRE(before);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
  while (std::chrono::steady_clock::now() < end) {
  }
  const auto after = processor_time();
  REQUIRE(after);
  CHECK(after->own - before->own > 0);
  CHECK(after->busy - before->busy + 0.05 >= after->own - before->own);
}

TEST_CASE("disturbance: a CPU that changed its speed during a run by a quarter is too noisy") {
  Disturbance run;
  run.add({.speed_change = 1.2});
  CHECK(run.too_noisy().empty());
  run.add({.speed_change = 1.4});
  run.add({.speed_change = 1.1});
  CHECK_THAT(run.too_noisy(), Contains("changed by a factor of 1.40"));
}

TEST_CASE("disturbance: points that are too noisy are in no error, and are named") {
  Validation v;
  v.points = {quiet_point(), quiet_point()};
  v.points[1].system = "noisy";
  v.points[1].measured_tpot = {0.2};  // a hundred times what was predicted
  v.points[1].measured_layers = {0.1};
  CHECK(v.tpot_error().count == 2);
  CHECK(v.too_noisy() == 0);
  CHECK_THAT(validation_table(v), !Contains("TOO NOISY") && Contains("(of 2 points)"));

  v.points[1].disturbance = disturbance_between(at(0, 0, 0), at(20, 0, 10), 10);
  CHECK(v.too_noisy() == 1);
  for (const ErrorSummary& error : {v.tpot_error(), v.layer_error()}) {
    CHECK(error.count == 1);
    CHECK(error.p90 == 0);
  }
  for (const ValidationGroup& group : v.groups()) CHECK(group.ordering.pairs == 0);
  const std::string table = validation_table(v);
  CHECK_THAT(table,
             Contains("TOO NOISY TO SAY: fixed3, 0 B, 0 threads, noisy: other programs took 1.0 cores"));
  CHECK_THAT(table, Contains("(of 1 point, 1 more too noisy to say)"));
  const auto json = nlohmann::json::parse(validation_json(v));
  CHECK(json["too_noisy_points"] == 1);
  CHECK(json["points"][0]["disturbance"]["too_noisy"] == false);
  CHECK(json["points"][0]["disturbance"]["others_cores"].is_null());  // not watched is not zero
  CHECK(json["points"][1]["disturbance"]["others_cores"] == 1.0);
  CHECK(json["points"][1]["disturbance"]["idle_cores"] == 0.0);

  v.points[0].disturbance = v.points[1].disturbance;
  CHECK_THAT(validation_table(v), Contains("too noisy to say, at every point") && !Contains("off by"));
}

}  // namespace moelab::disturbance_test
