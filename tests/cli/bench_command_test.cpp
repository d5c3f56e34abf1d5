// moelab bench as a user meets it: the list, a run that takes a second, its JSON, and what is refused.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::bench_command_test {

using namespace moelab::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

ProgramResult bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  return run_program(MOELAB_PROGRAM, arguments);
}

ProgramResult bench_run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", "--quick"});
  return bench(arguments);
}

void refuses(const std::vector<std::string>& arguments, const std::string& why) {
  const ProgramResult result = bench_run(arguments);
  INFO(result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains(why));
}

/// The names at the beginnings of the lines that are not indented.
std::set<std::string> listed_cases() {
  std::set<std::string> names;
  std::istringstream lines(bench({"list"}).out);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with(' ')) names.insert(line.substr(0, line.find(' ')));
  return names;
}

}  // namespace

TEST_CASE("bench list names the cases, with what they vary") {
  const std::set<std::string> names = listed_cases();
  for (const char* name : {"read", "memory", "decompress", "interference", "join", "recover", "checksum",
                           "expert", "dense", "sharing", "handoff", "cuda-link", "cuda-copy", "cuda-recover",
                           "cuda-expert", "cuda-launch", "cuda-remap", "cuda-overlap"})
    CHECK(names.contains(name));
  CHECK_THAT(bench({"list"}).out, Contains("by codec, bytes"));
}

TEST_CASE("bench run measures what it is asked for, and writes it as JSON") {
  const ScratchFolder folder;
  const std::string out = (folder / "bench.json").string();
  const ProgramResult made = bench_run({"checksum", "--size", "64 KiB", "--size", "8KiB", "--out", out});
  INFO(made.err);
  REQUIRE(made.status == 0);
  CHECK_THAT(made.out, Contains("checksum bytes=8192") && Contains("checksum bytes=65536") &&
                           Contains("cores") && Contains("median") && Contains("/s"));
  const auto json = Json::parse(read_bytes(folder / "bench.json"));
  CHECK(json["format"] == "moelab-bench");
  CHECK(json["quick"] == true);
  for (const char* what : {"cpu", "kernel", "filesystem", "date", "compiler"})
    CHECK_FALSE(json["context"][what].get<std::string>().empty());
  REQUIRE(json["results"].size() == 2);
  for (const auto& one : json["results"]) {
    CHECK(one["case"] == "checksum");
    CHECK(one["status"] == "measured");
    CHECK(one["samples"].size() == 7);
    // Between a byte a cycle of a slow core and what no memory gives.
    CHECK((one["bytes_per_second"] > 1e8 && one["bytes_per_second"] < 1e12));
    CHECK(one["p10"] <= one["median"]);
    CHECK(one["median"] <= one["p90"]);
  }
  CHECK(folder.names() == std::vector<std::string>{"bench.json"});
}

TEST_CASE("bench run's table and JSON tell the same points; what cannot run is said to be skipped",
          "[plain]") {
  const ProgramResult table = bench_run({"handoff"});
  REQUIRE(table.status == 0);
  CHECK_THAT(table.out, Contains("handoff kind=condition_variable threads=1 idle_us=0") &&
                            Contains("handoff kind=condition_variable threads=2 idle_us=300"));
  const ProgramResult made = bench_run({"handoff", "--format", "json"});
  REQUIRE(made.status == 0);
  CHECK(made.err.empty());  // no progress outside a terminal
  const auto json = Json::parse(made.out);
  const std::size_t cores = json["context"]["cores"];
  for (const auto& one : json["results"]) {
    INFO(one.dump());
    const bool fits = one["parameters"]["kind"] != "spin" || one["parameters"]["threads"] < cores;
    CHECK(one["status"] == (fits ? "measured" : "skipped"));
    if (!fits) CHECK_THAT(one["reason"].get<std::string>(), Contains("cores"));
  }
}

TEST_CASE("bench run refuses what it does not know before it measures, with the nearest name") {
  const ScratchFolder folder;
  refuses({"handof"}, "did you mean 'handoff'");
  refuses({"read", "chekcsum"}, "did you mean 'checksum'");
  refuses({"nothing"}, "benchmark 'nothing': is not known; see 'moelab bench list'");
  refuses({"checksum", "--codec", "fixed2"}, "did you mean 'fixed3'");
  refuses({"decompress", "--codec", "zstd-20"}, "levels of zstd");
  // Texts that are read in the same way are left out where each takes its time.
  std::vector<std::string> sizes = {"5000 B", "2 GiB", "nan B", "a lot"},
                           shapes = {"2048x1408", "2048x1408x4", "200000x1x2"};
  if (!kFewerRuns) {
    sizes.insert(sizes.end(), {"0 B", "1 KiB", "-4 KiB", "4 MB/s"});
    shapes.insert(shapes.end(), {"0x1x3", "x", "2048x1408x3x"});
  }
  for (const std::string& size : sizes) refuses({"checksum", "--size", size}, "--size " + size);
  for (const std::string& shape : shapes) refuses({"expert", "--expert", shape}, "--expert " + shape);
  refuses({"read", "--dir", (folder / "none").string()}, "is not a folder");
  refuses({"checksum", "--out", "/dev/null/no/bench.json"}, "/dev/null is no folder");
  refuses({"checksum", "--out", ""}, "expected the name of a file");
  refuses({"checksum", "--format", "yaml"}, "--format");
  CHECK(folder.names().empty());
  CHECK(bench({}).status == 2);
  CHECK_THAT(bench({"lst"}).err, Contains("did you mean 'list'"));
}

}  // namespace moelab::bench_command_test
