// Prompts that share their beginning, from a workload to what a run says of them: hit rates in closed form,
// what conversations find of themselves, and a public log against a count of its own.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/common_parts.hpp"
#include "sim/serving/request_source.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "traces/import/request_import.hpp"
#include "traces/request_cut.hpp"
#include "traces/request_parts.hpp"

namespace moelab::shared_prefix_test {

using test::ScratchFolder;

namespace {

Scenario scenario_of(const std::string& workload, const std::string& policy = "vllm-v1") {
  return load_scenario(
      "chat-and-code",
      {{"workload", workload}, {"overrides.system.batching", "{policy: " + policy + ", max_tokens: 2048}"}});
}
RunResult run(const Scenario& s) {
  return run_system(s, s.systems.front(), scenario_trace(s));
}

std::map<std::uint32_t, RequestTimes> by_number(const RunResult& r) {
  std::map<std::uint32_t, RequestTimes> all;
  for (const RequestTimes& q : r.metrics.requests) all[q.number] = q;
  return all;
}

constexpr std::uint32_t kBlock = 16;  // of the runtime

/// Every token that requests need is found or runs.
void check_rows(const RunResult& r) {
  std::uint64_t tokens = 0, cached = 0;
  for (const RequestTimes& q : r.metrics.requests) {
    tokens += q.prompt_tokens + q.output_tokens - 1;
    cached += q.cached_tokens;
  }
  CHECK(r.metrics.serving.rows + cached == tokens + r.metrics.serving.recomputed);
}

}  // namespace

TEST_CASE("a prefix that all prompts share is found by all but the first, in whole blocks") {
  for (const std::uint32_t shared : {0u, 5u, 100u, 1200u}) {
    const std::string workload =
        "{batch: 64, requests: 40, arrivals_per_s: 20, prompt_tokens: 300, output_tokens: 5, "
        "shared_prefix: " +
        std::to_string(shared) + "}";
    const RunResult with = run(scenario_of(workload)),
                    without = run(scenario_of(workload, "vllm-v1, prefix_cache: 0"));
    const std::uint32_t found = shared / kBlock * kBlock, prompt = 300 + shared;
    INFO(shared << " tokens");
    for (const auto& [number, q] : by_number(with)) {
      CHECK(q.prompt_tokens == prompt);
      CHECK(q.cached_tokens == (number == 0 ? 0 : found));
    }
    CHECK(with.counted.prefixes == (shared > 0));
    CHECK(prefix_hit_rate(with.metrics).value() == Approx(39.0 * found / (40.0 * prompt)));
    CHECK(prefix_hit_rate(without.metrics) == std::optional(0.0));
    check_rows(with);
    check_rows(without);
    if (shared == 1200) CHECK(mean(with.metrics.ttft_s) < mean(without.metrics.ttft_s));
  }
}

TEST_CASE("a policy that looks for nothing runs prompts whole, and says that it found none") {
  const RunResult r =
      run(scenario_of("{batch: 8, requests: 6, prompt_tokens: 30, output_tokens: 3, shared_prefix: 64}",
                      "continuous, chunked: 1"));
  const auto json = nlohmann::json::parse(results_json({r}));
  CHECK(json["metrics"]["prefix_hit_rate"] == 0);
  check_rows(r);
}

TEST_CASE("each class has a prefix of its own, and results say what each finds") {
  const RunResult r = run(scenario_of(
      "{batch: 64, requests: 200, arrivals_per_s: 20, classes: [{name: a, share: 0.5, prompt_tokens: 100, "
      "output_tokens: 2, shared_prefix: 160}, {name: b, share: 0.25, prompt_tokens: 100, output_tokens: 2, "
      "shared_prefix: 320}, {name: c, share: 0.25, prompt_tokens: 400, output_tokens: 2}]}"));
  std::array<double, 3> cached{}, prompts{};
  std::set<std::uint16_t> begun;
  for (const auto& [number, q] : by_number(r)) {
    const std::uint32_t shared = std::array{160, 320, 0}[q.of_class];
    CHECK(q.cached_tokens == (begun.insert(q.of_class).second ? 0 : shared));
    cached[q.of_class] += q.cached_tokens;
    prompts[q.of_class] += q.prompt_tokens;
  }
  const auto json = nlohmann::json::parse(results_json({r}));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(json["classes"][i]["prefix_hit_rate"] == Approx(cached[i] / prompts[i]));
  CHECK(json["metrics"]["prefix_hit_rate"] ==
        Approx((cached[0] + cached[1] + cached[2]) / (prompts[0] + prompts[1] + prompts[2])));
}

TEST_CASE("a result says nothing of prefixes where the workload says nothing of them") {
  const RunResult r = run(scenario_of("{batch: 8, requests: 6, prompt_tokens: 30, output_tokens: 3}"));
  CHECK_FALSE(nlohmann::json::parse(results_json({r}))["metrics"].contains("prefix_hit_rate"));
  CHECK(requests_csv({r}).find("cached_tokens") == std::string::npos);
}

TEST_CASE(
    "a turn of a conversation has all before it as its prompt, comes a think time after the answer, and "
    "finds it") {
  const Scenario s = scenario_of(
      "{batch: 64, requests: 200, arrivals_per_s: 4, prompt_tokens: [20, 200], output_tokens: [2, 60], "
      "shared_prefix: 100, conversations: {turns: [1, 6], think_time: 3 s, most: 800}}");
  const RoutingTrace trace = scenario_trace(s);
  const std::vector<ServedRequest> asked = served_requests(s, trace);
  const RunResult r = run(s);
  const auto ran = by_number(r);
  REQUIRE(ran.size() == 200);
  std::size_t turns = 0;
  for (std::uint32_t i = 0; i + 1 < asked.size(); ++i) {
    const ServedRequest &before = asked[i], &next = asked[i + 1];
    CHECK(next.prompt_tokens == ran.at(i + 1).prompt_tokens);
    CHECK(next.prompt_tokens + next.output_tokens <= 800);
    if (!next.goes_on()) continue;
    ++turns;
    const std::uint32_t said = before.prompt_tokens + before.output_tokens;
    CHECK(next.prompt_tokens >= said + 20);
    CHECK(next.prompt_tokens <= said + 200);
    CHECK(ran.at(i + 1).arrival_s == Approx(ran.at(i).end_s + 3));
    CHECK(ran.at(i + 1).cached_tokens == (said - 1) / kBlock * kBlock);  // its last token was never run
  }
  CHECK(turns > 80);
  check_rows(r);
}

TEST_CASE("as many requests come a second as are asked for, however many turns conversations have") {
  for (const std::string turns : {"1", "4", "[1, 9]"}) {
    const Scenario s = scenario_of(
        "{batch: 64, requests: 4000, arrivals_per_s: 5, arrivals: {process: fixed}, "
        "prompt_tokens: 9, output_tokens: 2, conversations: {turns: " +
        turns + "}}");
    const std::vector<ServedRequest> asked = served_requests(s, scenario_trace(s));
    double last = 0;
    for (const ServedRequest& q : asked) last = std::max(last, q.arrival_s);
    CHECK(last == Approx(4000 / 5.0).epsilon(0.02));
  }
}

TEST_CASE(
    "requests of conversations come each after the answer to the one before, with their places as numbers") {
  std::vector<ServedRequest> requests(5, ServedRequest{.prompt_tokens = 1, .output_tokens = 1});
  requests[1].think_s = 2;
  requests[2].arrival_s = 1;
  requests[3].think_s = 0;
  requests[4].think_s = 5;  // the conversations are 0 1, 2 3 4
  ConversationRequests source(requests);
  const auto numbers = [&](double now) {
    std::vector<std::pair<std::uint32_t, double>> all;
    for (const auto& arrival : source.take(now)) all.emplace_back(arrival.number, arrival.request.arrival_s);
    return all;
  };
  using Numbers = std::vector<std::pair<std::uint32_t, double>>;
  CHECK(source.next_time() == 0);
  CHECK(numbers(0.5) == Numbers{{0, 0}});
  CHECK(source.next_time() == 1);
  source.finished(0, 0, 0.5);
  CHECK(numbers(3) == Numbers{{2, 1}, {1, 2.5}});
  CHECK(source.next_time() == std::nullopt);
  source.finished(2, 1, 4);
  CHECK(numbers(4) == Numbers{{3, 4}});
  source.finished(1, 2.5, 4.5);
  source.finished(3, 4, 4.5);
  CHECK(source.next_time() == 9.5);
  CHECK(numbers(10) == Numbers{{4, 9.5}});
  CHECK(source.take(11).empty());
  source.finished(4, 9.5, 11);
  CHECK(source.next_time() == std::nullopt);
}

TEST_CASE("a log says which prompts begin alike, and a run finds that") {
  const ScratchFolder folder;
  // Number 1 goes on with 0, its answer included; 2 has the first 40 tokens of 1; 3 has nothing of others.
  const std::vector<RequestRecord> log{{0, 64, 20}, {10, 100, 2, 84, 0}, {20, 90, 2, 40, 1}, {30, 50, 2}};
  write_request_log(log, folder / "r.csv");
  const RunResult r = run(scenario_of("{batch: 8, request_log: " + (folder / "r.csv").string() + "}"));
  const auto all = by_number(r);
  CHECK(all.at(0).cached_tokens == 0);
  CHECK(all.at(1).cached_tokens == 80);  // 83 are in the cache
  CHECK(all.at(2).cached_tokens == 32);
  CHECK(all.at(3).cached_tokens == 0);
  const std::string csv = requests_csv({r});
  CHECK(csv.substr(0, csv.find('\n')).ends_with(",cached_tokens"));
}

TEST_CASE("a log's conversations are kept once, and what requests share is what their parts say") {
  constexpr std::uint32_t kTurns = 3000;
  Random random(5);
  for (const bool forks : {false, true}) {
    std::vector<RequestRecord> log;
    for (std::uint32_t i = 0; i < kTurns; ++i) {
      RequestRecord turn{static_cast<double>(i), 10 * i + 5, 5};
      if (i > 0) {
        // Now and then another answer to the question before it, which ends the conversation there.
        turn.shared_with = forks && i > 1 && i % 100 == 99 ? i - 2 : i - 1;
        if (forks && i % 100 == 0) turn.shared_with = i - 2;
        const RequestRecord& before = log[turn.shared_with];
        turn.shared_tokens = before.prompt_tokens + before.output_tokens - (i % 7 == 0 ? 3 : 0);
        turn.prompt_tokens = turn.shared_tokens + 5;
      }
      log.push_back(turn);
    }
    const RequestParts parts(log);
    CHECK(parts.nodes().size() <= std::size_t{2} * kTurns);
    const std::vector<CommonParts> common = common_parts(parts, kTurns);
    std::map<const std::vector<TokenPart>*, std::size_t> kept;
    for (std::uint32_t i = 0; i < kTurns; ++i) {
      if (common[i].array) kept[common[i].array.get()] = common[i].array->size();
      const std::vector<SharedPart> due = parts.shared(i);
      REQUIRE(std::ranges::equal(common[i].parts(), due, [](const TokenPart& is, const SharedPart& part) {
        return is.id == part.of && is.end == part.end;
      }));
    }
    std::size_t all = 0;
    for (const auto& [array, size] : kept) all += size;
    INFO(kept.size() << " arrays");
    // A part a turn; of a fork a copy of what came before it.
    CHECK(all <= (forks ? std::size_t{kTurns} * (1 + kTurns / 100) : kTurns));
  }
}

TEST_CASE("the first 1,000 requests of Mooncake's logs find what a count of their hashes says", "[long]") {
  const std::filesystem::path folder = MOELAB_SOURCE_DIR "/../shared/data/requests-mooncake";
  if (!std::filesystem::is_directory(folder)) {
    WARN("skipped: no folder " << folder);
    return;
  }
  for (const char* const name : {"conversation_trace.jsonl.gz", "synthetic_trace.jsonl.gz"}) {
    RequestImport how;
    how.kind = RequestLogKind::mooncake;
    const auto log = cut_requests(import_requests(folder / name, how, {}).requests, {.count = 1000});
    const RequestParts parts(log);
    BatchingShape shape{.kv = {.block_tokens = kBlock, .gpu_blocks = std::uint64_t{1} << 40},
                        .max_requests = 1000,
                        .max_tokens = 1U << 31};
    const auto policy = find_batching_policy("vllm-v1")->make(shape, {});
    std::vector<std::vector<TokenPart>> told(log.size());
    std::uint64_t found = 0, tokens = 0;
    BatchStep step;
    for (std::uint32_t i = 0; i < log.size(); ++i) {
      for (const SharedPart& part : parts.shared(i)) told[i].push_back({part.of, part.end});
      policy->arrive({.id = i, .prompt_tokens = log[i].prompt_tokens, .output_tokens = 1, .parts = told[i]});
      REQUIRE(policy->form(step));
      found += step.shares.back().context;
      tokens += log[i].prompt_tokens;
      policy->complete();
    }
    const std::string command = "python3 " MOELAB_SOURCE_DIR "/tests/sim/prefix_hits.py " +
                                (folder / name).string() + " 1000 " + std::to_string(kBlock);
    std::FILE* const pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    unsigned long long expected = 0, all = 0;
    CHECK(std::fscanf(pipe, "%llu %llu", &expected, &all) == 2);
    CHECK(pclose(pipe) == 0);
    INFO(name);
    CHECK(tokens == all);
    CHECK(found == expected);
    CHECK(found > tokens / 10);
  }
}

}  // namespace moelab::shared_prefix_test
