// The command line: what scripts rely on, and what happens to bad input.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

ProgramResult moelab(const std::vector<std::string>& arguments) {
  return run_program(MOELAB_PROGRAM, arguments);
}

/// A folder whose files' names are arguments of the program.
class Folder {
 public:
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return this->name(name);
  }
  std::string name(const std::string& file) const { return (folder_ / file).string(); }
  std::size_t files() const { return folder_.names().size(); }

 private:
  test::ScratchFolder folder_;
};

const std::vector<std::string> kSmall = {"run",   "zipmoe-orin",
                                         "--set", "workload.requests=1",
                                         "--set", "workload.output_tokens=3",
                                         "--set", "workload.prompt_tokens=4"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

constexpr const char* kInstance =
    R"({"threads": 2, "shards": 2, "sm_read_s": 0.9, "e_read_s": 0.2, "decompress_s": 0.5,
  "recover_s": 0, "experts": [{"id": 4, "tensors": 1, "state": "M", "execute_s": 1}, {"id": 9, "tensors": 1, "state": "F", "execute_s": 0.25}]})";

}  // namespace

TEST_CASE("every command's help ends with an example") {
  const std::vector<std::vector<std::string>> commands = {
      {},          {"run"},           {"check"},   {"schedule"}, {"plan"},       {"plan", "zipmoe"},
      {"models"},  {"devices"},       {"systems"}, {"policies"}, {"model"},      {"model", "import"},
      {"report"},  {"explain"},       {"sweep"},   {"results"},  {"point"},      {"load"},
      {"compare"}, {"scenarios"},     {"show"},    {"keys"},     {"completion"}, {"check-policy"},
      {"new"},     {"new", "policy"}, {"metrics"}, {"reference"}};
  for (std::size_t i = 0; i < commands.size(); i += test::random_runs(std::size_t{1}, std::size_t{3})) {
    const ProgramResult r = moelab(with(commands[i], {"--help"}));
    CAPTURE(r.out);
    CHECK(r.status == 0);
    CHECK(r.out.find("Example:\n  moelab ") != std::string::npos);
  }
}

TEST_CASE("run prints the JSON that scripts rely on, an array for several systems") {
  const ProgramResult one = moelab(with(kSmall, {"--system", "zipmoe", "--format", "json"}));
  REQUIRE(one.status == 0);
  const Json j = Json::parse(one.out);
  for (const char* key : {"scenario", "system", "executor", "seed", "version", "metrics", "hits", "bytes",
                          "busy_s", "stall_s", "provenance"})
    CHECK(j.contains(key));
  CHECK(j["system"] == "zipmoe");
  CHECK(j["provenance"][0] == "set for this run: workload.requests = 1");  // what was overridden is on record
  CHECK(j["metrics"]["tokens"] == 3);                                      // one request of three tokens
  std::vector<std::string> several = with(kSmall, {"--format", "json"});
  if (test::kFewerRuns) several = with(several, {"--system", "zipmoe", "--system", "zipmoe-lru"});
  const ProgramResult all = moelab(several);
  REQUIRE(all.status == 0);
  const Json rest = Json::array({Json{{"op", "remove"}, {"path", "/answer"}}});  // which is of all systems
  CHECK(Json::parse(all.out)[0].patch(rest) == j.patch(rest));
}

TEST_CASE("run leaves a result and a timeline, and the same bytes every time", "[long]") {
  const Folder folder;
  const auto leave = [&](const std::string& name, const std::vector<std::string>& more) {
    const auto run =
        with(kSmall, {"--out", folder.name(name + ".json"), "--timeline", folder.name(name + ".trace")});
    REQUIRE(moelab(with(run, more)).status == 0);
  };
  const auto read = [&](const char* file) { return test::read_bytes(folder.name(file)); };
  leave("a", {});
  leave("b", {});
  CHECK((read("a.json") == read("b.json")));  // 66 MB of timeline: not to be printed
  CHECK((read("a.trace") == read("b.trace")));
  leave("one", {"--system", "zipmoe"});
  CHECK(Json::parse(read("a.json")).is_array());
  CHECK(Json::parse(read("one.trace"))["traceEvents"].size() > 100);
  CHECK(folder.files() == 6);  // and no temporary file
}

TEST_CASE("the version says which sources decide results, and results say it") {
  const std::string version = moelab({"--version"}).out;
  CHECK_THAT(version, Catch::Matchers::Matches("[0-9]+\\.[0-9]+\\.[0-9]+\\+[0-9a-f]{8}\n"));
  const Json j = Json::parse(moelab(with(kSmall, {"--system", "zipmoe", "--format", "json"})).out);
  CHECK(j["version"].get<std::string>() + "\n" == version);
}

TEST_CASE("schedule answers in the agreed form") {
  const Folder folder;
  const ProgramResult r =
      moelab({"schedule", folder.file("i.json", kInstance), "--policy", "exhaustive", "--format", "json"});
  REQUIRE(r.status == 0);
  const Json j = Json::parse(r.out);
  CHECK(j["policy"] == "exhaustive");
  // Reads take 0.2 + 0.2 + 0.9 on the one I/O thread; the second E-chunk is decompressed by 0.9 at the
  // latest, so the tensor is whole at 1.3 and its expert has run at 2.3. The bound's longest task is the
  // same: reads, then execution.
  CHECK(j["makespan_s"].get<double>() == Approx(2.3).epsilon(1e-12));
  CHECK(j["lower_bound_s"].get<double>() <= 2.3 + 1e-12);
  CHECK(j["operations"].size() == 8);  // 1 SM read, 2 E reads, 2 decompressions, 1 recovery, 2 executions
  for (const char* key : {"kind", "expert", "tensor", "chunk", "resource", "start_s", "end_s"})
    CHECK(j["operations"][0].contains(key));
}

TEST_CASE("a workload runs the first requests of its trace: what a slice of them gives") {
  using Catch::Matchers::Contains;
  const Folder folder;
  const auto run = [&](const std::string& workload) {
    return moelab({"run", "recorded-default", "--system", "zipmoe-lru", "--set",
                   "workload={batch: 1, trace: " + workload + "}", "--format", "json"});
  };
  REQUIRE(moelab({"trace", "slice", "debian-moe-8x32", "--requests", "0:5", "--out", folder.name("part")})
              .status == 0);
  const ProgramResult first = run("debian-moe-8x32, requests: 5"), part = run(folder.name("part"));
  REQUIRE((first.status == 0 && part.status == 0));
  CHECK(Json::parse(first.out)["metrics"] == Json::parse(part.out)["metrics"]);
  CHECK_THAT(run("debian-moe-8x32, requests: 5000").err,
             Contains("asks for 5000 of its requests, and it has 27"));
  CHECK_THAT(run("debian-moe-8x32, output_tokens: 3").err, Contains("moelab trace slice"));
}

TEST_CASE("plan zipmoe takes the experts' chances from counts of them") {
  using Catch::Matchers::Contains;
  const Folder folder;
  // k = 1: an expert's chance is its share of the layer's counts; by rank, means over two layers.
  REQUIRE(moelab({"trace", "import", "counts",
                  folder.file("c.csv", "layer,expert,count\n0,0,3\n0,1,6\n0,2,3\n1,0,2\n1,1,4\n1,2,6\n"),
                  "--layer", "layer", "--expert", "expert", "--count", "count", "--experts", "3", "--top-k",
                  "1", "--out", folder.name("counts")})
              .status == 0);
  const std::string rest =
      R"("threads": 2, "shards": 2, "tensors": 3, "sm_read_s": 0.001, "e_read_s": 0.0003, "decompress_s": 0.0005,
         "memory_bytes": 2e7, "tensor_elements": 2e6, "ratio": 0.5, "step": 0.1, "pools": ["F", "C", "S", "E"]})";
  const auto plan = [&](const std::string& first, bool trace) {
    std::vector<std::string> arguments{"plan", "zipmoe", folder.file("p.json", first + rest), "--format",
                                       "json"};
    if (trace) arguments.insert(arguments.end(), {"--trace", folder.name("counts")});
    return moelab(arguments);
  };
  const ProgramResult given =
      plan(R"({"inclusion": [0.5, 0.2916666666666667, 0.20833333333333334], "k": 1, )", false);
  const ProgramResult counted = plan("{", true);
  REQUIRE((given.status == 0 && counted.status == 0));
  const auto a = Json::parse(given.out), b = Json::parse(counted.out);
  CHECK(a["capacity"] == b["capacity"]);
  CHECK(a["expected_makespan_s"].get<double>() == Approx(b["expected_makespan_s"].get<double>()));
  CHECK_THAT(plan(R"({"k": 2, )", true).err,
             Contains("'k' is 2, and") && Contains("has tokens of 1 experts"));
  CHECK_THAT(plan(R"({"inclusion": [1], )", true).err, Contains("'inclusion' is the trace's to say"));
}

TEST_CASE("plan zipmoe answers in the agreed form") {
  const Folder folder;
  const std::string input =
      R"({"inclusion": [0.9, 0.6, 0.3, 0.2], "k": 2, "threads": 2, "shards": 2, "tensors": 3, "sm_read_s": 0.9,
    "e_read_s": 0.2, "decompress_s": 0.5, "memory_bytes": 1300, "tensor_elements": 100, "ratio": 0.5, "step": 0.25, "pools": ["F", "S"]})";
  const ProgramResult r = moelab({"plan", "zipmoe", folder.file("p.json", input), "--format", "json"});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  const Json j = Json::parse(r.out);
  CHECK(j["ratios"]["F"].get<double>() + j["ratios"]["S"].get<double>() == Approx(1));
  CHECK_FALSE(j["ratios"].contains("C"));
  CHECK(j["selection_probability"].size() == 4);
  CHECK(j["capacity"].contains("S"));
  CHECK(j["expected_makespan_s"].get<double>() > 0);
}

TEST_CASE("run: what does not fit is a result that says how much is missing, and of what") {
  const ProgramResult r = moelab({"run", "zipmoe-orin", "--system", "zipmoe", "--set", "budget=2 GB"});
  CHECK(r.status == 1);
  CHECK_THAT(r.err,
             Catch::StartsWith("moelab: nothing fits: zipmoe-orin: system 'zipmoe' lacks the least: ") &&
                 Catch::EndsWith(" more than the budget of 2 GB\n"));
  CHECK_THAT(r.out, Catch::Contains("system 'zipmoe' does not fit: it needs ") &&
                        Catch::Contains("budget 2 GB is too small for system 'zipmoe'") &&
                        Catch::Contains("non-expert weights 2.623 GB"));
  const ProgramResult check = moelab({"check", "zipmoe-orin", "--set", "budget=2 GB"});
  CHECK(check.status == 1);
  CHECK_THAT(check.out, Catch::Contains("zipmoe: does not fit, "));
  CHECK(check.err == "moelab: nothing fits: zipmoe-orin: none of its systems has the memory that it needs\n");
}

TEST_CASE("bad input: exit status 2, the place and the reason, and no result") {
  const Folder folder;
  const std::string good =
      "name: x\nmodel: deepseek-v2-lite\ndevice: jetson-agx-orin-64gb\nbudget: 20 GB\nworkload: "
      "{prompt_tokens: 2, output_tokens: 2}\nsystems: [zipmoe]\n";
  REQUIRE(moelab({"check", folder.file("good.yaml", good)}).status == 0);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return folder.file("bad.yaml", text);
  };
  const auto says = [&](const std::string& file, const std::string& what) {
    const std::string out = folder.name("result.json");
    const ProgramResult r = moelab({"run", file, "--out", out});
    CAPTURE(r.err);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK(r.err.find(what) != std::string::npos);
    CHECK_FALSE(fs::exists(out));
  };
  says(changed("20 GB", "20"), "bad.yaml:4");
  says(changed("20 GB", "20 parsecs"), "unit");
  says(changed("budget: 20 GB", "bugdet: 20 GB"), "did you mean 'budget'");
  says(changed("20 GB", "200 GB"), "more than device");
  says(changed("deepseek-v2-lite", "deepseek-v2-light"), "deepseek-v2-lite");
  says(changed("[zipmoe]", "[zipmo]"), "zipmoe");
  says(changed("[zipmoe]", "[]"), "no system");
  says(changed("name: x", "name: x\nname: y"), "bad.yaml:2");
  says(folder.name("absent.yaml"), "absent.yaml");
  says(folder.file("cut.yaml", "name: [x"), "cut.yaml");
  const std::string no_trace =
      "workload: {trace: " +
      folder.file("t.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)) + "}";
  says(changed("workload: {prompt_tokens: 2, output_tokens: 2}", no_trace), "t.safetensors");
}

TEST_CASE("bad input to the other commands: exit status 2") {
  const Folder folder;
  CHECK(moelab({}).status == 2);
  CHECK(moelab({"runn"}).status == 2);
  CHECK(moelab({"run", "--format", "xml"}).status == 2);
  CHECK(moelab({"run", "--set", "novalue"}).status == 2);
  CHECK(moelab({"run", "orin-budgets"}).err.find("'moelab sweep' runs it") != std::string::npos);
  CHECK(moelab({"run", "--system", "zipmo"}).err.find("zipmoe") != std::string::npos);
  CHECK(moelab({"schedule", folder.file("i.json", "{}")}).status == 2);
  CHECK(moelab({"schedule", folder.file("k.json", kInstance), "--policy", "cache-afinity"})
            .err.find("cache-affinity") != std::string::npos);
  CHECK(moelab({"plan", "zipmoe", folder.file("p.json", "[]")}).status == 2);
  CHECK(moelab({"model", "import", folder.file("c.json", "{\"model_type\": \"bert\"}")}).status == 2);
  CHECK(moelab({"run", "zipmoe-orin", "--out", "/dev/null/no/file"}).status == 2);
  const ProgramResult check = moelab({"check", folder.file("s.yaml", "nam: x\n"), "--format", "json"});
  CHECK(check.status == 2);
  CHECK(Json::parse(check.out)["problems"].size() >= 5);  // the unknown key and every missing one
}

TEST_CASE("a command line with a word that nothing takes: the nearest name, or what there is") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"rum", "zipmoe-orin"}, "moelab: no command 'rum' (did you mean 'run'?)"},
      {{"trace", "statz", "x"}, "moelab trace: no command 'statz' (did you mean 'stats'?)"},
      {{"trace", "import", "cvs", "x"}, "moelab trace import: no command 'cvs' (did you mean 'csv'?)"},
      {{"trace", "import", "xml", "x"}, "moelab trace import: no command 'xml' (known: csv, jsonl, "},
      {{"trace", "hits", "x", "--polcy=lru"},
       "moelab trace hits: no option '--polcy' (did you mean '--policy'?)"},
      {{"trace", "hits", "x", "--policy", "lru", "--capacity", "1", "--fromat", "json"},
       "moelab trace hits: no option '--fromat' (did you mean '--format'?)"},
      {{"trace", "stats", "x", "y"}, "moelab trace stats: 'y' was not expected"},
      {{"advise", "olmoe-1b-7b"},
       "moelab advise: 'olmoe-1b-7b' was not expected (did you mean '--model olmoe-1b-7b'?)"},
      {{"model"}, "moelab model: a command is missing; expected one of import\n"},
      {{"trace"}, "moelab trace: a command is missing; expected one of import, import-requests, "},
      {{"trace", "import"}, "moelab trace import: a command is missing; expected one of csv, "},
  };
  for (const auto& [words, says] : cases) {
    const ProgramResult r = moelab(words);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK_THAT(r.err, Catch::Matchers::StartsWith(says));
  }
  CHECK_THAT(moelab({"trace", "hits", "x"}).err, Catch::Matchers::StartsWith("--policy is required"));
}

TEST_CASE("control characters of a hostile file do not reach the terminal") {
  const Folder folder;
  const ProgramResult r =
      moelab({"trace", "import", "csv", folder.file("t.csv", "t,l,e\n0,0,\x1b[2J\n"), "--token", "t",
              "--layer", "l", "--expert", "e", "--experts", "4", "--out", folder.name("o")});
  CHECK(r.status == 2);
  CHECK(r.err.find('\x1b') == std::string::npos);
  CHECK(r.err.find("t.csv:2:5: ") != std::string::npos);
}

TEST_CASE("control characters of the command line are shown, and not obeyed") {
  for (const char* value : {"9\x7f", "9\x1b[2J", "9\xc2\x9b"}) {
    const ProgramResult r =
        moelab({"load", "x", "--rates", "1", "--slo", "ttft p95 < 1 s", "--share", value});
    CHECK(r.status == 2);
    CHECK(r.err.find("expected a number from 0.01 to 100") != std::string::npos);
    CHECK(r.err.find_first_of("\x7f\x1b") == std::string::npos);
    CHECK(r.err.find("\xc2\x9b") == std::string::npos);
  }
}

TEST_CASE("control characters in names reach the terminal by no command") {
  const Folder folder;
  const std::vector<std::string> named = {"--set", "name=\"evil\\e[2J\\u009b2J\\r\\x7f\""};
  const std::string sweep = folder.file("w.yaml",
                                        "name: \"w\\e[1m\"\nscenario: zipmoe-orin\nsystems: [zipmoe-lru]\n"
                                        "set: {name: \"evil\\e[2J\", workload.requests: 1, "
                                        "workload.output_tokens: 2, workload.prompt_tokens: 2}\n"
                                        "axes: {workload.batch: [1]}\n");
  for (const std::vector<std::string>& words : {with(with(kSmall, named), {"--system", "zipmoe-lru"}),
                                                with({"check", "zipmoe-orin"}, named),
                                                std::vector<std::string>{"check", sweep},
                                                {"sweep", sweep, "--db", folder.name("r.db")}}) {
    const ProgramResult r = moelab(words);
    CAPTURE(words, r.err);
    CHECK(r.status == 0);
    CHECK(r.out.find_first_of("\x1b\r\x7f") == std::string::npos);
    CHECK(r.out.find("\u009b") == std::string::npos);
    if (words[0] == "run") CHECK(r.out.find(R"(\u009b)") != std::string::npos);  // shown as JSON writes it
  }
}

TEST_CASE("pipes are refused by every command that reads a file, and waited for by none") {
  const Folder folder;
  REQUIRE(::mkfifo(folder.name("pipe").c_str(), 0600) == 0);
  for (const char* file : {"pipe", "null"})
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"run"},
                                               {"check"},
                                               {"schedule"},
                                               {"report", "--out", folder.name("o.html")},
                                               {"explain"},
                                               {"compare"},
                                               {"trace", "stats"},
                                               {"results"},
                                               {"model", "import"}}) {
      const std::string path = file == std::string("pipe") ? folder.name(file) : "/dev/null";
      CAPTURE(command, path);
      const ProgramResult r = moelab(with(command, {path}));
      CHECK(r.status == 2);
      CHECK(r.err.find(path) != std::string::npos);
    }
}

TEST_CASE("outputs go to regular files, all or none") {
  const Folder folder;
  const auto run = [&](const std::string& out, const std::string& timeline) {
    return moelab(with(kSmall, {"--system", "zipmoe", "--out", out, "--timeline", timeline}));
  };
  CHECK(run(folder.name("a"), folder.name("a")).status == 2);  // two outputs in one file
  CHECK(run(folder.name("a"), "/dev/null/no/b").status == 2);  // one of them impossible
  CHECK(run("/dev/null", folder.name("b")).status == 2);
  CHECK(run(folder.name("."), folder.name("b")).status == 2);
  CHECK(folder.files() == 0);
  CHECK(fs::is_character_file("/dev/null"));
  // Through a symbolic link: the link stays one, its target gets the result.
  fs::create_symlink(folder.file("target", "old"), folder.name("link"));
  REQUIRE(run(folder.name("link"), folder.name("b")).status == 0);
  CHECK(fs::is_symlink(folder.name("link")));
  std::ifstream target(folder.name("target"));
  CHECK(Json::parse(target)["system"] == "zipmoe");
}

TEST_CASE("a run of one token has no time per output token") {
  const ProgramResult r = moelab({"run", "zipmoe-orin", "--system", "zipmoe", "--set", "workload.requests=1",
                                  "--set", "workload.output_tokens=1", "--format", "json"});
  REQUIRE(r.status == 0);
  CHECK(Json::parse(r.out)["metrics"]["tpot_s"]["p50"].is_null());
}

TEST_CASE("an interrupted run writes nothing") {
  const Folder folder;
  const std::string out = folder.name("result.json");
  const ProgramResult r =
      run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--set", "workload.requests=1000", "--out", out},
                  [](pid_t child) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(700));
                    kill(child, SIGINT);
                  });
  CAPTURE(r.err);
  CHECK(r.status == 130);
  CHECK(folder.files() == 0);
}

TEST_CASE("check: a split that llama.cpp has is accounted for as its log would be") {
  const Folder folder;
  const std::string file = folder.file(
      "split.yaml",
      "name: split\nmodel: gpt-oss-20b\nweights: gguf-mxfp4\nruntime: llama.cpp-cuda\nbudget: 3.95 GB\n"
      "machine: {gpu: rtx-3060-12gb, cpu: i9-14900K, memory: ddr5-6000 x 2}\n"
      "workload: {requests: 1, prompt_tokens: 4000, output_tokens: 96}\nsystems: [llama-cpp, fiddler]\n");
  const std::string out = moelab({"check", file}).out;
  std::smatch found;
  const std::regex line(
      "llama.cpp with -ncmoe 20 for 4096 tokens: model (\\d+) MiB, KV cache (\\d+) MiB, compute buffer "
      "(\\d+) MiB, driver and libraries (\\d+) MiB, in all (\\d+) MiB of the GPU's 12288 MiB");
  INFO(out);
  REQUIRE(std::regex_search(out, found, line));
  const auto number = [&](std::size_t i) { return std::stoi(found[i].str()); };
  // A log with experts of 20 layers on the host (experiments/world/llamacpp_memory.csv, m113) has 2859.92
  // MiB.
  CHECK(std::abs(number(1) - 2859.92) < 30);
  // 12 full layers of 4096 tokens and 12 with a window of 128 and a micro-batch of 512, 2 KiB a token.
  CHECK(number(2) == 12 * (4096 + 768) * 2 / 1024);
  CHECK(std::abs(number(1) + number(2) + number(3) + number(4) - number(5)) <= 2);
  // Fiddler's split is none of llama.cpp's, and a device's profile is no machine that it is started on.
  CHECK(out.find("with -ncmoe") == out.rfind("with -ncmoe"));
  CHECK(moelab({"check", "smoe-deepseek-3080ti"}).out.find("-ncmoe") == std::string::npos);
}

}  // namespace moelab::cli_test
