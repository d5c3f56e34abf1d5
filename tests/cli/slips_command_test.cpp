// What people write wrong at first, and what they are told: each is refused in one line that says what to
// write.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::slips_command_test {
namespace {

ProgramResult check(const std::string& setting, const std::string& scenario = "zipmoe-orin") {
  return run_program(MOELAB_PROGRAM, {"check", scenario, "--set", setting});
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("slips: parts of a machine under 'device' are sent to 'machine'") {
  const ProgramResult result = check("device={gpu: jetson-orin-nx-16gb, ram: 16 GiB}");
  check_refusal(result, "has parts of a machine; expected 'machine' in its place");
  CHECK(lines_of(result.err) == 1);
}

TEST_CASE("slips: a number that stands with its source says which key is set") {
  check_refusal(check("overrides.device.memory.total=16 GB"),
                "to set the number alone, add '.value' to the key");
}

TEST_CASE("slips: a key of another kind of file, as 'moelab keys' lists it, leads to the path that works") {
  const struct {
    const char *key, *value, *works;
  } slips[] = {{"system.routing.policy", "model", "overrides.system.routing.policy"},
               {"system.threads", "4", "overrides.system.threads"},
               {"routing.policy", "model", "overrides.system.routing.policy"},
               {"threads", "4", "overrides.system.threads"},
               {"device.memory.total.value", "32 GB", "overrides.device.memory.total.value"},
               {"ssd.slowdown_while_decompressing.value", "1",
                "overrides.device.ssd.slowdown_while_decompressing.value"},
               {"cpu.threads.value", "6", "overrides.device.cpu.threads.value"},
               {"model.layers", "20", "overrides.model.layers"},
               {"scenario.budget", "24 GB", "budget"}};
  for (const auto& [key, value, works] : slips) {
    CAPTURE(key);
    const ProgramResult slip = check(std::string(key) + "=" + value);
    check_refusal(slip, std::string("zipmoe-orin.yaml (with ") + key +
                            "): a scenario has no such key; expected " + works + "\n");
    CHECK(lines_of(slip.err) == 1);
    const ProgramResult mended = check(std::string(works) + "=" + value);
    CAPTURE(mended.err);
    CHECK(mended.status == 0);
  }
}

TEST_CASE("slips: tune takes a section of the device as --set's path, and names a key that leads nowhere") {
  const auto tune = [](const std::string& key, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"tune",
                                      key,
                                      "zipmoe-orin",
                                      "--system",
                                      "zipmoe",
                                      "--max",
                                      "tokens_per_s",
                                      "--set",
                                      "workload.output_tokens=2",
                                      "--set",
                                      "workload.requests=1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  };
  check_refusal(
      tune("ssd.red.rate", {}),
      "the scenario has no number at 'overrides.device.ssd.red.rate' to look around; expected --from");
  const ProgramResult found =
      tune("ssd.slowdown_while_decompressing.value", {"--from", "1", "--to", "2", "--step", "1"});
  CAPTURE(found.err);
  CHECK(found.status == 0);
}

TEST_CASE("slips: without a command the first ones are named") {
  const ProgramResult none = run_program(MOELAB_PROGRAM, {});
  CHECK(none.status == 2);
  CHECK(none.out.empty());
  std::istringstream lines(none.err);
  std::size_t commands = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string program, command;
    if (!line.starts_with("  ") || !(words >> program >> command)) continue;
    CAPTURE(line);
    CHECK(program == "moelab");
    CHECK(run_program(MOELAB_PROGRAM, {command, "--help"}).status == 0);
    ++commands;
  }
  CHECK(commands == 3);
}

TEST_CASE("slips: what is no result is called what it is, with the command that reads it") {
  const test::ScratchFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    const std::string path = (folder / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  };
  const std::string page = (folder / "page.html").string();
  const struct {
    const char *name, *text, *said;
  } cases[] = {{"s.yaml", "name: s\nsystems: [a]\n", "looks like a scenario; 'moelab run "},
               {"w.yaml", "name: w\naxes: {budget: [1 GB]}\n", "looks like a sweep; 'moelab sweep "},
               {"o.yaml", "x: 1\n", "looks like YAML"},
               {"t.csv", "a,b\n", "looks like a table (CSV)"},
               {"r.safetensors", "\x01\x02", "looks like a routing trace; 'moelab trace stats "},
               {"m.bin", "GGUF\x03", "'moelab model import "},
               {"p.json", "\x89PNG\r\n", "looks like a picture (PNG)"},
               {"h.json", "<!DOCTYPE html><p>", "looks like a page"}};
  for (const auto& [name, text, said] : cases) {
    CAPTURE(name);
    const std::string path = file(name, text);
    check_refusal(run_program(MOELAB_PROGRAM, {"report", path, "--out", page}), said);
    check_refusal(run_program(MOELAB_PROGRAM, {"explain", path}), said);
  }
  CHECK_FALSE(std::filesystem::exists(page));
}

TEST_CASE("slips: a report is a page, and its file is called so") {
  const test::ScratchFolder folder;
  const std::string result = (folder / "r.json").string();
  run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--system", "zipmoe", "--out", result, "--set",
                               "workload.requests=1", "--set", "workload.prompt_tokens=2", "--set",
                               "workload.output_tokens=3", "--timeline", (folder / "t.json").string()});
  for (const char* name : {"page.txt", "page", "page.json"}) {
    const std::string out = (folder / name).string();
    check_refusal(run_program(MOELAB_PROGRAM, {"report", result, "--out", out}), "ends in .html");
    CHECK_FALSE(std::filesystem::exists(out));
  }
  CHECK(run_program(MOELAB_PROGRAM, {"report", result, "--out", (folder / "page.HTML").string()}).status ==
        0);

  auto newer = nlohmann::json::parse(test::read_bytes(result));
  (newer.is_array() ? newer[0] : newer)["result_format"] = 99;
  const std::string late = (folder / "late.json").string();
  std::ofstream(late) << newer.dump();
  for (const auto& command :
       {std::vector<std::string>{"report", late, "--out", (folder / "late.html").string()},
        std::vector<std::string>{"explain", late}})
    check_refusal(run_program(MOELAB_PROGRAM, command),
                  "result_format 99, of a newer moelab; this one reads 2");
}

TEST_CASE("slips: a timeline of tokens that no run makes is said to be empty") {
  const test::ScratchFolder folder;
  const auto run = [&](const std::string& tokens) {
    return run_program(MOELAB_PROGRAM,
                       {"run", "zipmoe-orin", "--system", "zipmoe", "--set", "workload.requests=1", "--set",
                        "workload.prompt_tokens=2", "--set", "workload.output_tokens=3", "--timeline",
                        (folder / "t.json").string(), "--timeline-tokens", tokens});
  };
  CHECK(contains(run("4:9").out, "shows no pass: a run makes 3 tokens, and --timeline-tokens asks for 4:9"));
  CHECK(contains(run("3:9").out, "timeline (tokens 3:9): "));
}

TEST_CASE("slips: a file's 'system' with changes in it is sent to its overrides") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "slip.yaml").string();
  std::ofstream(file) << "name: slip\nmodel: deepseek-v2-lite\ndevice: jetson-agx-orin-64gb\nbudget: 20 GB\n"
                         "system: {threads: 4}\nsystems: [zipmoe]\nworkload: {requests: 1, prompt_tokens: 4, "
                         "output_tokens: 2}\n";
  check_refusal(
      run_program(MOELAB_PROGRAM, {"check", file}),
      "slip.yaml:5:1: 'system' is no key of a scenario; what changes its systems stands under 'overrides': "
      "expected overrides: {system: ...}");
}

TEST_CASE("slips: another model under a scenario's law is said, and 'own' takes the model's") {
  const auto run = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run",   "smoe-deepseek-3080ti", "--system", "hybrimoe",
                                      "--set", "model=olmoe-1b-7b"};
    for (const char* small : {"workload.requests=1", "workload.prompt_tokens=4", "workload.output_tokens=3"})
      words.insert(words.end(), {"--set", small});
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  };
  const ProgramResult kept = run({}), own = run({"--set", "workload.law=own"});
  CHECK(contains(kept.out, "--set workload.law=own draws it by that of 'olmoe-1b-7b'"));
  REQUIRE(own.status == 0);
  CHECK_FALSE(contains(own.out, "workload.law=own draws"));
  CHECK(contains(own.out, "routing: law of this model"));
  CHECK_FALSE(contains(kept.out, "routing: law of this model"));
}

TEST_CASE("slips: a model is not imported over what it is read from") {
  const test::ScratchFolder folder;
  const std::string config = (folder / "config.json").string();
  const std::string text =
      R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 96, "vocab_size": 100})";
  std::ofstream(config) << text;
  for (const std::string& from : {(folder / "").string(), config})
    check_refusal(run_program(MOELAB_PROGRAM, {"model", "import", from, "--out", config}), "is an input");
  CHECK(test::read_bytes(config) == text);
  const std::string model = (folder / "model.yaml").string();
  CHECK(run_program(MOELAB_PROGRAM, {"model", "import", config, "--out", model}).out ==
        "model: " + model + "\n");
  CHECK(test::read_bytes(model) == run_program(MOELAB_PROGRAM, {"model", "import", config}).out);
}

TEST_CASE("slips: a budget that is too small is said in check's first line") {
  const auto first_line = [](const std::string& budget) {
    const ProgramResult result = check("budget=" + budget);
    CHECK(result.status == 0);
    return result.out.substr(0, result.out.find('\n'));
  };
  CHECK(contains(first_line("1 GB"), "valid, but the budget is too small for all systems. "));
  // Systems whose memory plan needs more than 2.8 GB before a single expert is cached.
  const ProgramResult plans =
      run_program(MOELAB_PROGRAM, {"check", "zipmoe-orin", "--set", "budget=2.8 GB", "--format", "json"});
  const nlohmann::json plan = nlohmann::json::parse(plans.out);
  int lacking = 0;
  for (const auto& system : plan["systems"]) {
    double needed = 0;
    for (const char* item : {"non_expert", "kv_cache", "activations", "staging", "prefetch"})
      needed += system["memory_bytes"][item].get<double>();
    lacking += needed > 2.8e9 ? 1 : 0;
  }
  REQUIRE((lacking > 0 && lacking < 13));
  CHECK(contains(first_line("2.8 GB"),
                 "valid, but the budget is too small for " + std::to_string(lacking) + " of 13 systems. "));
  CHECK(contains(first_line("20 GB"), "zipmoe-orin: valid. "));
}

TEST_CASE("slips: what is wrong of every system is one line") {
  const ProgramResult result = check("weights=gguf-q4_k_m");
  check_refusal(result, "compresses BF16 weights");
  CHECK(lines_of(result.err) == 1);
  CHECK(contains(result.err, "(the same of zipmoe-warm-plan:"));
}

TEST_CASE("slips: a policy without pools in the place of one that has them is sent to compare") {
  const ProgramResult result = check("overrides.system.cache.policy=sieve");
  check_refusal(result, "moelab compare SCENARIO --system 'zipmoe-fifo-order' --cache sieve");
  // A name that is none says nothing of pools.
  CHECK_FALSE(contains(check("overrides.system.cache.policy=seive").err, "pools to share out"));
}

TEST_CASE(
    "slips: a tab, a device with a slip of a unit, metrics as people write them, foreign request logs") {
  const test::ScratchFolder folder;
  const std::string system = (folder / "s.yaml").string(), device = (folder / "d.yaml").string();
  std::ofstream(system) << "name: a\nweights: whole\ncache:\n\tpolicy: lru\n";
  check_refusal(check("systems=[" + system + "]"), "a line is indented by a tab");
  std::string profile = run_program(MOELAB_PROGRAM, {"show", "jetson-agx-orin-64gb"}).out;
  const std::string rate = "latency: 76 us, rate: 3.5 GB/s";
  REQUIRE(contains(profile, rate));
  const auto spoilt = [&](const std::string& by) {
    std::string text = profile;
    std::ofstream(device) << text.replace(text.find(rate), rate.size(), by);
    return check("device=" + device);
  };
  check_refusal(spoilt("latency: 76 us, rate: 3500 GB/s"), "faster than any array of SSDs");
  check_refusal(spoilt("latency: 76 ms, rate: 3.5 GB/s"), "longer than any disk");
  CHECK(spoilt(rate).status == 0);
  const ProgramResult unitless = spoilt("latency: 76 us, rate: 3.5");
  check_refusal(unitless, "has no unit; expected a rate with a unit");
  CHECK_FALSE(contains(unitless.err, "longer than any disk"));  // that follows from the same slip
  check_refusal(run_program(MOELAB_PROGRAM, {"tune", "budget", "zipmoe-orin", "--system", "zipmoe-lru",
                                             "--for", "tokens/s > 10"}),
                "did you mean 'tokens_per_s'?");
  const std::string azure = (folder / "azure.csv").string();
  std::ofstream(azure) << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n";
  check_refusal(check("workload={batch: 4, request_log: " + azure + "}"), "trace import-requests");
  check_refusal(check("workload.request_log=" + azure), "workload=\"{batch: 4, request_log: FILE}\"");
}

TEST_CASE("slips: results in the place of a scenario are named as such, and nothing else is said of them") {
  const test::ScratchFolder folder;
  const std::string one = (folder / "one.json").string(), both = (folder / "both.json").string();
  for (const auto& [file, systems] : std::map<std::string, std::vector<std::string>>{
           {one, {"--system", "zipmoe-lru"}}, {both, {"--system", "zipmoe-lru", "--system", "zipmoe"}}}) {
    std::vector<std::string> run{"run",   "zipmoe-orin",
                                 "--set", "workload={requests: 1, prompt_tokens: 4, output_tokens: 2}",
                                 "--out", file};
    run.insert(run.end(), systems.begin(), systems.end());
    REQUIRE(run_program(MOELAB_PROGRAM, run).status == 0);
    for (const char* command : {"run", "check"}) {
      const ProgramResult result = run_program(MOELAB_PROGRAM, {command, file});
      CAPTURE(command);
      check_refusal(result, "holds results of 'moelab run'; 'moelab explain " + file);
      CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    }
  }
}

TEST_CASE("slips: systems under the key 'system' are refused, whatever stands there") {
  for (const char* value : {"system=zipmoe-lru", "system=[zipmoe-lru]", "system={threads: 2}"})
    check_refusal(check(value), "'system'");
}

}  // namespace moelab::slips_command_test
