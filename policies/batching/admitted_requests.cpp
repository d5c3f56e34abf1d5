#include "policies/batching/admitted_requests.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {

void check_shape(const BatchingShape& shape, std::uint32_t each) {
  if (shape.kv.block_tokens == 0) throw InputError("", "a KV block of 0 tokens, expected 1 at least");
  if (shape.max_requests == 0) throw InputError("", "batches of 0 requests, expected 1 at least");
  const std::uint64_t least = std::uint64_t{shape.max_requests} * each;
  if (shape.max_tokens < least)
    throw InputError("", "a step runs at most " + std::to_string(shape.max_tokens) + " tokens, expected " +
                             std::to_string(least) + " at least, " +
                             (each == 1 ? "one" : std::to_string(each)) + " for each request of a batch" +
                             (each == 1 ? "" : ", its drafts with it"));
}

std::string misfit_of(const BatchRequest& request, const BatchingShape& shape, std::uint64_t at_once,
                      const char* why) {
  const std::uint64_t tokens = final_tokens(request);
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() - 1;
  if (tokens > most)
    return "has " + std::to_string(tokens) + " tokens, at most " + std::to_string(most) + " can be counted";
  const std::uint64_t blocks = request_blocks(tokens, shape.kv);
  if (blocks > shape.kv.gpu_blocks)
    return "needs " + std::to_string(blocks) + " blocks of " + std::to_string(shape.kv.block_tokens) +
           " tokens" +
           (shape.kv.state_blocks > 0
                ? ", " + std::to_string(shape.kv.state_blocks) + " of them whatever its length"
                : "") +
           ", there are " + std::to_string(shape.kv.gpu_blocks);
  if (at_once > shape.max_tokens)
    return "needs a step of " + std::to_string(at_once) + " tokens " + why + ", a step has at most " +
           std::to_string(shape.max_tokens);
  return "";
}

void clear(BatchStep& step) {
  step.shares.clear();
  step.rows = step.recomputed = step.blocks_out = step.blocks_in = 0;
  step.of_ranks.clear();
  for (std::vector<std::uint32_t>* ids : {&step.fetches, &step.admitted, &step.restarted, &step.resumed,
                                          &step.swapped_out, &step.dropped, &step.finished})
    ids->clear();
}

std::uint32_t rows_to_run(const BatchedRequest& request, const BatchingShape& shape) {
  const std::uint32_t missing = request.known - request.cached;
  return request.prompt ? missing : missing + std::min(shape.drafts, request.left - 1);
}

void add_share(BatchedRequest& request, std::uint32_t rows, BatchStep& step) {
  assert(rows >= 1 && request.rows == 0);
  assert(rows <= request.known - request.cached + (request.prompt ? 0 : request.left - 1));
  const bool produces = request.cached + rows >= request.known && !(request.prompt && request.ask.encoded);
  step.shares.push_back({.request = request.ask.id,
                         .tokens = rows,
                         .context = request.cached,
                         .prompt = request.prompt,
                         .produces = produces});
  step.rows += rows;
  step.recomputed += std::min(rows, request.reached - request.cached);
  if (produces && request.left == 1) step.finished.push_back(request.ask.id);
  request.share = step.shares.size() - 1;
  request.rows = rows;
}

bool complete_share(BatchedRequest& request) {
  request.cached += request.rows - std::exchange(request.refused, 0);
  request.rows = 0;
  request.reached = std::max(request.reached, request.cached);
  if (request.cached < request.known) return false;
  const std::uint32_t produced = request.cached + 1 - request.known;
  request.known += produced;
  const bool encoded = std::exchange(request.prompt, false) && request.ask.encoded;
  if (!encoded) request.left -= produced;
  return request.left == 0;
}

}  // namespace moelab
