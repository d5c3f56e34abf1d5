// What the tests of batching share: policies by name, and steps in short.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "policies/batching/batching.hpp"

namespace moelab::batching_steps {

using Ids = std::vector<std::uint32_t>;

inline std::unique_ptr<BatchingPolicy> make(std::string_view name, const BatchingShape& shape,
                                            const PolicyParameters& parameters = {}) {
  const BatchingPolicyEntry* const entry = find_batching_policy(name);
  REQUIRE(entry != nullptr);
  return entry->make(shape, parameters);
}

inline BatchingShape shape_of(std::uint32_t block_tokens, std::uint64_t gpu_blocks,
                              std::uint64_t host_blocks = 0) {
  return {.kv = {block_tokens, gpu_blocks, host_blocks}, .max_requests = 8, .max_tokens = 100};
}

/// A step in short: "7p4@2*" is request 7 running 4 prompt rows after 2 tokens, and getting a token; d:
/// decode.
inline std::string text(const BatchStep& step) {
  std::string all;
  for (const StepShare& share : step.shares)
    all += (all.empty() ? "" : " ") + std::to_string(share.request) + (share.prompt ? "p" : "d") +
           std::to_string(share.tokens) + "@" + std::to_string(share.context) + (share.produces ? "*" : "");
  const auto list = [&all](const char* what, const Ids& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      all += (i == 0 ? std::string(", ") + what + " " : "+") + std::to_string(ids[i]);
  };
  list("admitted", step.admitted);
  list("restarted", step.restarted);
  list("resumed", step.resumed);
  list("swapped", step.swapped_out);
  list("dropped", step.dropped);
  list("finished", step.finished);
  if (step.recomputed > 0) all += ", again " + std::to_string(step.recomputed);
  if (step.blocks_out > 0) all += ", out " + std::to_string(step.blocks_out);
  if (step.blocks_in > 0) all += ", in " + std::to_string(step.blocks_in);
  return all;
}

/// Forms the next step, runs it, and says what it was; "-" where there is none.
inline std::string next(BatchingPolicy& policy) {
  BatchStep step;
  const bool runs = policy.form(step);
  CHECK(runs == !step.shares.empty());
  if (!runs) return "-" + text(step);
  policy.complete();
  return text(step);
}

}  // namespace moelab::batching_steps
