// What a real server's run left behind: a folder of
//
//   requests.jsonl   a line a request: input_toks, output_toks, queued_ts, first_token_ts, last_token_ts
//   meta.json        the engine's arguments, its KV cache and its GPU
//   timeseries.csv   a line a second: throughputs, running, waiting, KV cache (may be missing)
//   config.json      names the GPU where meta.json does not (may be missing)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moelab::replay {

/// Seconds since the first request was queued, by the server's clock.
struct MeasuredRequest {
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  double queued_s = 0, first_token_s = 0, last_token_s = 0;
};

struct MeasuredSample {
  double time_s = 0;
  double prompt_tokens_per_s = 0, tokens_per_s = 0;
  double running = 0, waiting = 0;  // requests
  double kv_use = 0;                // share of the KV cache
};

/// What the engine was started with.
struct EngineArguments {
  std::string model;    // "meta-llama/Llama-3.1-8B"
  std::string gpu;      // as the folder has it; empty: it does not say
  std::string version;  // of vLLM; empty: it does not say
  std::uint32_t tensor_parallel = 1, data_parallel = 1;
  bool expert_parallel = false;
  std::uint32_t max_requests = 256;  // max_num_seqs, of each data-parallel rank as the next
  std::uint32_t max_tokens = 2048;   // max_num_batched_tokens
  std::uint32_t block_tokens = 16;
  double memory_share = 0.9;               // gpu_memory_utilization
  std::optional<double> gpu_bytes;         // of a GPU, as the driver shows it
  std::optional<std::uint64_t> kv_blocks;  // that the engine had
  bool prefix_cache = true;
  bool async = true;  // scheduling
};

struct ServingFolder {
  std::string path;
  EngineArguments engine;
  std::vector<MeasuredRequest> requests;  // in the order in which they were queued
  std::vector<MeasuredSample> samples;    // empty: there is no timeseries.csv
  std::vector<std::string> notes;         // what was there and not read
};

/// Throws InputError that names file, line and what was expected: fields that are missing or of another kind,
/// times that run backwards, no requests.
ServingFolder read_serving_folder(const std::string& path);

}  // namespace moelab::replay
