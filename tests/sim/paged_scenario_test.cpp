// What is wrong with scenarios of paged systems is said with its file, its line and what was expected.
#include <catch2/catch.hpp>

#include "tests/sim/scenario_files.hpp"

namespace moelab::paged_scenario_test {

using namespace moelab::test;

namespace {

const std::string kGpu = kDiscreteGpu + R"(  codecs:
    huffman:
      ratio: {value: 0.8, source: test}
      rate: {value: 700 MB/s, source: test}
  node:
    gpus: {value: 8, source: test}
    all_reduce:
      - {gpus: 2, seconds: {latency: 2 us, rate: 900 MB/s, source: test}}
      - {gpus: 4, seconds: {latency: 3 us, rate: 900 MB/s, source: test}}
)";
const std::string kPaged = R"(name: pages
weights: paged
paging:
  backends: [huffman, host]
  storage: {policy: bandwidth-proportional}
batching: {policy: continuous, swap: 1, max_tokens: 64}
kv: {swap_space: 100 kB, block_tokens: 16}
)";
const std::string kPagedScenario = R"(name: tiny-scenario
model: tiny.yaml
device: device.yaml
budget: 300 kB
seed: 3
tensor_parallel: 2
workload:
  batch: 2
  requests: 4
  prompt_tokens: 3
  output_tokens: 5
systems:
  - pages.yaml
)";

/// The four files, with a discrete GPU of a node and a system with pages.
class PagedFiles : public Files {
 public:
  PagedFiles() {
    write("device.yaml", discrete_device_text(kGpu));
    write("pages.yaml", kPaged);
    write("scenario.yaml", kPagedScenario);
    write("log.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,4\n0.5,2,2\n");
  }
};

/// One change of a file, and what is said then in which file; on the changed line unless it is another's to
/// say.
struct Case {
  std::string file, was, becomes, said_in, says;
  bool on_line = true;
};

void check_case(const Case& c) {
  PagedFiles files;
  const int line = files.change(c.file, c.was, c.becomes);
  INFO(c.was << " -> " << c.becomes << "\n" << all_of(files.problems()));
  CHECK(says(files.problems(), c.said_in, c.on_line ? line : 0, c.says));
}

}  // namespace

TEST_CASE("paged scenario: valid as it stands") {
  const PagedFiles files;
  INFO(all_of(files.problems()));
  CHECK(files.problems().empty());
  CHECK(files.load().tensor_parallel == 2);
  CHECK(files.load().model.moe().width == 24);  // of 48 columns
}

TEST_CASE("paged scenario: wrong systems") {
  const std::string both = "[huffman, host]", sys = "pages.yaml", top = "scenario.yaml";
  check_case({sys, both, "[hufman, host]", top, "did you mean 'huffman'?", false});
  check_case({sys, both, "[huffman, huffman]", sys, "backend 'huffman' is listed twice"});
  check_case({sys, both, "[]", sys, "no backend is listed; expected some of 'resident'"});
  check_case({sys, both, "huffman", sys, "expected a list"});
  check_case({sys, "  backends: [huffman, host]\n", "", sys, "missing key 'backends' in paging", false});
  check_case({sys, "bandwidth-proportional", "bandwidth-proportionl", sys,
              "did you mean 'bandwidth-proportional'?"});
  check_case({sys, "swap: 1", "swap: 2", sys, "swap"});
  check_case({sys, "swap: 1", "swop: 1", sys, "did you mean 'swap'?"});
  check_case({sys, "100 kB", "-100 kB", sys, "expected a value at least 0 B"});
  check_case({sys, "100 kB", "3 MB", top, "of host memory (kv.swap_space of each GPU)", false});
  check_case({sys, "max_tokens: 64", "max_tokens: 1", top, "fewer than one of each of the batch's 2", false});
  check_case({sys, "block_tokens: 16", "block_tokens: 0", sys, "block_tokens"});
  check_case({sys, "block_tokens: 16", "first: maybe", sys, "first"});
  check_case({sys, "weights: paged", "weights: paged\nschedule: {policy: fifo}", sys,
              "unknown key 'schedule'", false});
  check_case({sys, "weights: paged", "weights: paged\nprefetch: {policy: none}", sys,
              "unknown key 'prefetch'", false});
  check_case({sys, "weights: paged", "weights: pagd", sys, "did you mean 'paged'?"});
}

TEST_CASE("paged scenario: what a window cannot have beside it says why, and what would do") {
  const std::string sys = "pages.yaml", top = "scenario.yaml", was = "weights: paged";
  const auto with = [&](const std::string& line, const std::string& said_in, const std::string& says) {
    check_case({sys, was, was + "\n" + line, said_in, says, false});
  };
  with("cache: {policy: lru}", sys, "missing key 'experts' in cache");
  with("cache: {policy: lfru, experts: 1}", sys, "did you mean 'lru'?");
  with("cache: {policy: lru, experts: 0}", sys, "experts");
  with("cache: {policy: lru, experts: 5}", top,
       "pins 5 experts of each layer (cache.experts); a layer of model 'tiny' has 4");
  with("cache: {policy: zipmoe, experts: 1}", sys, "keeps experts in several states of compression");
  with("cache: {policy: belady, experts: 1}", sys, "Expected a policy that learns, such as 'lfu'");
  with("cache: {policy: moe-infinity, experts: 1}", sys, "weighs experts of all layers together");
  with("cache: {policy: fixed-layers, experts: 1}", sys, "'paging.storage: {policy: whole-layer}'");
  with("page_cache: true", sys, "no backend is one; expected 'ssd' among 'paging.backends'");
  with("routing: {policy: smoe}", sys,
       "with 'fetch: layer' the window takes in whole layers before their gates have run");
  with("routing: {policy: smoe}", sys, "Expected 'fetch: ahead'");
  with("fetch: usd", sys, "did you mean 'used'?");
  PagedFiles all_resident;
  all_resident.change(sys, "[huffman, host]", "[resident]");
  all_resident.change(sys, was, was + "\ncache: {policy: lfu, experts: 2}");
  CHECK(says(all_resident.problems(), sys, 0, "with 'paging.backends: [resident]' there is none"));
  PagedFiles files;
  files.change(sys, was, was + "\nfetch: ahead\ncache: {policy: lfu, experts: 2}\nrouting: {policy: smoe}");
  files.change(sys, "[huffman, host]", "[huffman, host, ssd]");
  files.change(sys, "fetch: ahead", "fetch: ahead\npage_cache: true");
  INFO(all_of(files.problems()));
  CHECK(files.problems().empty());
}

TEST_CASE("paged scenario: wrong machines and models") {
  const std::string top = "scenario.yaml";
  check_case({top, "tensor_parallel: 2", "tensor_parallel: 3", top,
              "4 attention heads, which 3 GPUs cannot share evenly"});
  check_case({"tiny.yaml", "width: 48", "width: 47", top, "47 columns in each expert, which 2 GPUs", false});
  check_case({top, "tensor_parallel: 2", "tensor_parallel: 16", top,
              "tensor_parallel takes 16 GPUs; device 'tiny-device' has 8"});
  check_case({top, "tensor_parallel: 2", "tensor_parallel: 8", top,
              "does not say what an all-reduce over 8 GPUs takes"});
  check_case({top, "tensor_parallel: 2", "tensor_parallel: 0", top, "tensor_parallel"});
  check_case({top, "budget: 300 kB", "budget: -300 kB", top, "expected a value more than 0 B"});
  check_case({top, "budget: 300 kB", "budget: 4 MB", "tiny-scenario",
              "is more than the GPU of device 'tiny-device'", false});
}

TEST_CASE("paged scenario: wrong workloads") {
  const std::string top = "scenario.yaml", lengths = "  prompt_tokens: 3\n  output_tokens: 5\n";
  const std::string all = "  requests: 4\n" + lengths;
  check_case({top, "output_tokens: 5", "output_tokens: 500", "tiny-scenario",
              "can never serve request 1 (3 prompt and 500 output tokens)", false});
  check_case({top, all, "  request_log: nowhere.csv\n", "nowhere.csv", "", false});
  check_case(
      {top, all, "  request_log: log.csv\n  requests: 3\n", top, "is the request log's to say", false});
  check_case({top, lengths, lengths + "  arrivals_per_s: -1\n", top, "arrivals_per_s", false});
  const std::string at_rate = "  arrivals_per_s: 4\n", from_log = "  request_log: log.csv\n";
  const auto refused = [&](const std::string& was, const std::string& now, const std::string& says) {
    check_case({top, was, now, top, says, false});
  };
  refused(lengths, lengths + at_rate + "  arrivals: {process: gama, burstiness: 2}\n",
          "did you mean 'gamma'?");
  refused(lengths, lengths + at_rate + "  arrivals: {process: gamma}\n", "missing key 'burstiness'");
  refused(lengths, lengths + at_rate + "  arrivals: {process: gamma, burstiness: 0}\n", "burstiness");
  refused(lengths, lengths + at_rate + "  arrivals: {process: fixed, burstiness: 2}\n",
          "'burstiness' is of 'process: gamma'");
  refused(lengths, lengths + at_rate + "  arrivals: {process: fixed, every: 2}\n", "every");
  refused(lengths, lengths + "  arrivals: {process: fixed}\n", "expected 'arrivals_per_s' above 0 beside it");
  refused(lengths, lengths + "  speed: 2\n", "'speed' is of a 'request_log'");
  refused(all, from_log + at_rate, "'speed: 2' plays it twice as fast");
  refused(all, from_log + "  speed: 2\n  rate: 3\n", "'speed' is there already");
  refused(all, from_log + "  speed: 0\n", "speed");
  refused(all, from_log + "  rate: -1\n", "rate");
  {
    PagedFiles files;
    files.change(top, all, from_log + "  rate: 4\n");
    CHECK(files.problems().empty());
    CHECK(files.load().workload.log.back().arrival_s == 0.25);  // one gap, of a quarter of a second
    files.change(top, "rate: 4", "speed: 4");
    CHECK(files.load().workload.log.back().arrival_s == 0.5 / 4);
    files.change("log.csv", "0.5,2,2", "0,2,2");
    files.change(top, "speed: 4", "rate: 4");
    CHECK(says(files.problems(), top, 0, "all come at the same moment"));
  }
  {
    PagedFiles files;
    files.change(top, all, "  request_log: log.csv\n");
    CHECK(files.problems().empty());
    CHECK(files.load().workload.log.size() == 2);
    const int line = 3;
    files.change("log.csv", "0.5,2,2", "0.5,2,two");
    CHECK(says(files.problems(), "log.csv", line, ""));
  }
}

TEST_CASE("paged scenario: keys that every system has now are answered with where they are") {
  const std::string sys = "pages.yaml", was = "paging:\n";
  const auto moved = [&](const std::string& old_key, const std::string& now) {
    const std::string key = old_key.substr(0, old_key.find(':'));
    check_case(
        {sys, was, was + "  " + old_key + "\n", sys, "'paging." + key + "' is now '" + now + "'", false});
  };
  moved("batching: {policy: static}", "batching");
  moved("max_tokens: 64", "batching.max_tokens");
  moved("block_tokens: 16", "kv.block_tokens");
  moved("swap_space: 1 GB", "kv.swap_space");
  moved("kv_first: true", "kv.policy");
  moved("kv_grows: true", "kv.grows");
}

TEST_CASE("paged scenario: one memory has nothing behind a link") {
  PagedFiles files;
  const std::string top = "scenario.yaml";
  files.change(top, "tensor_parallel: 2\n", "");
  files.write("device.yaml", kDevice);  // an integrated GPU
  const std::vector<Problem> problems = files.problems();
  CHECK(says(problems, top, 0,
             "has backend 'host', memory that the GPU reaches over a link; device 'tiny-device'"));
  CHECK(
      says(problems, top, 0, "has backend 'huffman', which is none of 'resident', 'ssd' and the gpu.codecs"));
  files.change("pages.yaml", "[huffman, host]", "[resident, ssd]");
  INFO(all_of(files.problems()));
  CHECK(files.problems().empty());
}

}  // namespace moelab::paged_scenario_test
