// What `moelab run` says in sentences, held against its own figures computed anew, and its Markdown.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::run_answer_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr int kNothingFits = 1;

ProgramResult run(const Words& more, int status = 0) {
  Words words = {
      "run", "zipmoe-orin", "--set", "workload.prompt_tokens=4", "--set", "workload.output_tokens=6"};
  words.insert(words.end(), more.begin(), more.end());
  ProgramResult result = run_program(MOELAB_PROGRAM, words);
  CAPTURE(result.err);
  REQUIRE(result.status == status);
  return result;
}

Json results(Words more) {
  more.insert(more.end(), {"--format", "json"});
  return Json::parse(run(more).out);
}

const Words kThree = {"--system", "zipmoe-lru", "--system", "zipmoe-belady", "--system", "moe-infinity"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Half of the 95 % interval of the mean of four values, by Student's t of three degrees of freedom: 3.182
/// (NIST/SEMATECH, table 1.3.6.7.2).
std::pair<double, double> mean_and_half_width(const std::vector<double>& four) {
  REQUIRE(four.size() == 4);
  double mean = 0, squares = 0;
  for (const double value : four) mean += value / 4;
  for (const double value : four) squares += (value - mean) * (value - mean);
  return {mean, 3.182 * std::sqrt(squares / 3 / 4)};
}

}  // namespace

TEST_CASE("run's answer: the fastest rival, never the one that knows the future; shares of its causes") {
  const Json all = results(with(kThree, {"--set", "workload.requests=4"}));
  const Json& answer = all[0]["answer"];
  for (const Json& result : all) CHECK(result["answer"] == answer);
  std::map<std::string, const Json*> by_name;
  for (const Json& result : all) by_name[result["system"]] = &result;
  const auto tpot = [&](const char* system) {
    return (*by_name.at(system))["metrics"]["tpot_s"]["mean"].get<double>();
  };
  REQUIRE(tpot("zipmoe-belady") <= tpot("zipmoe-lru"));  // else this says nothing
  REQUIRE(tpot("zipmoe-lru") < tpot("moe-infinity"));
  CHECK(answer["fastest"] == "zipmoe-lru");
  CHECK(answer["judged_by"] == "tpot_s");
  REQUIRE(answer["systems"].size() == 2);
  CHECK(answer["systems"][1]["system"] == "moe-infinity");
  CHECK(answer["systems"][1]["seconds"].get<double>() == Approx(tpot("moe-infinity")));
  REQUIRE(answer["bounds"].size() == 1);
  CHECK(answer["bounds"][0]["system"] == "zipmoe-belady");
  const Json& stall = (*by_name.at("zipmoe-lru"))["decode_stall_s"];  // as TPOT is
  double most = 0, sum = 0;
  std::string cause;
  for (const auto& [name, seconds] : stall.items()) {
    sum += seconds.get<double>();
    if (seconds > most) most = seconds, cause = name;
  }
  CHECK(answer["causes"][0]["cause"] == cause);
  CHECK(answer["causes"][0]["share"].get<double>() == Approx(most / sum).epsilon(1e-6));
  CHECK(contains(answer["text"], "zipmoe-lru is the fastest of 2 rivals: "));
  CHECK(contains(answer["text"], "zipmoe-belady, which knows the future, is no rival"));
  CHECK(contains(answer["text"], "The seed was not varied"));
  // Its SSD's curve is derived, its page cache's and its codec's figures are papers': the profile's own
  // words.
  CHECK(answer["least_certain"]["kind"] == "derived");
}

TEST_CASE("run's answer: of sums over GPUs it names those that the run had") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "node.yaml").string();
  std::ofstream(file)
      << "name: node\nmodel: qwen3-30b-a3b\nmachine: {gpu: rtx-4090-24gb, gpus: 8, cpu: epyc-9654}\n"
         "runtime: vllm\ntensor_parallel: 4\nworkload: {batch: 1, prompt_tokens: 4096, "
         "output_tokens: 2, requests: 1}\nsystems: [vllm]\n";
  const ProgramResult result = run_program(MOELAB_PROGRAM, {"run", file});
  CAPTURE(result.out, result.err);
  CHECK(contains(result.out, "gpu.node.all_reduce, 4 GPUs (derived)"));
}

TEST_CASE("run's answer: an oracle of misses that is slower is said to be so") {
  const Json all = results({"--system", "zipmoe-belady", "--system", "zipmoe-warm-plan", "--set",
                            "machine={gpu: jetson-orin-nx-16gb, ram: 16 GiB, ssd: sata}", "--set",
                            "budget=4 GB", "--set", "workload.requests=2", "--set",
                            "workload.prompt_tokens=64", "--set", "workload.output_tokens=64"});
  std::map<std::string, double> tpot;
  for (const Json& result : all) tpot[result["system"]] = result["metrics"]["tpot_s"]["mean"];
  REQUIRE(tpot.at("zipmoe-belady") > tpot.at("zipmoe-warm-plan"));  // whose pools hold more, compressed
  const std::string slower = "It misses least of the caches that load as it does";
  CHECK(contains(all[0]["answer"]["text"], slower));
  CHECK_FALSE(contains(results(kThree)[0]["answer"]["text"], slower));
}

TEST_CASE("run's answer: the difference of two systems request by request is that of the requests' times") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "deeper/requests.jsonl").string();  // the folder is made
  const Json all = results(with(kThree, {"--set", "workload.requests=4", "--requests", file}));
  std::map<std::string, std::map<int, double>> tpot;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const Json request = Json::parse(line);
    const double first = request["first_token_s"], end = request["end_s"];
    tpot[request["system"]][request["request"]] = (end - first) / 5;  // six tokens
  }
  std::vector<double> apart;
  for (const auto& [number, seconds] : tpot["zipmoe-lru"])
    apart.push_back(tpot["moe-infinity"].at(number) - seconds);
  const auto [mean, half_width] = mean_and_half_width(apart);
  const Json& difference = all[0]["answer"]["difference"];
  CHECK(difference["over"] == "requests");
  CHECK(difference["pairs"] == 4);
  CHECK(difference["mean_s"].get<double>() == Approx(mean));
  CHECK(difference["half_width_s"].get<double>() == Approx(half_width));
  CHECK(all[0]["answer"]["noise"] == (std::abs(mean) > half_width ? "more_than_noise" : "may_be_noise"));
}

TEST_CASE("run's answer: with seeds, the difference seed by seed is that of runs of each seed") {
  const Words two = {"--system", "zipmoe-lru", "--system", "moe-infinity", "--set", "workload.requests=1"};
  const Json all = results(with(two, {"--seeds", "4"}));
  std::vector<double> apart;
  double lru = 0;
  for (const char* seed : {"1", "2", "3", "4"}) {
    const Json of = results(with(two, {"--set", std::string("seed=") + seed}));
    const double first = of[0]["metrics"]["tpot_s"]["mean"], second = of[1]["metrics"]["tpot_s"]["mean"];
    apart.push_back(second - first);
    lru += first / 4;
    if (std::string(seed) == "1") CHECK(of[0]["metrics"] == all[0]["metrics"]);  // tables are of the first
  }
  const auto [mean, half_width] = mean_and_half_width(apart);
  const Json& answer = all[0]["answer"];
  CHECK(answer["seeds"] == 4);
  CHECK(answer["systems"][0]["seconds"].get<double>() == Approx(lru));
  CHECK(answer["difference"]["over"] == "seeds");
  CHECK(answer["difference"]["mean_s"].get<double>() == Approx(mean));
  CHECK(answer["difference"]["half_width_s"].get<double>() == Approx(half_width));
}

TEST_CASE("run --seeds: the first table has means over seeds and their range, and says of which it is") {
  const Words one = {"--system", "zipmoe-lru", "--set", "workload.requests=1"};
  double sum = 0, least = 1e9, most = 0;
  for (const char* seed : {"1", "2", "3"}) {
    const double tpot =
        results(with(one, {"--set", std::string("seed=") + seed}))["metrics"]["tpot_s"]["mean"];
    sum += 1e3 * tpot;
    least = std::min(least, 1e3 * tpot);
    most = std::max(most, 1e3 * tpot);
  }
  const std::string out = run(with(one, {"--seeds", "3"})).out;
  CAPTURE(out);
  CHECK(contains(
      out, "first table: means over seeds 1 to 3, and the least and the most; others: of seed 1 alone"));
  std::istringstream lines(out);
  std::vector<std::string> found(3);
  for (std::string line; std::getline(lines, line);)
    for (const auto& [row, place] :
         {std::pair("zipmoe-lru  ", 0), std::pair("  least of 3 seeds  ", 1), std::pair("  most  ", 2)})
      if (line.starts_with(row) && found[static_cast<std::size_t>(place)].empty())
        found[static_cast<std::size_t>(place)] = line;
  // "name TTFT TPOT ...": the second number behind the name.
  const auto tpot_of = [](const std::string& line, const std::string& name) {
    std::istringstream words(line.substr(name.size()));
    double ttft = 0, tpot = 0;
    words >> ttft >> tpot;
    return tpot;
  };
  CHECK(tpot_of(found[0], "zipmoe-lru") == Approx(sum / 3).margin(0.06));
  CHECK(tpot_of(found[1], "  least of 3 seeds") == Approx(least).margin(0.06));
  CHECK(tpot_of(found[2], "  most") == Approx(most).margin(0.06));
  CHECK_FALSE(contains(run(one).out, "first table"));
}

TEST_CASE("run: the first request's TTFT stands beside the later ones' where they differ") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "requests.jsonl").string();
  const Words asked = {"--system", "zipmoe-lru", "--set", "workload.requests=4", "--requests", file};
  const Json result = results(asked);
  std::vector<double> ttft;
  std::istringstream lines(test::read_bytes(file));
  for (std::string line; std::getline(lines, line);) {
    const Json request = Json::parse(line);
    ttft.push_back(request["first_token_s"].get<double>() - request["arrival_s"].get<double>());
  }
  REQUIRE(ttft.size() == 4);
  const Json& first = result["answer"]["first_requests"][0];
  CHECK(first["ttft_s"].get<double>() == Approx(ttft[0]));
  CHECK(first["later_ttft_s"].get<double>() == Approx((ttft[1] + ttft[2] + ttft[3]) / 3));
  CHECK(first["later_requests"] == 3);
  CHECK(result["metrics"]["ttft_s"].get<double>() == Approx((ttft[0] + ttft[1] + ttft[2] + ttft[3]) / 4));
  const double apart = std::abs(first["ttft_s"].get<double>() / first["later_ttft_s"].get<double>() - 1);
  REQUIRE(apart > 0.1);
  CHECK(contains(run(asked).out, "TTFT of zipmoe-lru: "));
  CHECK_FALSE(contains(run(with(asked, {"--set", "workload.requests=1"})).out, "TTFT of zipmoe-lru: "));
}

TEST_CASE("run: systems that do not fit on a cluster are told beside those that do, as on one machine",
          "[plain]") {
  // Mixtral's expert is 3 x 4096 x 14336 weights in 2 bytes, 352.3 MB; MoE-Infinity has 2 of a token and 8
  // that it prefetches in 6 GB, beside other weights; systems that place experts have 6 at most.
  const Words on_six = {"prism-offload", "--set", "budget=6 GB", "--executor", "fast"};
  const ProgramResult some = run_program(MOELAB_PROGRAM, with({"run"}, on_six));
  CAPTURE(some.out, some.err);
  CHECK(some.status == 0);
  CHECK(contains(some.out, "system 'moe-infinity-edge' does not fit: it needs "));
  CHECK(contains(some.out, " more; server 'server1': budget 6 GB is too small for system "));
  CHECK(contains(some.out, "\nprism-offload "));
  CHECK_FALSE(contains(some.out, "\nmoe-infinity-edge "));  // in no table
  const Json all =
      Json::parse(run_program(MOELAB_PROGRAM, with(with({"run"}, on_six), {"--format", "json"})).out);
  for (const Json& result : all) {
    const bool lacks = result.contains("memory_bytes");
    CHECK(lacks == (result["system"].get<std::string>().find("moe-infinity") == 0));
    if (lacks) {
      const Json& m = result["memory_bytes"];
      double needed = 0;
      for (const char* part : {"non_expert", "kv_cache", "activations", "staging", "prefetch"})
        needed += m[part].get<double>();
      CHECK(m["staging"].get<double>() + m["prefetch"].get<double>() == 10 * 3.0 * 4096 * 14336 * 2);
      CHECK(m["shortfall"].get<double>() == Approx(needed - 6e9));
    } else
      CHECK(result["cluster"]["servers"].size() == 3);
  }
  const ProgramResult check = run_program(MOELAB_PROGRAM, {"check", "prism-offload", "--set", "budget=6 GB"});
  CHECK(check.status == 0);
  CHECK(contains(check.out, ": valid, but the budget is too small for 2 of 5 systems. "));
  CHECK(contains(check.out, "  moe-infinity-edge: does not fit: server 'server1': budget 6 GB"));
}

namespace {

/// Three servers with 20 requests each, of which one leaves, and returns where `returns_s` says when.
Words with_outage(const std::string& returns_s) {
  const std::string back =
      returns_s.empty() ? "" : ", {at: " + returns_s + " s, event: returns, server: server2}";
  return {
      "run",        "prism-deepseek-bigbench",
      "--system",   "prism",
      "--executor", "fast",
      "--set",      "workload.servers=[{tasks: {abstract-narrative: 1}, requests: 20, arrivals_per_s: 0.1}]",
      "--set",      "faults={events: [{at: 50 s, event: leaves, server: server2}" + back + "]}"};
}

}  // namespace

TEST_CASE("run: requests that fail on a cluster are told first, and how many were answered", "[plain]") {
  const ProgramResult shown = run_program(MOELAB_PROGRAM, with_outage(""));
  CAPTURE(shown.out, shown.err);
  const Json result =
      Json::parse(run_program(MOELAB_PROGRAM, with(with_outage(""), {"--format", "json"})).out);
  std::uint64_t answered = 0, failed = 0;
  for (const Json& server : result["cluster"]["servers"]) {
    answered += server["requests"].get<std::uint64_t>();
    failed += server["failed_requests"].get<std::uint64_t>();
  }
  REQUIRE(failed > 0);
  CHECK(answered + failed == 60);
  const Json& metrics = result["metrics"];
  CHECK(metrics["requests"] == answered);
  CHECK(metrics["failed_requests"] == failed);
  CHECK(metrics["asked_requests"] == 60);
  CHECK(contains(shown.out, ", " + std::to_string(answered) + " of 60 request(s), "));
  const std::string text = result["answer"]["text"];
  CHECK(text.starts_with("Of 60 requests " + std::to_string(failed) + " failed in prism. prism takes "));
  CHECK(contains(text, " s a request that it answers."));
}

TEST_CASE("run: what bounds a cluster whose server was away is waiting for its return", "[plain]") {
  const test::ScratchFolder folder;
  const std::string file = (folder / "requests.jsonl").string();
  const Words asked = with(with_outage("250"), {"--requests", file});
  const Json result = Json::parse(run_program(MOELAB_PROGRAM, with(asked, {"--format", "json"})).out);
  double away = 0, all = 0;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const Json request = Json::parse(line);
    if (request["end_s"].is_null()) continue;  // under way when its server left
    const double came = request["arrival_s"], began = request["started_s"], end = request["end_s"];
    all += end - came;
    if (request["server"] == "server2") away += std::max(0.0, std::min(began, 250.0) - std::max(came, 50.0));
  }
  REQUIRE(away > 0.5 * all);
  const Json& causes = result["answer"]["causes"];
  CHECK(causes[0]["cause"] == "server_away");
  CHECK(causes[0]["share"].get<double>() == Approx(away / all));
  CHECK(result["latency_s"]["server_away"].get<double>() == Approx(away));
  double sum = 0;
  for (const auto& [cause, seconds] : result["latency_s"].items()) sum += seconds.get<double>();
  CHECK(sum == Approx(all));
  const std::string shown = run_program(MOELAB_PROGRAM, asked).out;
  CHECK(contains(shown, "What bounds prism: waiting for a server that is away, "));
  CHECK(contains(shown, "latency of requests, % of it  server away  queue"));
}

TEST_CASE("run: of a cluster on which nothing fits the status is 1", "[plain]") {
  for (const char* executor : {"simgrid", "fast"}) {
    const ProgramResult none =
        run_program(MOELAB_PROGRAM, {"run", "prism-offload", "--set", "budget=1 GB", "--executor", executor});
    CAPTURE(none.out, none.err);
    CHECK(none.status == kNothingFits);
    CHECK(contains(none.err, "moelab: nothing fits: "));
  }
}

TEST_CASE("run: what was set stands in the heading, and systems that it changes are marked") {
  const Words of = {"--set", "workload.requests=1", "--system", "zipmoe-lru", "--system", "moe-infinity"};
  const std::string plain = run(of).out;
  CHECK(contains(
      plain, "set for this run: workload.prompt_tokens=4, workload.output_tokens=6, workload.requests=1\n"));
  CHECK_FALSE(contains(plain, "*"));
  // Threads are of systems with compressed weights: MoE-Infinity's are whole, and it stays what it is.
  const std::string changed = run(with(of, {"--set", "overrides.system.threads=2"})).out;
  CHECK(contains(changed, "overrides.system.threads=2\n"));
  CHECK(contains(changed, "\nzipmoe-lru* "));
  CHECK(contains(changed, "\nmoe-infinity "));
  CHECK(contains(changed, "*: not the system of that name"));
  // The value that it has already changes nothing.
  CHECK_FALSE(
      contains(run(with(of, {"--set", "overrides.system.cache.policy=lru", "--system", "zipmoe-lru"})).out,
               "\nzipmoe-lru* "));
}

TEST_CASE("run: Markdown has the same cells as the table, escaped, and no empty column") {
  const Words of = {"--set", "workload.requests=1", "--system", "zipmoe-lru", "--set", "name=a|b"};
  const std::string markdown = run(with(of, {"--format", "markdown"})).out;
  CHECK(contains(markdown, "a\\|b: "));
  std::istringstream lines(markdown);
  std::size_t tables = 0, columns = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) {
      columns = 0;
      continue;
    }
    const auto cells = static_cast<std::size_t>(std::count(line.begin(), line.end(), '|'));
    if (columns == 0) ++tables, columns = cells;
    CHECK(cells == columns);
  }
  CHECK(tables >= 3);
  const std::string plain = run(of).out;
  std::istringstream words(plain);
  for (std::string word; words >> word;)
    if (word.find_first_not_of("0123456789.") == word.npos) CHECK(contains(markdown, word));
  // A run of one token has no time per output token, and so no columns of it.
  const std::string one = run(with(of, {"--set", "workload.output_tokens=1"})).out;
  CHECK_FALSE(contains(one, "TPOT ms"));
  CHECK(contains(one, "TTFT s"));
}

TEST_CASE("run: an output's folders are made as it is written, and none before") {
  const test::ScratchFolder folder;
  const std::string out = (folder / "new/folders/a.json").string();
  check_refusal(run_program(MOELAB_PROGRAM, {"run", "zipmoe-orinn", "--out", out}), "zipmoe-orin");
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  run({"--system", "zipmoe", "--set", "workload.requests=1", "--out", out});
  std::ifstream written(out);
  CHECK(Json::parse(written)["system"] == "zipmoe");
  std::ofstream(folder / "flat") << "";
  check_refusal(
      run_program(MOELAB_PROGRAM, {"run", "zipmoe-orin", "--out", (folder / "flat/a.json").string()}),
      "flat is no folder");
}

TEST_CASE("run's answer: seeds that are not, and a system that does not fit") {
  const auto status = [](const Words& more) {
    Words words = {"run", "zipmoe-orin"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(MOELAB_PROGRAM, words);
  };
  CHECK(status({"--seeds", "0"}).status == 2);
  check_refusal(status({"--seeds", "3", "--set", "seed=9223372036854775806"}), "there are not so many");
  const Json none =
      Json::parse(run({"--system", "zipmoe", "--set", "budget=2 GB", "--format", "json"}, kNothingFits).out);
  CHECK(none["answer"]["fastest"].is_null());
  CHECK(none["answer"]["text"] == "No system could be run.\n");
}

}  // namespace moelab::run_answer_test
