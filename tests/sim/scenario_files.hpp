// A small scenario with its model, device and system, in files that a test may change; and what is wrong with
// it.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::test {

inline const std::string kModel = R"(name: tiny
hidden: 32
vocab: 100
layers: 2
attention: {heads: 4, head_dim: 8}
moe: {experts: 4, top_k: 2, width: 48}
)";
inline const std::string kDevice = R"(name: tiny-device
title: Tiny device
sources:
  test: {kind: measured, text: a test}
memory:
  total: {value: 4 MB, source: test}
  system_reserve: {value: 0 B, source: test}
  bandwidth: {value: 1 GB/s, source: test}
cpu:
  threads: {value: 4, source: test}
  dispatch: {value: 0 us, source: test}
ssd:
  read: {latency: 5 us, rate: 500 MB/s, source: test}
  slowdown_while_decompressing: {value: 1, source: test}
  readers: {value: [1, 2], source: test}
page_cache:
  read: {latency: 1 us, rate: 4 GB/s, source: test}
codecs:
  lz: {ratio: {value: 0.5, source: test}, decompress: {value: 400 MB/s, source: test}}
gpu:
  peak: {value: 10 GFLOP/s, source: test}
  flops_efficiency: {value: 0.5, source: test}
  launch: {value: 2 us, source: test}
)";
inline const std::string kDiscreteGpu = R"(gpu:
  peak: {value: 10 GFLOP/s, source: test}
  flops_efficiency: {value: 0.5, source: test}
  launch: {value: 2 us, source: test}
  memory: {value: 3 MB, source: test}
  reserve: {value: 0 B, source: test}
  bandwidth: {value: 1 GB/s, source: test}
  link:
    to_device: {latency: 3 us, rate: 400 MB/s, source: test}
    to_host: {latency: 3 us, rate: 400 MB/s, source: test}
)";
/// The device above with another GPU, one that has memory of its own: the host's bandwidth is then not its.
inline std::string discrete_device_text(const std::string& gpu) {
  std::string device = kDevice.substr(0, kDevice.find("gpu:")) + gpu;
  const std::string shared = "  bandwidth: {value: 1 GB/s, source: test}\ncpu:";
  return device.replace(device.find(shared), shared.size(), "cpu:");
}
inline const std::string kSystem = R"(name: pooled
weights: compressed
codec: lz
shards: 2
threads: 2
page_cache: true
schedule: {policy: cache-affinity}
cache: {policy: zipmoe, pools: [F, S]}
planning: {policy: fixed, ratios: {F: 0.5, S: 0.5}}
)";
inline const std::string kScenario = R"(name: tiny-scenario
model: tiny.yaml
device: device.yaml
budget: 300 kB
seed: 3
workload:
  batch: 2
  requests: 4
  prompt_tokens: 3
  output_tokens: 5
systems:
  - pooled.yaml
  - name: inline
    weights: whole
    page_cache: false
    cache: {policy: lru}
)";

/// A folder with the four files above, each of which can be changed.
class Files {
 public:
  Files() {
    write("tiny.yaml", kModel);
    write("device.yaml", kDevice);
    write("pooled.yaml", kSystem);
    write("scenario.yaml", kScenario);
  }
  void write(const std::string& name, const std::string& text) { test::write_bytes(folder_ / name, text); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Replaces the first `was` in a file. Returns the line it is on.
  int change(const std::string& name, const std::string& was, const std::string& becomes) {
    std::string text = test::read_bytes(folder_ / name);
    const std::size_t at = text.find(was);
    REQUIRE(at != std::string::npos);
    text.replace(at, was.size(), becomes);
    write(name, text);
    return 1 +
           static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  }
  Scenario load(const std::vector<std::pair<std::string, std::string>>& settings = {}) const {
    return load_scenario(path("scenario.yaml"), settings);
  }
  /// What is wrong with it, when loaded, its trace read and checked as `moelab check` does.
  std::vector<Problem> problems(const std::vector<std::pair<std::string, std::string>>& settings = {}) const {
    try {
      const Scenario s = load(settings);
      check_scenario(s, scenario_trace(s));
    } catch (const InputError& error) {
      return error.problems();
    }
    return {};
  }

 private:
  test::ScratchFolder folder_;
};

inline std::string all_of(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& p : problems) text += to_string(p) + "\n";
  return text;
}

inline bool says(const std::vector<Problem>& problems, const std::string& file, int line,
                 const std::string& fragment) {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& p) {
    return p.file.find(file) != std::string::npos && (line == 0 || p.line == line) &&
           p.what.find(fragment) != std::string::npos;
  });
}

}  // namespace moelab::test
