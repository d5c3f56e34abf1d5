// What people write wrong at first, and what they are told: each is refused in one line that says what to
// write.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
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

TEST_CASE("slips: a cluster for a scenario of one machine is one line that names a scenario with one") {
  const ProgramResult r = run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--set", "cluster=edge-a100-3"});
  check_refusal(r, "zipmoe-orin.yaml (with cluster): is a scenario of one machine");
  CHECK(lines_of(r.err) == 1);
}

TEST_CASE("slips: a number that stands with its source says which key is set") {
  check_refusal(check("overrides.device.memory.total=16 GB"),
                "to set the number alone, add '.value' to the key");
}

TEST_CASE("slips: a key of another kind of file, as 'moelab keys' lists it, leads to the path that works",
          "[plain]") {
  const struct {
    const char *key, *value, *works;
  } slips[] = {{"system.routing.policy", "model", "overrides.system.routing.policy"},
               {"system.threads", "4", "overrides.system.threads"},
               {"routing.policy", "model", "overrides.system.routing.policy"},
               {"threads", "4", "overrides.system.threads"},
               {"device.memory.total.value", "32 GB", "overrides.device.memory.total.value"},
               {"device.ssd.read.rate", "2 GB/s", "overrides.device.ssd.read.rate"},
               {"ssd.read.rate", "2 GB/s", "overrides.device.ssd.read.rate"},
               {"overrides.ssd.read.rate", "2 GB/s", "overrides.device.ssd.read.rate"},
               {"memory.total.value", "32 GB", "overrides.device.memory.total.value"},
               {"cpu.threads.value", "8", "overrides.device.cpu.threads.value"},
               {"gpu.launch.value", "3 us", "overrides.device.gpu.launch.value"},
               {"model.layers", "20", "overrides.model.layers"},
               {"overrides.system.tensor_parallel", "1", "tensor_parallel"},
               {"system.tensor_parallel", "1", "tensor_parallel"},
               {"overrides.system.budget", "24 GB", "budget"},
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

TEST_CASE("slips: a key of a device's profile leads a machine of parts to the part, of --set and of tune",
          "[plain]") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "parts.yaml").string();
  std::ofstream(file)
      << "name: parts\nmodel: olmoe-1b-7b\nmachine: {gpu: rtx-4090-24gb, cpu: ryzen-9-7950x, "
         "memory: ddr5-6000 x 2, ram: 64 GiB, ssd: pcie4-x4}\nsystems: [llama-cpp]\nworkload: "
         "{requests: 1, prompt_tokens: 4, output_tokens: 2}\n";
  const struct {
    const char *key, *value, *works, *part;
  } slips[] = {{"ssd.read.rate", "2 GB/s", "machine.ssd", "pcie5-x4"},
               {"device.ssd.read.rate", "2 GB/s", "machine.ssd", "pcie5-x4"},
               {"ssd", "pcie5-x4", "machine.ssd", "pcie5-x4"},
               {"gpu", "rtx-3090-24gb", "machine.gpu", "rtx-3090-24gb"},
               {"memory.total", "32 GiB", "machine.ram", "32 GiB"}};
  for (const auto& [key, value, works, part] : slips) {
    CAPTURE(key);
    const ProgramResult slip = check(std::string(key) + "=" + value, file);
    const std::string told =
        std::string("a scenario has no such key; expected ") + works + ", as in machine.ssd=pcie4-x4";
    check_refusal(slip, told);
    CHECK(lines_of(slip.err) == 1);
    const ProgramResult mended = check(std::string(works) + "=" + part, file);
    CAPTURE(mended.err);
    CHECK(mended.status == 0);
  }
  check_refusal(check("overrides.device.ssd.read.rate=2 GB/s", file),
                "this machine is put together from parts; expected its parts, as in machine.ssd=pcie4-x4");
  const auto tune = [](const std::string& key, const std::string& scenario) {
    return run_program(MOELAB_PROGRAM, {"tune", key, scenario, "--min", "tpot"});
  };
  check_refusal(tune("ssd.read.rate", file), "a scenario has no such key; expected machine.ssd");
  check_refusal(tune("device.ssd.read.rate", file), "expected its parts, as in machine.ssd=pcie4-x4");
  check_refusal(tune("ssd.read.rate", "zipmoe-orin"),
                "a scenario has no such key; expected overrides.device.ssd.read.rate");
  check_refusal(tune("workload.bathc", "zipmoe-orin"),
                "unknown key 'bathc' in workload (did you mean 'batch'?)");
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
    CHECK(result.status == (budget == "1 GB" ? 1 : 0));
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

TEST_CASE("slips: a table of routing where a trace was expected is told which command imports it") {
  const test::ScratchFolder folder;
  for (const std::string form : {"csv", "jsonl"}) {
    const std::string file = (folder / ("mine." + form)).string();
    std::ofstream(file) << "request,token,layer,expert\n0,0,0,1\n";
    const ProgramResult told = run_program(MOELAB_PROGRAM, {"trace", "stats", file});
    check_refusal(told,
                  "begins as a text does: not a safetensors file; 'moelab trace import " + form + " " + file);
    CHECK_FALSE(contains(told.err, "header's length"));
  }
}

TEST_CASE("slips: check looks at the systems that are named, as run does") {
  const ProgramResult one = run_program(MOELAB_PROGRAM, {"check", "zipmoe-orin", "--system", "zipmoe-lru"});
  REQUIRE(one.status == 0);
  CHECK(contains(one.out, "  zipmoe-lru: "));
  CHECK_FALSE(contains(one.out, "zipmoe-fifo"));
  check_refusal(run_program(MOELAB_PROGRAM, {"check", "zipmoe-orin", "--system", "zipmoe-lur"}),
                "did you mean 'zipmoe-lru'?");
  check_refusal(run_program(MOELAB_PROGRAM, {"check", "orin-budgets", "--system", "zipmoe-lru"}),
                "is of a scenario, and orin-budgets is a sweep");
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

TEST_CASE("slips: overrides that no system of a new list takes say how to run without them") {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"check", "smoe-deepseek-3080ti", "--set", "systems=[llama-cpp]"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  };
  check_refusal(with({}), "to run these systems without the scenario's changes: --set overrides.system={}");
  CHECK(with({"--set", "overrides.system={}"}).status == 0);
}

TEST_CASE("slips: a system that a device cannot run says what the device lacks") {
  check_refusal(check("systems=[llama-cpp]"), "has no GPU with memory of its own");
  check_refusal(check("systems=[prism]"), "places experts on several servers; the scenario has one device");
}

TEST_CASE("slips: a setting without a value says which key has none, once") {
  for (const char* value : {"", "null", "~"}) {
    CAPTURE(value);
    for (const char* key : {"budget", "runtime", "workload.batch", "systems"}) {
      const ProgramResult slip = check(std::string(key) + "=" + value);
      check_refusal(slip, std::string(key) + " has no value; expected a");
      CHECK(lines_of(slip.err) == 1);
    }
  }
}

TEST_CASE("slips: several weights and runtimes of advise between commas are as each with its option") {
  const auto advise = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"advise",        "--model",       "qwen3-30b-a3b", "--gpu",
                                      "rtx-4090-24gb", "--no-policies", "--format",      "json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  };
  const ProgramResult commas = advise({"--runtime", "vllm,llama.cpp-cuda", "--weights", "awq,gguf-q4_k_m"});
  CHECK(commas.status == 0);
  CHECK(commas.out == advise({"--runtime", "vllm", "--runtime", "llama.cpp-cuda", "--weights", "awq",
                              "--weights", "gguf-q4_k_m"})
                          .out);
  for (const char* slip : {"q4_k_m", "q4km"})
    check_refusal(advise({"--weights", slip}),
                  std::string("unknown weight format '") + slip +
                      "' (did you mean 'gguf-q4_k_m'?); `moelab formats` lists them");
}

TEST_CASE("slips: a command line without a command is told three to begin with, which work") {
  const ProgramResult bare = run_program(MOELAB_PROGRAM, {});
  check_refusal(bare, "moelab: a command is missing; 'moelab --help' lists all commands");
  std::size_t commands = 0;
  for (std::size_t at = bare.err.find("\n  moelab "); at != bare.err.npos;
       at = bare.err.find("\n  moelab ", at + 1), ++commands) {
    const std::size_t begin = at + 10, end = bare.err.find("  ", begin);
    std::vector<std::string> words(1);
    for (const char c : bare.err.substr(begin, end - begin))
      c == ' ' ? words.emplace_back() : words.back() += c;
    words.emplace_back("--help");
    CHECK(run_program(MOELAB_PROGRAM, words).status == 0);
  }
  CHECK(commands == 3);
}

TEST_CASE("slips: parts are listed by a word of theirs, and a word of none says the nearest") {
  const auto parts = [](const std::vector<std::string>& asked) {
    std::vector<std::string> words = {"parts", "--format", "json"};
    words.insert(words.end(), asked.begin(), asked.end());
    const ProgramResult listed = run_program(MOELAB_PROGRAM, words);
    CHECK(listed.status == 0);
    return nlohmann::json::parse(listed.out);
  };
  const nlohmann::json all = parts({}), gpus = parts({"GPU"}), one = parts({"gpu", "4090"});
  CHECK(gpus["gpus"] == all["gpus"]);
  CHECK((gpus["cpus"].empty() && gpus["ssds"].empty()));
  std::size_t named = 0;
  for (const nlohmann::json& part : all["gpus"])
    if (part["name"].get<std::string>().find("4090") != std::string::npos) ++named;
  CHECK(named > 0);
  CHECK(one["gpus"].size() == named);
  check_refusal(run_program(MOELAB_PROGRAM, {"parts", "rtx-4090-42gb"}),
                "there is no part 'rtx-4090-42gb' (did you mean 'rtx-4090-24gb'?)");
}

TEST_CASE(
    "slips: policies are listed by a word of theirs or their family's, and a word of none says the nearest") {
  const auto names = [](const std::vector<std::string>& asked) {
    std::vector<std::string> words = {"policies", "--format", "json"};
    words.insert(words.end(), asked.begin(), asked.end());
    const ProgramResult listed = run_program(MOELAB_PROGRAM, words);
    CHECK(listed.status == 0);
    std::vector<std::string> found;
    for (const nlohmann::json& policy : nlohmann::json::parse(listed.out))
      found.push_back(policy["family"].get<std::string>() + " " + policy["name"].get<std::string>());
    return found;
  };
  const std::vector<std::string> all = names({}), lru = names({"cache", "LRU"});
  CHECK(std::count(lru.begin(), lru.end(), "cache lru") == 1);
  CHECK(lru.size() < all.size());
  const auto is_listed = [&](const std::string& name) {
    return std::count(all.begin(), all.end(), name) == 1;
  };
  CHECK(std::all_of(lru.begin(), lru.end(), is_listed));
  const ProgramResult table = run_program(MOELAB_PROGRAM, {"policies", "batching"});
  CHECK(table.out.starts_with("batching\n"));
  CHECK_FALSE(contains(table.out, "\ncache\n"));
  check_refusal(run_program(MOELAB_PROGRAM, {"policies", "seive"}),
                "there is no policy 'seive' (did you mean 'sieve'?); 'moelab policies' lists all");
}

TEST_CASE("slips: a timeline of tokens behind the run's last is refused, and nothing is written") {
  const test::ScratchFolder folder;
  const std::string timeline = (folder / "timeline.json").string(), out = (folder / "result.json").string();
  const auto run = [&](const std::string& tokens, const std::string& executor) {
    return run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                                        "workload.requests=2", "--set", "workload.prompt_tokens=4", "--set",
                                        "workload.output_tokens=3", "--executor", executor, "--timeline",
                                        timeline, "--timeline-tokens", tokens, "--out", out});
  };
  for (const char* executor : {"fast", "simgrid"}) {
    CAPTURE(executor);
    // 2 requests of 3 tokens.
    check_refusal(
        run("7:9", executor),
        "--timeline-tokens 7:9: begins behind the run's last token: it makes 6; expected FIRST of at most 6");
    CHECK_FALSE(std::filesystem::exists(timeline));
    CHECK_FALSE(std::filesystem::exists(out));
  }
  CHECK(run("6:9", "fast").status == 0);
}

}  // namespace moelab::slips_command_test
