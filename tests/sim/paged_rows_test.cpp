// Which rows of a trace serving runs, and what a run leaves behind.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "models/json.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/results/timeline.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/paged_reference.hpp"
#include "tests/sim/timeline_json.hpp"

namespace moelab::paged_rows_test {

using namespace moelab::test;

namespace {

/// Rows in the order in which they run; every pass's contexts are held against a sum over its rows.
std::vector<std::uint64_t> rows_run(const SmallRun& run) {
  const std::vector<ServedRequest> requests = served_requests(run.scenario, run.trace);
  const PagedPlan plan = plan_of(run);
  const auto batching = make_batching(run.scenario, run.system(), plan.memory);
  ListedRequests source(requests);
  RequestStream stream(source, run.trace, *batching);
  std::vector<std::uint64_t> rows;
  Pass pass;
  Metrics metrics;
  while (stream.next(1e9, pass)) {
    const NaiveStep n = naive_step(stream.step(), requests, run.trace.tokens());
    std::vector<std::uint64_t> of_pass;
    for (const auto& [begin, end] : pass.rows)
      for (std::uint64_t row = begin; row < end; ++row) of_pass.push_back(row);
    CHECK(of_pass == n.trace_rows);
    CHECK(pass.tokens == n.rows);
    CHECK(pass.prompt_tokens == n.prompt);
    CHECK(pass.produces == n.produces);
    for (const int window : {0, 1, 2, 4, 7}) {
      std::vector<double> sums(2, 0), wanted = {n.decoding, n.prompt};
      for (const RowRun& r : pass.runs) sums[r.prompt] += attended_tokens(r, window);
      if (n.decoding > 0) wanted[0] *= mean_through(n.context, window);
      if (n.prompt > 0) wanted[1] *= mean_through(n.prompt_context, window);
      for (const std::size_t i : {0, 1}) CHECK(sums[i] == Approx(wanted[i]).epsilon(1e-12));
    }
    CHECK(pass.prompt == (n.decoding == 0));
    rows.insert(rows.end(), of_pass.begin(), of_pass.end());
    stream.complete(1e9, metrics);
  }
  return rows;
}

/// A run of a recorded trace whose KV cache holds everything.
SmallRun recorded_run(const std::vector<Lengths>& lengths, bool prefilled, bool chunked) {
  SmallRun run = paged_run(small_model({}), {"resident"});
  Random random(3);
  run.trace = random_trace(random, run.scenario.model, lengths, false);
  run.scenario.workload.trace_file = "recorded.moetrace";
  run.scenario.workload.prefilled = prefilled;
  run.scenario.workload.batch = 3;
  run.scenario.systems.front().batching->policy.parameters = {{"chunked", chunked ? 1 : 0}};
  return run;
}

const std::vector<Lengths> kLengths = {{5, 3}, {0, 4}, {1, 1}, {9, 2}, {0, 1}, {3, 7}};

}  // namespace

TEST_CASE("paged: of a recorded trace every row runs once, in each request's order") {
  const bool chunked = GENERATE(false, true);
  const SmallRun run = recorded_run(kLengths, false, chunked);
  const std::vector<std::uint64_t> rows = rows_run(run);
  CHECK(rows.size() == run.trace.tokens());
  CHECK(std::set(rows.begin(), rows.end()).size() == rows.size());
  for (const TraceRequest& q : run.trace.requests()) {
    std::vector<std::uint64_t> own;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
                 [&](std::uint64_t row) { return row >= q.begin && row < q.end; });
    CHECK(std::is_sorted(own.begin(), own.end()));
  }
  CHECK(run.run().metrics.serving.rows == run.trace.tokens());
}

TEST_CASE("paged: prefilled, of a recorded trace the rows that decode run once, and no others") {
  const SmallRun run = recorded_run(kLengths, true, false);
  std::vector<std::uint64_t> rows = rows_run(run), wanted;
  for (const TraceRequest& q : run.trace.requests())
    for (std::uint64_t row = q.decode_begin; row < q.end; ++row) wanted.push_back(row);
  std::sort(rows.begin(), rows.end());
  CHECK(rows == wanted);
  CHECK(run.run().metrics.tokens == wanted.size());
  const SmallRun nothing = recorded_run({{5, 3}, {4, 0}}, true, false);
  CHECK_THROWS_WITH(served_requests(nothing.scenario, nothing.trace),
                    Catch::Contains("recorded.moetrace: request 2 has no rows but its prompt's"));
}

TEST_CASE("paged: requests of a pool begin on it spread evenly, and go on around its end") {
  SmallRun run = paged_run(small_model({}), {"resident"});
  run.scenario.workload.batch = 1;
  const std::uint64_t pool = run.trace.tokens();
  std::vector<std::uint64_t> wanted;
  bool wraps = false;
  for (int request = 0; request < 4; ++request) {
    const double turns = request * (std::sqrt(5.0) - 1) / 2;  // multiples of the golden ratio
    const auto first = static_cast<std::uint64_t>((turns - std::floor(turns)) * static_cast<double>(pool));
    for (std::uint64_t i = 0; i < 5 + 6 - 1; ++i) wanted.push_back((first + i) % pool);
    wraps = wraps || first + 5 + 6 - 1 > pool;
  }
  CHECK(wraps);
  CHECK(rows_run(run) == wanted);
}

TEST_CASE("paged: however long requests are, those of a large batch run different rows") {
  const RoutingTrace trace = steady_trace(small_model({}), {1, 4095});
  for (const std::uint32_t length : {1U, 64U, 1024U, 4096U}) {
    Scenario s;
    s.workload.requests = 256;
    s.workload.prompt_tokens = length;
    s.workload.output_tokens = length;
    std::set<std::uint64_t> first;
    for (const ServedRequest& q : served_requests(s, trace)) first.insert(q.first_row);
    CHECK(first.size() == 256);
    // Three-gap theorem: no two of n multiples of the golden ratio are nearer than 1 / (sqrt(5) n) or so.
    std::uint64_t nearest = trace.tokens();
    for (auto at = first.begin(), next = std::next(at); next != first.end(); ++at, ++next)
      nearest = std::min(nearest, *next - *at);
    CHECK(static_cast<double>(nearest + 1) >= 0.4 * static_cast<double>(trace.tokens()) / 256);
  }
}

TEST_CASE("paged: contexts of any pass are means over its rows") {
  int ran = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(200u, 40u); ++seed) {
    const SmallRun run = random_paged_run(seed, false);
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    CHECK_FALSE(rows_run(run).empty());
  }
  CHECK(ran > moelab::test::random_runs(100));
}

TEST_CASE("paged: a result is the same twice, survives its transfer, and its timeline has every operation") {
  SmallRun run;
  for (std::uint64_t seed = 1;; ++seed) {  // the first with everything in it
    run = random_paged_run(seed, true);
    if (!can_run(run) || run.scenario.tensor_parallel == 1 || !run.scenario.device.gpu->remap) continue;
    const ServingCounts c = run.run().metrics.serving;
    if (c.swapped_out > 0 && c.decoded_bytes > 0 && c.loaded_bytes > 0) break;
    REQUIRE(seed < 5000);
  }
  const RunResult r = run.run();
  const std::string json = results_json({r});
  CHECK(results_json({run.run()}) == json);
  CHECK(results_json({unpack_result(pack_result(r))}) == json);
  CHECK(results_table(run.scenario, {unpack_result(pack_result(r))}) == results_table(run.scenario, {r}));
  const auto parsed = nlohmann::json::parse(json);
  CHECK(parsed["serving"]["steps"] == r.metrics.serving.steps);
  CHECK(parsed["series"].size() == r.metrics.series.samples().size());
  CHECK(parsed["memory_bytes_a_gpu"]["kv_blocks"] == r.memory.kv_blocks);

  Timeline timeline({});
  Recorder record;
  run.run(&timeline);
  run.run(&record);
  std::set<std::string> names, wanted;
  std::size_t slices = 0, operations = 0;
  const auto file = timeline_json(timeline, r);
  for (const auto& event : file["traceEvents"]) {
    if (!is_operation(event)) continue;
    ++slices;
    const std::string name = event["name"];
    names.insert(name.substr(0, name.find(' ')));
  }
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops) {
      ++operations;
      wanted.emplace(to_string(op.label.kind));
    }
  CHECK(slices == operations);
  CHECK(names == wanted);
  for (const char* name : {"grouped_experts", "all_reduce", "remap", "decode", "load", "swap_in", "swap_out"})
    CHECK(names.count(name) == 1);
}

// An observer sees the graphs, so that they are made; without one, what nothing meets is summed up.
TEST_CASE("paged: a result is the same to the byte with and without an observer") {
  int alike = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u, 60u); ++seed) {
    SmallRun run = random_paged_run(seed, seed % 3 == 0);
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    Recorder record;
    CHECK(results_json({run.run()}) == results_json({run.run(&record)}));
    if (run.scenario.tensor_parallel > 1 && run.system().host_per_layer.value() > 0) ++alike;
  }
  CHECK(alike > moelab::test::random_runs(30));
}

TEST_CASE("paged: what takes longer than anything is refused, with the system's name") {
  const auto refused = [](const SmallRun& run) {
    try {
      run.run();
    } catch (const InputError& error) {
      return error.problems().front().what;
    }
    return std::string("not refused");
  };
  SmallRun slow = paged_run(small_model({}), {"resident"});
  slow.scenario.systems.front().host_per_layer = Seconds(1e308);
  CHECK(refused(slow) ==
        "system 'pages': an operation takes 1e+308 s, expected at most 1e+12 s; look for a rate of device '" +
            slow.scenario.device.name + "' or an overhead of the system that is far from any real one");
  SmallRun crawls = paged_run(small_model({}), {"huff"});
  crawls.scenario.device.gpu->codecs.at("huff").rate.value = BytesPerSecond(1e-300);
  CHECK(refused(crawls).find("expected at most 1e+12 s") != std::string::npos);
  SmallRun rare = paged_run(small_model({}), {"resident"});
  rare.scenario.workload.arrivals_per_s = 1e-300;
  CHECK(refused(rare).find("workload.arrivals_per_s is so low") != std::string::npos);
}

TEST_CASE("paged: what does not fit is a result") {
  SmallRun run = paged_run(small_model({}), {"resident"});
  run.scenario.budget = Bytes(1000);
  check_scenario(run.scenario, run.trace);
  const RunResult r = run.run();
  CHECK(r.metrics.tokens == 0);
  const auto json = nlohmann::json::parse(results_json({r}));
  CHECK(json["memory_bytes_a_gpu"]["shortfall"].get<double>() == plan_of(run).memory.shortfall.value());
  CHECK(json["metrics"]["wall_s"] == 0);
  const std::string table = results_table(run.scenario, {r});
  CHECK(table.find("system 'pages' does not fit: it needs " + to_string(r.memory.shortfall)) !=
        std::string::npos);
  SmallRun fits = paged_run(small_model({}), {"resident"});
  CHECK(results_table(run.scenario, {r, fits.run()}).find("does not fit") != std::string::npos);
}

}  // namespace moelab::paged_rows_test
