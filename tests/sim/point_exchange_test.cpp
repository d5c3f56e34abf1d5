// Points for other machines: what goes there comes back the same, and what is not the same there is refused.
#include "sim/sweep/point_exchange.hpp"
#include "models/json.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "models/input_error.hpp"
#include "sim/sweep/sweep_point.hpp"
#include "tests/sim/scenario_files.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::point_exchange_test {

using namespace moelab::test;

namespace {

const std::string kSweep = "name: s\nscenario: scenario.yaml\naxes: {workload.batch: [1, 2]}\n";

RemoteJob second_point(const Files& folder) {
  const SweepFile sweep = read_sweep({folder.path("sweep.yaml"), kSweep});
  return {job_of(sweep, point_of(sweep, sweep.combinations() - 1)), {}, {12.5, 3'000'000'000}};
}

/// One request of two tokens, which both use these experts (two at each of two layers).
void write_trace(const std::string& path, const std::vector<std::uint16_t>& ids) {
  RoutingTraceBuilder builder("", "a test", false, 2, 4, 2, false);
  builder.begin_request();
  builder.add_token(Phase::prefill, ids, {});
  builder.add_token(Phase::decode, ids, {});
  write_routing_trace(builder.finish(), path);
}

/// A job whose trace of one request is a file of the folder.
RemoteJob job_with_trace(const Files& folder) {
  write_trace(folder.path("t.safetensors"), {0, 1, 2, 3});
  const SweepFile sweep = read_sweep(
      {folder.path("sweep.yaml"),
       "name: s\nscenario: scenario.yaml\nset: {workload: {trace: " + folder.path("t.safetensors") + "}}\n"});
  const PointJob point = job_of(sweep, point_of(sweep, 0));
  return {point, data_files(scenario_of_document("s", point.document)), {}};
}

std::string problem_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("point exchange: a job travels as text") {
  const Files folder;
  RemoteJob job = second_point(folder);
  job.data = {{"/data/a.safetensors", "0123456789abcdef"}};
  const RemoteJob back = unpack_job(pack_job(job));
  CHECK(back.job.document == job.job.document);
  CHECK(back.job.settings == job.job.settings);
  CHECK(back.job.executor == job.job.executor);
  REQUIRE(back.data.size() == 1);
  CHECK(back.data[0].path == job.data[0].path);
  CHECK(back.data[0].digest == job.data[0].digest);
  CHECK(back.limits.wall_s == 12.5);
  CHECK(back.limits.memory_bytes == 3'000'000'000);
  CHECK(run_point(back.job) == run_point(job.job));
}

TEST_CASE("point exchange: what is no job of this version is refused") {
  const Files folder;
  const auto job = nlohmann::json::parse(pack_job(second_point(folder)));
  const auto changed = [&](const char* path, const nlohmann::json& value) {
    nlohmann::json other = job;
    other[nlohmann::json::json_pointer(path)] = value;
    return other.dump();
  };
  CHECK(problem_of([&] { unpack_job(changed("/version", "0.0.1")); }).find("is of moelab 0.0.1, this is") !=
        std::string::npos);
  for (const std::string& text :
       {std::string(""), std::string("{}"), std::string("[]"), std::string("\xff"),
        changed("/executor", "quick"), changed("/executor", 1), changed("/settings", "none"),
        changed("/data", 3), changed("/limits", nullptr), changed("/version", 1)})
    CHECK_THROWS_AS(unpack_job(text), InputError);
  nlohmann::json without = job;
  without.erase("scenario");
  CHECK_THROWS_AS(unpack_job(without.dump()), InputError);
}

TEST_CASE("point exchange: another data file, or one that the job does not name, is refused") {
  const Files folder;
  const RemoteJob whole = job_with_trace(folder);
  REQUIRE(whole.data.size() == 1);
  RemoteJob job = whole;
  CHECK_NOTHROW(check_data(job));
  write_trace(folder.path("t.safetensors"), {0, 1, 3, 2});
  CHECK(problem_of([&] { check_data(job); }).find("is another file here") != std::string::npos);
  job.data.clear();
  CHECK(problem_of([&] { check_data(job); }).find("does not say which file") != std::string::npos);
  std::filesystem::remove(folder.path("t.safetensors"));
  CHECK_THROWS_AS(check_data(whole), InputError);
}

TEST_CASE("point exchange: outcomes travel as text") {
  for (const auto kind : {ChildOutcome::Kind::done, ChildOutcome::Kind::failed, ChildOutcome::Kind::timeout,
                          ChildOutcome::Kind::memory}) {
    PointOutcome outcome;
    outcome.child.kind = kind;
    outcome.child.text = "a \"text\"\nof two lines";
    outcome.child.wall_s = 0.1;
    outcome.child.cpu_s = 0.05;
    outcome.child.peak_bytes = 123'456'789'012;
    outcome.host = "node-7";
    const PointOutcome back = unpack_outcome(pack_outcome(outcome));
    CHECK(back.child.kind == kind);
    CHECK(back.child.text == outcome.child.text);
    CHECK(back.child.wall_s == 0.1);
    CHECK(back.child.cpu_s == 0.05);
    CHECK(back.child.peak_bytes == outcome.child.peak_bytes);
    CHECK(back.host == "node-7");
  }
  for (const char* text : {"", "[]", "{}", R"({"status": "well", "text": "", "host": "", "wall_s": 0,
                                               "cpu_s": 0, "peak_bytes": 0})",
                           R"({"status": "done", "text": "", "host": "", "wall_s": -1, "cpu_s": 0,
                               "peak_bytes": 0})"})
    CHECK_THROWS_AS(unpack_outcome(text), InputError);
}

TEST_CASE("point exchange: a result of something else than the job is refused") {
  const Files folder;
  const RemoteJob job = job_with_trace(folder);
  const std::string text = run_point(job.job);
  CHECK_NOTHROW(check_result(job, text));
  const auto result = nlohmann::ordered_json::parse(text);
  const auto problem = [&](const char* path, const nlohmann::ordered_json& value) {
    nlohmann::ordered_json other = result;
    other[nlohmann::ordered_json::json_pointer(path)] = value;
    return problem_of([&] { check_result(job, other.dump(2) + "\n"); });
  };
  CHECK(problem("/scenario", "other").find("scenario is \"other\"; expected \"") != std::string::npos);
  CHECK(problem("/seed", 7).find("seed is 7; expected ") != std::string::npos);
  for (const char* path : {"/system", "/executor", "/version", "/inputs/scenario/budget",
                           "/inputs/data/0/xxh3", "/inputs/data/0/file", "/inputs/data"})
    CHECK(problem(path, "other").find("; expected ") != std::string::npos);
  for (const char* path : {"/metrics/ttft_s", "/metrics/tpot_s/mean", "/metrics/wall_s", "/metrics/tokens"})
    for (const nlohmann::ordered_json& value : {nlohmann::ordered_json(-1), nlohmann::ordered_json("text")})
      CHECK(problem(path, value).find("metrics") != std::string::npos);
  CHECK(problem("/metrics/itl_s/p90", 1e9).find("percentiles that fall") != std::string::npos);
  CHECK(problem("/metrics/wall_s", 1e9).find("throughput times time") != std::string::npos);
  CHECK_FALSE(problem("/metrics", nullptr).empty());
  for (const std::string& other : {std::string(), std::string("[]"), std::string("{}"), text + " ",
                                   std::string("\xff"), nlohmann::ordered_json::parse(text).dump()})
    CHECK_THROWS_AS(check_result(job, other), InputError);
}

TEST_CASE("point exchange: a result of a part of its run is held to that part's throughput") {
  const Files folder;
  const SweepFile sweep = read_sweep(
      {folder.path("sweep.yaml"), "name: s\nscenario: scenario.yaml\nset: {workload.warm_up: 1}\n"});
  const RemoteJob job{job_of(sweep, point_of(sweep, 0)), {}, {}};
  const std::string text = run_point(job.job);
  CHECK_NOTHROW(check_result(job, text));
  const auto problem = [&](const std::string& honest, const char* path, const auto& value) {
    auto other = nlohmann::ordered_json::parse(honest);
    REQUIRE(other["metrics"]["throughput_tokens_per_s"] > 0);
    other[nlohmann::ordered_json::json_pointer(path)] = value;
    return problem_of([&] { check_result(job, other.dump(2) + "\n"); });
  };
  CHECK(problem(text, "/metrics/throughput_tokens_per_s", 1e12).find("tokens are fewer") !=
        std::string::npos);
  CHECK(problem(text, "/metrics/tokens", 0).find("tokens are fewer") != std::string::npos);
  CHECK_FALSE(problem(text, "/measured/end_s", "text").empty());
  CHECK_FALSE(problem(text, "/measured", 3).empty());
  // Where nothing is left out, no part can be spoken of to have no rule.
  const Files whole;
  const RemoteJob of_whole = second_point(whole);
  auto lie = nlohmann::ordered_json::parse(run_point(of_whole.job));
  lie["measured"] = {{"begin_s", 0}, {"end_s", 0}};
  CHECK(problem_of([&] { check_result(of_whole, lie.dump(2) + "\n"); }).find("leaves nothing out") !=
        std::string::npos);
}

TEST_CASE("point exchange: answers that are deeper or larger than any result are refused, long texts cut") {
  const Files folder;
  const RemoteJob job = second_point(folder);
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  for (const std::size_t depth : {std::size_t{65}, std::size_t{1'000'000}}) {
    const std::string deep = R"({"scenario":)" + nested(depth) + "}";
    CHECK(problem_of([&] { check_result(job, deep); }).find("nests deeper") != std::string::npos);
    CHECK(problem_of([&] { check_result(job, deep.substr(0, depth + 12)); }).find("nests deeper") !=
          std::string::npos);
    CHECK(problem_of([&] { unpack_outcome(deep); }).find("nests deeper") != std::string::npos);
  }
  CHECK(problem_of([&] { check_result(job, R"({"scenario":)" + nested(63) + "}"); }).find("expected ") !=
        std::string::npos);
  const std::string large((std::size_t{64} << 20) + 1, ' ');
  CHECK(problem_of([&] { check_result(job, large); }).find(" bytes; expected") != std::string::npos);
  CHECK(problem_of([&] { unpack_outcome(large); }).find(" bytes; expected") != std::string::npos);

  PointOutcome outcome;
  outcome.child.kind = ChildOutcome::Kind::failed;
  outcome.child.text = std::string(4095, 'x') + "\u20ac";  // three bytes, which the limit parts
  outcome.host = std::string(255, 'h') + "\u20ac";
  const PointOutcome back = unpack_outcome(pack_outcome(outcome));
  CHECK(back.child.text == std::string(4095, 'x'));
  CHECK(back.host == std::string(255, 'h'));
  outcome.child.kind = ChildOutcome::Kind::done;
  CHECK(unpack_outcome(pack_outcome(outcome)).child.text == outcome.child.text);
}

TEST_CASE("point exchange: a job keeps to its limits") {
  const Files folder;
  RemoteJob job = second_point(folder);
  job.limits.memory_bytes = 0;  // the address sanitizer takes more of a process than any limit
  CHECK(run_job(job).child.text == run_point(job.job));
  job.limits.wall_s = 1e-4;  // less than a process takes to start
  // On a busy machine the child may be done before its parent looks again: not every time.
  bool ended = false;
  for (int attempt = 0; attempt < 100 && !ended; ++attempt)
    ended = run_job(job).child.kind == ChildOutcome::Kind::timeout;
  CHECK(ended);
}

}  // namespace moelab::point_exchange_test
