// moelab trace hits: results, and what it says to bad options.
#include <catch2/catch.hpp>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::trace_hits_test {
namespace {

using Json = nlohmann::json;

/// Two layers of four experts, k = 2; the second layer does not run for the second token. In ascending order
/// layer 0 looks up 0 1, 1 2, 0 1, 0 3 and layer 1 looks up 2 3, 2 3, 0 2.
std::string small_trace(const test::ScratchFolder& folder) {
  RoutingTraceBuilder builder("tiny", "by hand", true, 2, 4, 2, false);
  builder.begin_request();
  const std::vector<std::vector<std::uint16_t>> rows = {
      {1, 0, 3, 2}, {1, 2, kNoExpert, kNoExpert}, {0, 1, 2, 3}, {3, 0, 2, 0}};
  for (const auto& ids : rows) builder.add_token(Phase::decode, ids, {});
  const std::string path = folder / "tiny.safetensors";
  write_routing_trace(builder.finish(), path);
  return path;
}

ProgramResult hits(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"trace", "hits"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, arguments);
}

}  // namespace

TEST_CASE("trace hits counts by hand's counts, in exactly the promised JSON") {
  const test::ScratchFolder folder;
  const std::string path = small_trace(folder);
  struct Case {
    const char* policy;
    int capacity, first, second;
  };
  // By hand, the cache after each lookup, * a hit.
  // lru 2, layer 0 (next to leave first): 0, 01, *01, 12, 20, 01, *10, 03; layer 1: 2, 23, *32, *23, 30, 02
  // fifo 2, layer 0: 0, 01, *01, 12, 20, 01, *01, 13; layer 1: 2, 23, *23, *23, 30, 02
  // lfu 2, layer 0 (counts): 0(1), 0(1)1(1), *1(2), 2(1)1(2), 0(1)1(2), *1(3), *0(2), 3(1)1(3);
  //   layer 1: 2(1), 2(1)3(1), *2(2), *3(2), 0(1)3(2), 2(1)3(2)
  // belady 2, layer 0: 0, 01, *01, then 2 puts out 1 (0 is looked up sooner): 02, *02, 1 puts out 2: 01, *01,
  // 3;
  //   layer 1: 2, 23, *23, *23, 0 puts out 3: 02, *02
  const std::vector<Case> cases = {{"lru", 2, 2, 2},    {"fifo", 2, 2, 2}, {"lfu", 2, 3, 2},
                                   {"belady", 2, 3, 3}, {"lru", 4, 4, 3},  {"belady", 4, 4, 3},
                                   {"fifo", 4, 4, 3},   {"lfu", 4, 4, 3},  {"lru", 1, 1, 0}};
  for (const Case& c : cases) {
    CAPTURE(c.policy, c.capacity);
    const ProgramResult result =
        hits({path, "--policy", c.policy, "--capacity", std::to_string(c.capacity), "--format", "json"});
    CHECK(result.status == 0);
    CHECK(Json::parse(result.out) == Json{{"layers",
                                           {{{"layer", 0}, {"requests", 8}, {"hits", c.first}},
                                            {{"layer", 1}, {"requests", 6}, {"hits", c.second}}}}});
  }
}

TEST_CASE("trace hits: policies are those of compare, several at once as a table") {
  // One layer, one expert a token: 0 0 1 2 1 2 0 in two places. lfu keeps the counts of those that left: 2
  // puts out 1 (one use against two of 0), 1 with two uses then puts out 2, 2 with two puts out 0, which was
  // used longest ago of two equals, and 0 is missing: one hit. With forget=1 the second 1 and 2 count one use
  // each, 0 stays, and is found twice. lru finds the first 0 again, 1 and 2: three. fifo: 0 leaves for 2,
  // then 1 and 2 are found: three. belady: 0, and 1 and 2 (2 puts out 0, used last): three; the 0 is a miss.
  RoutingTraceBuilder builder("tiny", "by hand", true, 1, 3, 1, false);
  builder.begin_request();
  for (const std::vector<std::uint16_t>& ids :
       std::vector<std::vector<std::uint16_t>>{{0}, {0}, {1}, {2}, {1}, {2}, {0}})
    builder.add_token(Phase::decode, ids, {});
  const test::ScratchFolder folder;
  const std::string path = folder / "counts.safetensors";
  write_routing_trace(builder.finish(), path);
  const std::string policies = "lfu,lfu:forget=1,lru,fifo,belady";
  const ProgramResult json = hits({path, "--policy", policies, "--capacity", "2,3", "--format", "json"});
  CAPTURE(json.err);
  REQUIRE(json.status == 0);
  const Json caches = Json::parse(json.out)["caches"];
  const std::vector<int> of_two{1, 2, 3, 3, 3};
  REQUIRE(caches.size() == 2 * of_two.size());
  for (std::size_t i = 0; i < caches.size(); ++i) {
    CAPTURE(i, caches[i].dump());
    CHECK(caches[i]["capacity"] == (i % 2 == 0 ? 2 : 3));
    // Three places hold all: each expert is missing once.
    CHECK(caches[i]["layers"][0]["hits"] == (i % 2 == 0 ? of_two[i / 2] : 4));
    CHECK(caches[i]["layers"][0]["requests"] == 7);
  }
  CHECK(caches[2]["policy"] == "lfu:forget=1");
  const ProgramResult table = hits({path, "--policy", "lfu,lfu:forget=1", "--capacity", "2,3"});
  CHECK(table.out ==
        "caches of 3 experts a layer, cold start; synthetic trace of 7 tokens\n"
        "\n"
        "hit rate %, of experts a layer      2      3\n"
        "lfu                             14.29  57.14\n"
        "lfu:forget=1                    28.57  57.14\n");
}

TEST_CASE("trace hits: a policy counted step by step finds what the curves find", "[plain]") {
  // lru-k of the last use alone is lru (O'Neil and others, SIGMOD 1993, section 2).
  for (const char* capacity : {"1", "3", "8", "16"}) {
    const auto found = [&](const char* policy) {
      return hits({"debian-moe-8x32", "--policy", policy, "--capacity", capacity, "--format", "json"}).out;
    };
    CAPTURE(capacity);
    CHECK(contains(found("lru"), "\"hits\""));
    CHECK(found("lru-k:k=1") == found("lru"));
  }
}

TEST_CASE("trace hits: what cannot be counted says why, all at once") {
  const test::ScratchFolder folder;
  const ProgramResult all =
      hits({small_trace(folder), "--policy", "zipmoe,lru:x=1,belady", "--capacity", "9,2"});
  CHECK(all.status == 2);
  CHECK(all.out.empty());
  for (const char* what : {"--policy zipmoe: keeps experts in several forms",
                           "--policy lru:x=1: ", "--capacity 9: must be from 1 to 4"})
    CHECK(contains(all.err, what));
}

TEST_CASE("trace hits prints rates and a total, and says what is synthetic") {
  const test::ScratchFolder folder;
  const ProgramResult result = hits({small_trace(folder), "--policy", "belady", "--capacity", "2"});
  CHECK(result.status == 0);
  CHECK(result.out ==
        "belady, 2 of 4 experts a layer, cold start; synthetic trace of 4 tokens\n"
        "\n"
        "layer        lookups           hits  hit rate %\n"
        "0                  8              3       37.50\n"
        "1                  6              3       50.00\n"
        "total             14              6       42.86\n");
}

TEST_CASE("trace hits names the range of capacities and the nearest policy") {
  const test::ScratchFolder folder;
  const std::string path = small_trace(folder);
  for (const char* capacity : {"0", "5", "-1"}) {
    const ProgramResult result = hits({path, "--policy", "lru", "--capacity", capacity});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err == "moelab: --capacity " + std::string(capacity) + ": must be from 1 to 4: " + path +
                            " has 4 experts a layer\n");
  }
  const ProgramResult policy = hits({path, "--policy", "beladi", "--capacity", "2"});
  CHECK(policy.status == 2);
  CHECK(policy.err == "moelab: --policy beladi: is no cache policy (did you mean 'belady'?)\n");
  CHECK(hits({path, "--policy", "lru"}).status == 2);
  CHECK(hits({path, "--capacity", "2"}).status == 2);
  CHECK(hits({path + ".absent", "--policy", "lru", "--capacity", "2"}).status == 2);
}

}  // namespace moelab::trace_hits_test
