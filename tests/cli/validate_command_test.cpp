// moelab validate as a user meets it: a tiny model's whole run, its outputs, and what it refuses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/xml_document.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::validate_command_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kModel = R"(name: tiny
title: tiny
source: a test
hidden: 64
vocab: 100
layers: 2
attention: {kind: kv_heads, heads: 2, kv_heads: 1, head_dim: 16}
moe: {experts: 4, top_k: 2, width: 96}
)";

constexpr const char* kScenario = R"(name: tiny
model: tiny.yaml
device: jetson-agx-orin-64gb
budget: 500 MB
workload: {prompt_tokens: 1, output_tokens: 6}
systems:
  - {name: affinity, weights: compressed, codec: lz4hc, shards: 2, threads: 2, page_cache: false,
     schedule: {policy: cache-affinity}, cache: {policy: lru}}
  - {name: fifo, weights: compressed, codec: lz4hc, shards: 2, threads: 2, page_cache: false,
     schedule: {policy: fifo}, cache: {policy: lru}}
)";

constexpr const char* kDevice = R"(name: here
title: here
sources: {b: {kind: assumed, text: a test}}
measured_on: {cpu: another one, kernel: k, date: d, command: c}
memory: {total: {value: 24 GB, source: b}, system_reserve: {value: 1 GB, source: b}}
cpu:
  threads: {value: 2, source: b}
  dispatch: {value: 20 us, source: b}
  recover: {points: [[1000, 2 us]], source: b}
  experts: [{hidden: 64, width: 96, matrices: 3, seconds: {points: [[1, 10 us]], source: b}}]
  peak: {value: 20 GFLOP/s, source: b}
  bandwidth: {value: 10 GB/s, source: b}
  dense_launch: {value: 1 us, source: b}
ssd:
  read: {latency: 100 us, rate: 1 GB/s, source: b}
  slowdown_while_decompressing: {value: 1, source: b}
  readers: {value: [1, 2], source: b}
page_cache: {read: {latency: 1 us, rate: 5 GB/s, source: b}}
codecs: {fixed3: {ratio: {value: 0.4, source: b}, decompress: {value: 5 GB/s, source: b}}}
)";

class TinyValidation {
 public:
  TinyValidation() {
    write_bytes(folder / "tiny.yaml", kModel);
    write_bytes(folder / "scenario.yaml", kScenario);
    write_bytes(folder / "here.yaml", kDevice);
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  ProgramResult run(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"validate", path("scenario.yaml"), "--device",  path("here.yaml"),
                                    "--store",  path("stores"),        "--repeats", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, all);
  }
  const ScratchFolder folder;
};

}  // namespace

TEST_CASE("validate: the smallest run writes its result", "[long]") {
  const TinyValidation tiny;
  const ProgramResult result = tiny.run({"--codecs", "fixed3", "--threads", "1", "--budgets", "3 MB",
                                         "--tokens", "2", "--rate", "400 MB/s", "--latency", "20 us", "--out",
                                         tiny.path("result.json"), "--record", tiny.path("record.json")});
  INFO(result.err << result.out);
  REQUIRE(result.status == 0);
  CHECK(nlohmann::json::parse(read_bytes(tiny.folder / "result.json"))["same_work"] == true);

  // What is in the record, 'moelab records' reads; and it does not say where it was made.
  const std::string record = read_bytes(tiny.folder / "record.json");
  CHECK_THAT(record, !Contains(tiny.folder.path().filename().string()) && !Contains("another one"));
  const auto json = nlohmann::json::parse(record);
  CHECK(json["work"]["scenario"] == "tiny");
  CHECK(json["work"]["output_tokens"] == 2);
  CHECK(json["work"]["pace"]["rate_bytes_per_s"] == 4e8);
  CHECK(json["work"]["own_profile"] == false);
  REQUIRE(json["groups"].size() == 1);
  CHECK(json["groups"][0]["codec"] == "fixed3");
  CHECK(json["groups"][0]["points"] == 2);
  const ProgramResult shown = run_program(MOELAB_PROGRAM, {"records", tiny.path("record.json")});
  CHECK(shown.status == 0);
  CHECK_THAT(shown.out, Contains("paced, 400 MB/s, 20 us") && Contains("profile of another machine"));
}

TEST_CASE("validate runs a scenario here and in the simulator, and writes result and picture", "[long]") {
  const TinyValidation tiny;
  const ProgramResult result = tiny.run(
      {"--codecs", "fixed3", "--threads", "1,2", "--rate", "400 MB/s", "--latency", "20 us", "--out",
       tiny.path("result.json"), "--timeline", tiny.path("timeline.json"), "--timeline-tokens", "1:3"});
  INFO(result.err << result.out);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, Contains("WARNING: the profile is not of this machine") &&
                             Contains("paced at 400 MB/s") && Contains("by operation") &&
                             Contains("hits and bytes equal"));
  const auto json = nlohmann::json::parse(read_bytes(tiny.folder / "result.json"));
  CHECK(json["points"].size() == 3 * 2 * 2);
  CHECK(json["same_work"] == true);
  CHECK(json["points"][0]["measured_layer_s"].size() == 2 * 6);
  // Both systems, here and in the simulator; the end of the first token's pass lies at the same moment.
  std::map<int, std::string> names;
  std::map<int, double> first_end;
  const auto timeline = nlohmann::json::parse(read_bytes(tiny.folder / "timeline.json"));
  for (const auto& e : timeline["traceEvents"]) {
    if (e["ph"] == "M" && e["name"] == "process_name") names[e["pid"]] = e["args"]["name"];
    if (e["ph"] != "X" || e["cat"] == "request" || e["args"]["pass"] != 0) continue;
    double& end = first_end[e["pid"].get<int>()];
    end = std::max(end, e["ts"].get<double>() + e["dur"].get<double>());
  }
  CHECK(names == std::map<int, std::string>{{1, "hardware: affinity"},
                                            {2, "simulated: affinity"},
                                            {3, "hardware: fifo"},
                                            {4, "simulated: fifo"}});
  for (const int run : {1, 3}) CHECK(first_end[run] == Approx(first_end[run + 1]).margin(1));  // microseconds
  const std::string picture = read_bytes(tiny.folder / "result.svg");
  CHECK_NOTHROW(parse_xml(picture));
  CHECK_THAT(picture, Contains("affinity") && Contains("predicted"));

  const ProgramResult again =
      tiny.run({"--codecs", "fixed3", "--threads", "1", "--budgets", "2 MB,3 MB", "--tokens", "3", "--reader",
                "disk", "--no-dense", "--no-verify", "--format", "json"});
  INFO(again.err);
  REQUIRE(again.status == 0);
  const auto said = nlohmann::json::parse(again.out);
  CHECK(said["points"].size() == 2 * 2);
  CHECK(said["points"][0]["measured_layer_s"].size() == 2 * 3);
  CHECK(said["disk"].size() >= 2);
}

TEST_CASE("validate runs requests that come over time and share steps", "[long]") {
  const TinyValidation tiny;
  const ProgramResult result =
      tiny.run({"--codecs", "fixed3", "--threads", "1", "--budgets", "3 MB", "--rate", "400 MB/s",
                "--latency", "20 us", "--no-verify", "--set",
                "workload={batch: 2, requests: 3, prompt_tokens: 3, output_tokens: 4, arrivals_per_s: 200}",
                "--set", "systems.0.batching={policy: continuous, chunked: 1, max_tokens: 4}", "--timeline",
                tiny.path("timeline.json"), "--out", tiny.path("result.json")});
  INFO(result.err << result.out);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, Contains("requests come over") && Contains("TTFT ms") && Contains("bytes equal"));
  const auto json = nlohmann::json::parse(read_bytes(tiny.folder / "result.json"));
  for (const auto& point : json["points"]) {
    CHECK(point["requests"]["over_time"] == true);
    CHECK(point["requests"]["answered"] == 3);
  }
  const auto timeline = nlohmann::json::parse(read_bytes(tiny.folder / "timeline.json"));
  for (const auto& e : timeline["traceEvents"])
    if (e.contains("dur")) CHECK(e["dur"].get<double>() >= 0);
}

TEST_CASE("validate refuses what it cannot do, before it does anything") {
  const TinyValidation tiny;
  const auto refuses = [&](const std::vector<std::string>& more, const std::string& what, int status = 2) {
    const ProgramResult result = tiny.run(more);
    INFO(result.err);
    CHECK(result.status == status);
    CHECK_THAT(result.err, Contains(what));
    CHECK(result.out.empty());
  };
  refuses({"--codecs", "fixed4"}, "fixed3");
  refuses({"--codecs", "lz4hc"}, "no speed of codec 'lz4hc'");
  refuses({"--codecs", "fixed3", "--threads", "1,8"}, "2 cores");
  refuses({"--codecs", "fixed3", "--threads", "0"}, "--threads");
  refuses({"--codecs", "fixed3", "--budgets", "3"}, "--budgets 3");
  refuses({"--codecs", "fixed3", "--budgets", "1 kB"}, "too small", 1);
  refuses({"--codecs", "fixed3,fixed3"}, "given twice");
  refuses({"--rate", "0 B/s"}, "above 0");
  refuses({"--latency", "11 s"}, "10 s");
  refuses({"--reader", "tape"}, "--reader");
  refuses({"--out", "/dev/null/no/here.json"}, "/dev/null is no folder");
  refuses({"--out", tiny.path("result.txt")}, "ends in .json");
  refuses({"--out", ""}, "expected the name of a file");
  refuses({"--record", tiny.path("record.yaml")}, "ends in .json");
  refuses({"--record", tiny.path("here.json"), "--out", tiny.path("here.json")}, "is named for two outputs");
  refuses({"--codecs", "fixed3", "--set", "workload.arrivals_per_s=1e-5", "--set", "workload.requests=9"},
          "workload.arrivals_per_s");
  refuses({"--set", "systems.0.page_cache=true", "--codecs", "fixed3"}, "page_cache: false");
  CHECK_FALSE(std::filesystem::exists(tiny.folder / "stores"));
  // A file where the folder of stores should be.
  write_bytes(tiny.folder / "stores", "no folder");
  refuses({"--codecs", "fixed3"}, "is no folder");
  const ProgramResult no_device = run_program(MOELAB_PROGRAM, {"validate"});
  CHECK(no_device.status == 2);
  CHECK_THAT(no_device.err, Contains("--device"));
}

TEST_CASE("validate ends at a chunk that changed, and writes nothing", "[long]") {
  const TinyValidation tiny;
  REQUIRE(tiny.run({"--codecs", "fixed3", "--threads", "1"}).status == 0);
  for (const auto& entry : std::filesystem::directory_iterator(tiny.folder / "stores")) {
    const auto data = entry.path() / "chunks.data";
    std::string bytes = read_bytes(data);
    for (std::size_t at = bytes.size() / 2; at < bytes.size(); at += 4096) bytes[at] ^= 1;
    write_bytes(data, bytes);
  }
  const ProgramResult result =
      tiny.run({"--codecs", "fixed3", "--threads", "1", "--out", tiny.path("r.json")});
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("chunks.data"));
  CHECK_FALSE(std::filesystem::exists(tiny.folder / "r.json"));
  CHECK_FALSE(std::filesystem::exists(tiny.folder / "r.svg"));
}

}  // namespace moelab::validate_command_test
