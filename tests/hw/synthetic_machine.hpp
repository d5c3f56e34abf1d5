// Benchmark results of a machine that is made of equations: what calibration has to find in them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "hw/calibrate/calibrated_profile.hpp"
#include "traces/random.hpp"

namespace moelab::test {

struct SyntheticMachine {
  double read_latency = 60e-6, read_rate = 2e9;  // of one read; several share the rate
  double slowdown = 1.25;                        // of reads beside decompression
  double slowed_by_reads = 1.125;                // the CPU's work beside reads
  double cached_latency = 2e-6, cached_rate = 9e9;
  double decode_fixed = 3e-6, decode_rate = 4e9;
  double join_fixed = 1e-6, join_rate = 5e9;  // elements
  double hand_off = 12e-6;
  double expert_fixed = 700e-6, expert_token = 150e-6;
  double peak = 80e9, bandwidth = 17e9, dense_fixed = 28e-6;
  std::vector<double> sharing = {1, 1.1, 1.7, 2.3};
  bool gpu = false;
  double gpu_peak = 700e12, gpu_bandwidth = 3.6e12, gpu_fixed = 12e-6;
  double copy_fixed = 4e-6, copy_rate = 4.2e12;  // bytes moved, read and written
  double link_fixed = 9e-6, link_rate = 50e9;
  bool gpu_paging = false;
  bool process_paging = false;                                               // of a GPU that the CPU plays
  double recover_fixed = 6e-6, fixed3_rate = 1.5e12, huffman_rate = 0.8e12;  // BF16 bytes made
  double map_fixed = 30e-6, map_rate = 400e9, unmap_fixed = 20e-6, unmap_rate = 900e9;

  double noise = 0;  // each sample is its equation's value times 1 - noise ... 1 + noise
  std::size_t samples = 7;
  std::uint64_t seed = 1;

  std::vector<BenchResult> results();

 private:
  void add(const std::string& name, BenchParameters parameters, double seconds, double bytes = 0,
           double flops = 0);
  void add_storage();
  void add_cpu();
  void add_gpu();
  void add_gpu_paging();
  void add_process_paging();

  Random random_{1};
  std::vector<BenchResult> all_;
};

inline constexpr ExpertShape kSyntheticExpert{2048, 1408, 3};

inline void SyntheticMachine::add(const std::string& name, BenchParameters parameters, double seconds,
                                  double bytes, double flops) {
  BenchResult result;
  result.name = name;
  result.parameters = std::move(parameters);
  result.bytes = bytes;
  result.flops = flops;
  result.operations = 1;
  for (std::size_t i = 0; i < samples; ++i)
    result.samples.push_back(seconds * (1 + noise * (2 * random_.uniform() - 1)));
  result.statistics = statistics_of(result.samples);
  all_.push_back(std::move(result));
}

inline void SyntheticMachine::add_storage() {
  for (const std::uint64_t bytes : {65536U, 720896U, 2883584U, 5767168U}) {
    const auto size = static_cast<double>(bytes);
    const auto read = [&](const char* mode, std::uint64_t depth, double seconds) {
      add("read", {{"mode", mode}, {"bytes", bytes}, {"depth", depth}}, seconds, size);
    };
    read("buffered", 1, 2 * (read_latency + size / read_rate));
    read("cached", 1, cached_latency + size / cached_rate);
    read("direct", 1, 1.5 * (read_latency + size / read_rate));
    // Each of n takes n times what one alone takes: one ends every such time.
    for (const std::uint64_t depth : {1U, 4U}) read("io_uring", depth, read_latency + size / read_rate);
    for (const std::uint64_t threads : {1U, 2U})
      for (const char* codec : {"fixed3", "lz4hc-9", "huffman-16"})
        add("decompress", {{"codec", codec}, {"bytes", bytes}, {"threads", threads}},
            static_cast<double>(threads) * (decode_fixed + size / decode_rate), size);
    for (const std::uint64_t threads : {1U, 2U})
      add("join", {{"elements", bytes}, {"threads", threads}},
          static_cast<double>(threads) * (join_fixed + size / join_rate), 2 * size);
  }
  const double alone = read_latency + 1048576 / read_rate;
  const auto beside = [&](const char* timed, const char* other, const char* mode, std::uint64_t threads,
                          double seconds, const char* codec = "-") {
    add("interference",
        {{"timed", timed},
         {"beside", other},
         {"codec", codec},
         {"mode", mode},
         {"threads", threads},
         {"bytes", 1048576U}},
        seconds);
  };
  beside("read", "nothing", "direct", 0, 3 * alone);
  beside("read", "nothing", "io_uring", 0, alone);
  beside("read", "decompress", "io_uring", 1, slowdown * alone);
  beside("read", "decompress", "io_uring", 2, 9 * alone);  // no core is left for who reads
  for (const auto& [codec, seconds] : {std::pair{"fixed3", 4e-3}, std::pair{"lz4hc-9", 7e-3}}) {
    beside("decompress", "nothing", "-", 1, seconds, codec);
    beside("decompress", "read", "io_uring", 1, slowed_by_reads * seconds, codec);
    beside("decompress", "nothing", "-", 2, seconds, codec);
    beside("decompress", "read", "io_uring", 2, 9 * seconds, codec);  // no core is left for who reads
  }
  beside("expert", "nothing", "-", 1, 2e-3);
  beside("expert", "read", "io_uring", 1, slowed_by_reads * 2e-3);
}

inline void SyntheticMachine::add_cpu() {
  const double weights = 3.0 * 2048 * 1408;
  for (const std::uint64_t tokens : {1U, 4U, 16U})
    add("expert", {{"hidden", 2048U}, {"width", 1408U}, {"matrices", 3U}, {"tokens", tokens}},
        expert_fixed + static_cast<double>(tokens) * expert_token, 2 * weights,
        2 * weights * static_cast<double>(tokens));
  for (const std::uint64_t bytes : {2097152U, 16777216U}) {
    for (const std::uint64_t tokens : {1U, 2U, 16U}) {
      const double size = static_cast<double>(bytes), flops = size * static_cast<double>(tokens);
      add("dense", {{"bytes", bytes}, {"tokens", tokens}},
          dense_fixed + std::max(flops / peak, size / bandwidth), size, flops);
    }
  }
  for (const std::uint64_t bytes : {4096U, 2883584U})
    add("copy", {{"bytes", bytes}}, link_fixed + static_cast<double>(bytes) / link_rate,
        static_cast<double>(bytes));
  for (const char* work : {"decompress", "join", "expert"})
    for (std::size_t busy = 1; busy <= sharing.size(); ++busy)
      add("sharing", {{"work", work}, {"busy", std::uint64_t{busy}}}, 1e-3 * sharing[busy - 1]);
  for (std::size_t busy = 1; busy <= sharing.size(); ++busy)  // copies hinder twice as much
    add("link-sharing", {{"work", "copy"}, {"busy", std::uint64_t{busy}}},
        1e-3 * (2 * sharing[busy - 1] - 1));
  for (const std::uint64_t idle : {0U, 300U})
    for (const std::uint64_t threads : {1U, 2U})
      add("handoff", {{"kind", "condition_variable"}, {"threads", threads}, {"idle_us", idle}},
          idle > 0 ? static_cast<double>(threads) * hand_off : 1e-6);
}

inline void SyntheticMachine::add_gpu() {
  const double weights = 3.0 * 2048 * 1408;
  for (const std::uint64_t tokens : {1U, 4U, 16U, 256U, 1024U}) {
    const double bytes = 2 * weights, flops = bytes * static_cast<double>(tokens);
    add("cuda-expert", {{"hidden", 2048U}, {"width", 1408U}, {"matrices", 3U}, {"tokens", tokens}},
        gpu_fixed + std::max(flops / gpu_peak, bytes / gpu_bandwidth), bytes, flops);
  }
  for (const std::uint64_t bytes : {1048576U, 16777216U, 268435456U}) {
    const auto size = static_cast<double>(bytes);
    add("cuda-copy", {{"bytes", bytes}}, copy_fixed + 2 * size / copy_rate, size);
    for (const char* direction : {"to_device", "to_host"})
      for (const char* memory : {"pinned", "pageable"})
        add("cuda-link", {{"direction", direction}, {"memory", memory}, {"bytes", bytes}},
            (memory == std::string("pinned") ? 1 : 4) * (link_fixed + size / link_rate), size);
  }
}

inline void SyntheticMachine::add_gpu_paging() {
  for (const std::uint64_t bytes : {268435456U, 1048576U, 16777216U}) {  // in no order
    const auto size = static_cast<double>(bytes);
    const auto recover = [&](const char* codec, double rate) {
      add("cuda-recover", {{"codec", codec}, {"bytes", bytes}}, recover_fixed + size / rate, size);
    };
    recover("none", 2 * fixed3_rate);
    recover("fixed3", fixed3_rate);
    recover("huffman-8", huffman_rate / 2);
    recover("huffman-16", huffman_rate);
  }
  for (const std::uint64_t bytes : {2097152U, 16777216U, 67108864U}) {
    const auto size = static_cast<double>(bytes);
    add("cuda-remap", {{"step", "map"}, {"bytes", bytes}}, map_fixed + size / map_rate);
    add("cuda-remap", {{"step", "unmap"}, {"bytes", bytes}}, unmap_fixed + size / unmap_rate);
  }
}

inline void SyntheticMachine::add_process_paging() {
  for (const std::uint64_t bytes : {67108864U, 2097152U}) {
    const auto size = static_cast<double>(bytes);
    add("remap", {{"step", "map"}, {"bytes", bytes}}, map_fixed / 5 + size / map_rate);
    add("remap", {{"step", "unmap"}, {"bytes", bytes}}, unmap_fixed / 5 + size / unmap_rate);
  }
}

inline std::vector<BenchResult> SyntheticMachine::results() {
  random_ = Random(seed);
  all_.clear();
  add_storage();
  add_cpu();
  if (gpu) add_gpu();
  if (gpu_paging) add_gpu_paging();
  if (process_paging) add_process_paging();
  return all_;
}

inline ProfileContext synthetic_context() {
  ProfileContext context;
  context.name = "synthetic";
  context.title = "a machine of equations";
  context.command = "moelab calibrate";
  context.machine.cpu = "Equation 1";
  context.machine.cores = 2;
  context.machine.kernel = "Linux 6.1 x86_64";
  context.machine.memory = 16'000'000'000;
  context.machine.available_memory = 13'500'000'000;
  context.machine.libraries = "Lemma 2.1";
  context.machine.date = "2026-02-03T04:05:06Z";
  context.experts = {kSyntheticExpert};
  context.dense_kernels = 14;
  context.expert_kernels = 3;
  context.ratios = {{"fixed3", "fixed3", {0.41, 0.42, 0.43, 0.42}},
                    {"lz4hc", "lz4hc-9", {0.5, 0.5, 0.5, 0.52}}};
  context.ratios_of = "equations";
  return context;
}

}  // namespace moelab::test
