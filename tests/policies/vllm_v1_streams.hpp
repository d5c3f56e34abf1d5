// Random streams of requests for vllm-v1, and its steps held against those of the rules implemented anew.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/policies/request_streams.hpp"
#include "tests/policies/vllm_v1_reference.hpp"

namespace moelab::vllm_v1_streams {

using namespace moelab::request_streams;

inline constexpr const char* kName = "vllm-v1";

struct Stream {
  BatchingShape shape;
  bool async = false, reserve = false, prefix_cache = false, resizes = false, priority = false;
  std::vector<BatchRequest> requests;  // that fit alone
  std::unique_ptr<BatchingPolicy> policy() const {
    return make(kName, shape,
                {{"async", async ? 1.0 : 0.0},
                 {"reserve", reserve ? 1.0 : 0.0},
                 {"prefix_cache", prefix_cache ? 1.0 : 0.0},
                 {"scheduling", priority ? 1.0 : 0.0}});
  }
};

inline Stream random_stream(std::mt19937_64& random) {
  Stream stream;
  stream.shape.kv = {from_to(random, 1, 5), from_to(random, 1, 24), 0};
  if (random() % 4 == 0) stream.shape.kv.state_blocks = from_to(random, 1, 3);
  stream.shape.kv.shares_beginnings = random() % 8 != 0;
  stream.shape.max_requests = from_to(random, 1, 8);
  stream.shape.max_tokens = stream.shape.max_requests + from_to(random, 0, 40);
  stream.async = random() % 2 == 0;
  stream.reserve = random() % 2 == 0;
  stream.prefix_cache = random() % 3 != 0;
  stream.resizes = random() % 4 == 0;
  stream.priority = random() % 2 == 0;
  const auto policy = stream.policy();
  for (std::uint32_t i = 0, n = from_to(random, 1, 14); i < n; ++i) {
    BatchRequest request{100 - i, from_to(random, 1, 20), from_to(random, 1, 12), random() % 8 == 0};
    request.priority = static_cast<std::int32_t>(random() % 4) - 1;
    if (policy->misfit(request).empty()) stream.requests.push_back(request);
  }
  return stream;
}

struct Seen {
  std::uint64_t steps = 0, preempted = 0, restarted = 0, chunks = 0, finished = 0;
  std::uint64_t found = 0, found_in_use = 0, copies = 0;  // blocks
  std::uint64_t taken_back = 0;                           // requests
  void count(const BatchStep& step) {
    ++steps;
    preempted += step.dropped.size();
    restarted += step.restarted.size();
    finished += step.finished.size();
    for (const StepShare& share : step.shares) chunks += share.produces ? 0 : 1;
  }
};

inline void compare(std::mt19937_64& random, const Stream& stream, Seen& seen) {
  V1Reference reference(stream.shape, stream.async, stream.reserve, stream.prefix_cache, stream.priority);
  compare_steps(random, stream, reference, [&](const BatchStep& step) { seen.count(step); });
  seen.found += reference.found;
  seen.found_in_use += reference.found_in_use;
  seen.copies += reference.copies;
  seen.taken_back += reference.taken_back;
}

}  // namespace moelab::vllm_v1_streams
