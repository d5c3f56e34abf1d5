// Random streams of requests for sglang, and its steps held against those of the rules implemented anew.
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "tests/policies/request_streams.hpp"
#include "tests/policies/sglang_reference.hpp"

namespace moelab::sglang_streams {

using namespace moelab::request_streams;

inline constexpr const char* kName = "sglang";

struct Stream {
  BatchingShape shape;
  SglangOptions options;
  bool resizes = false;
  std::vector<BatchRequest> requests;  // that fit alone
  std::deque<std::vector<TokenPart>> parts;

  std::unique_ptr<BatchingPolicy> policy() const {
    const auto flag = [](bool set) { return set ? 1.0 : 0.0; };
    return make(kName, shape,
                {{"schedule_policy", options.schedule_policy},
                 {"chunked_prefill_size", options.chunked_prefill_size},
                 {"max_prefill_tokens", options.max_prefill_tokens},
                 {"enable_mixed_chunk", flag(options.mixed)},
                 {"schedule_conservativeness", options.conservativeness},
                 {"disable_radix_cache", flag(!options.radix)},
                 {"disable_overlap_schedule", flag(!options.overlap)}});
  }
};

inline SglangOptions random_options(std::mt19937_64& random) {
  SglangOptions options;
  options.schedule_policy = static_cast<int>(random() % 3);
  options.chunked_prefill_size = random() % 4 == 0 ? 0 : from_to(random, 1, 40);
  if (random() % 2 == 0) options.max_prefill_tokens = from_to(random, 1, 60);
  options.mixed = random() % 3 == 0;
  options.radix = random() % 4 != 0;
  options.overlap = random() % 2 == 0;
  options.conservativeness = std::vector<double>{0, 0.1, 0.5, 1, 1, 2}[random() % 6];
  return options;
}

/// A fourth of them are so long that requests share more than 32 tokens and make more than 20 after a
/// retraction.
inline Stream random_stream(std::mt19937_64& random) {
  Stream stream;
  const std::uint32_t scale = random() % 4 == 0 ? 4 : 1;
  stream.shape.kv = {random() % 3 == 0 ? 1 : from_to(random, 1, 5), from_to(random, 1, 24 * scale), 0};
  if (random() % 4 == 0) stream.shape.kv.state_blocks = from_to(random, 1, 3);
  stream.shape.kv.shares_beginnings = stream.shape.kv.state_blocks == 0;  // its windows have a pool
  stream.shape.max_requests = from_to(random, 1, 8);
  stream.shape.max_tokens = stream.shape.max_requests + from_to(random, 0, 40 * scale);
  stream.options = random_options(random);
  stream.resizes = random() % 6 == 0;
  const auto policy = stream.policy();
  const Texts texts(random, 14 * scale);
  const bool some_prefilled = random() % 4 == 0;
  for (std::uint32_t i = 0, n = from_to(random, 1, 14); i < n; ++i) {
    BatchRequest request{100 - i, from_to(random, 1, 20 * scale), from_to(random, 1, scale == 1 ? 12 : 90),
                         some_prefilled && random() % 3 == 0};
    if (!policy->misfit(request).empty()) continue;
    if (random() % 5 != 0) {
      const std::uint32_t most = request.prompt_tokens + (random() % 2 == 0 ? request.output_tokens : 0);
      request.parts = stream.parts.emplace_back(texts.draw(random, most));
    }
    stream.requests.push_back(request);
  }
  return stream;
}

struct Seen {
  std::uint64_t steps = 0, retracted = 0, restarted = 0, chunks = 0, mixed = 0, finished = 0;
  std::uint64_t found = 0, found_in_use = 0, doubles = 0;  // blocks
  void count(const BatchStep& step) {
    ++steps;
    retracted += step.dropped.size();
    restarted += step.restarted.size();
    finished += step.finished.size();
    bool prompts = false, decodes = false;
    for (const StepShare& share : step.shares) {
      chunks += share.produces ? 0 : 1;
      (share.prompt ? prompts : decodes) = true;
    }
    mixed += prompts && decodes ? 1 : 0;
  }
};

inline void compare(std::mt19937_64& random, const Stream& stream, Seen& seen) {
  SglangReference reference(stream.shape, stream.options);
  compare_steps(random, stream, reference, [&](const BatchStep& step) { seen.count(step); });
  seen.found += reference.found;
  seen.found_in_use += reference.found_in_use;
  seen.doubles += reference.doubles;
}

}  // namespace moelab::sglang_streams
