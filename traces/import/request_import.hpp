// Imports request logs of several kinds into the project's own (traces/requests.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/input_stream.hpp"
#include "traces/import/sharegpt_import.hpp"
#include "traces/requests.hpp"

namespace moelab {

/// mooncake: JSON lines with timestamp (ms), input_length, output_length, and hash_ids: a number for each 512
/// tokens of the prompt, the same where these and all before them are, from which the requests' shared tokens
/// come.
///   https://github.com/kvcache-ai/Mooncake, FAST25-release/traces
/// azure: CSV with TIMESTAMP (date and time of day), ContextTokens, GeneratedTokens; the first request is at
/// 0.
///   https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and ...2024.md
/// burstgpt: CSV with Timestamp (s), Request tokens, Response tokens; others are ignored.
///   https://github.com/HPMLL/BurstGPT
/// benchmark: JSON that vLLM's `bench serve --save-result --save-detailed` writes, one run a
/// file: input_lens, output_lens, start_times (s of a clock; the first request is at 0). Without start_times,
/// as sglang.bench_serving --output-details writes it, all requests come at 0.
///   https://github.com/vllm-project/vllm, vllm/benchmarks/serve.py
/// sharegpt: conversations without times and tokens (traces/import/sharegpt_import.hpp).
/// bailian: JSON lines as mooncake's with timestamps in s and a number for each 16 tokens.
///   https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon
/// servegen: CSV with timestamp (s), input_tokens, output_tokens, the fields of a request of ServeGen's
/// generate_workload; others are ignored.
///   https://github.com/alibaba/ServeGen, examples/basic_usage.py
/// log: the project's own.
/// lengths: CSV whose columns are named; without an arrival column all requests come at 0.
enum class RequestLogKind { mooncake, azure, burstgpt, lengths, benchmark, log, sharegpt, bailian, servegen };

struct RequestImport {
  RequestLogKind kind = RequestLogKind::lengths;
  std::string arrival, prompt = "prompt_tokens", output = "output_tokens";  // lengths: columns
  double arrival_units_per_s = 1;                                           // lengths: 1000 for milliseconds
  ShareGptImport sharegpt;
  bool skip_failed = false;  // leave out requests without output instead of refusing them
};

struct ImportedRequests {
  std::vector<RequestRecord> requests;
  std::uint64_t conversations = 0;  // of sharegpt
  std::uint64_t skipped = 0;        // failed ones, where they are left out
};

/// Throws InputError with file, line and column.
ImportedRequests import_requests(const std::filesystem::path& input, const RequestImport& how,
                                 const Progress& progress);

}  // namespace moelab
