// Batching family: which requests form a step. A policy counts tokens and blocks of the paged KV cache; it
// knows no engine, no clock and no bytes. Any block serves any request, so counts are enough, but for blocks
// that requests share: which tokens are the same, their parts say.
//
// The serving loop announces requests in order of arrival, asks for a step, runs it, and says that it has
// run:
//
//   arrive(...); arrive(...);
//   while (policy.form(step)) { ...blocks_out leave, blocks_in come, shares run...; policy.complete(); }
//
// Speculative decoding (BatchingShape::drafts): a decode share may run drafted tokens behind the one that is
// known. Before complete() the policy hears how many of each share's last tokens were refused:
//
//   policy.form(step); ...; if (any was refused) policy.refuse(...); policy.complete();
//
// Disaggregated prefill, where one instance runs a prompt and another one goes on (DistServe, OSDI 2024;
// vLLM's KV connectors): the decoding side takes a fetched request's blocks before its keys and values are
// sent (BatchStep::fetches), and the prefilling side keeps a kept request's until they are:
//
//   decoding side:    arrive(fetched); form(step) ...fetches are sent...; policy.receive(id); form(step)...
//   prefilling side:  arrive(kept); ...its last token...; ...sent...; policy.release(id);
//
// The cache of a request. A step that runs a token puts its keys and values there, so a request that is to
// produce its token number g + 1 has all tokens before it in the cache once that step has run: the prompt and
// g tokens. The last token is never run: prompt_tokens + output_tokens - 1 are there in the end (and one more
// for requests that come prefilled).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

/// Some of a request's tokens, which others may have too: from the end of the part before it (the first
/// token) to `end`. Two requests whose parts have the same ids up to some part have the same tokens as far as
/// both reach; a part begins at the same token wherever it is, and behind the same ones.
struct TokenPart {
  std::uint64_t id = 0;
  std::uint32_t end = 0;  // tokens from the request's first; parts' ends rise
  bool operator==(const TokenPart&) const = default;
};

/// A request as the batcher sees it. Output has one token at least, and the prompt too unless it is
/// prefilled.
struct BatchRequest {
  std::uint32_t id = 0;  // only handed back; two requests that are there at once have different ones
  std::uint32_t prompt_tokens = 1;
  std::uint32_t output_tokens = 1;  // tokens to be produced here
  /// Disaggregated prefill: the prompt's keys and values come with it, and the first token, which is not one
  /// of output_tokens. Its first step is a decode step that runs this token.
  bool prefilled = false;
  /// An encoder-decoder's: the prompt runs through the encoder and produces no token; the first one comes
  /// from a decode step of its own, which runs the start token.
  bool encoded = false;
  /// Of what tokens it is made, of its prompt and what it will generate; behind the last part they are its
  /// own, which no other request has. They outlive the request.
  std::span<const TokenPart> parts = {};
  /// Its blocks stay in use behind its last token, until release(). Only of policies that hand over.
  bool kept = false;
  /// Of a prefilled one: its keys and values do not come with it, but into blocks that it takes first. It is
  /// admitted once they are there (receive()). Likewise.
  bool fetched = false;
  std::int32_t priority = 0;  // lower goes first, to policies that go by it
  bool operator==(const BatchRequest& other) const {
    return id == other.id && prompt_tokens == other.prompt_tokens && output_tokens == other.output_tokens &&
           prefilled == other.prefilled && encoded == other.encoded && kept == other.kept &&
           fetched == other.fetched && std::ranges::equal(parts, other.parts) && priority == other.priority;
  }
};

struct KvShape {
  std::uint32_t block_tokens = 16;  // tokens a block holds, 1 at least
  std::uint64_t gpu_blocks = 0;
  std::uint64_t host_blocks = 0;  // swap space
  /// That each admitted request holds besides those of its tokens, from its admission to its end, wherever
  /// they are: for what does not grow with it, such as the states of linear attention and Mamba-2, and what
  /// the windows of sliding attention leave.
  std::uint64_t state_blocks = 0;
  /// Whether blocks hold all that another request with the same beginning needs: not of a model with states.
  bool shares_beginnings = true;
};

struct BatchingShape {
  KvShape kv;
  std::uint32_t max_requests = 256;  // that run at once (vLLM: max_num_seqs)
  std::uint32_t max_tokens = 2048;   // that a step runs (vLLM: max_num_batched_tokens); >= max_requests
  /// Of prompts, that a step of static batches runs, one prompt in several steps where it is longer
  /// (llama.cpp: --ubatch-size); 0: whole prompts. An encoder always reads a whole one.
  std::uint32_t micro_batch = 0;
  /// Tokens that are drafted for each decode share, to be verified in it; never more than the request has
  /// left to produce but one, which the step produces itself. 0: there is no speculative decoding.
  std::uint32_t drafts = 0;
};

/// What one request does in a step.
struct StepShare {
  std::uint32_t request = 0;  // its id
  std::uint32_t tokens = 0;   // that run, one row each
  std::uint32_t context = 0;  // tokens in its cache before the step; at first those found of others
  bool prompt = false;     // rows of a prompt, or of what is computed again; else one decode row and drafts
  bool produces = false;   // gets a token: not so for chunks of a prompt before its last
  std::uint16_t rank = 0;  // whose request it is, where several ranks have their own (rank_batching.hpp)
  bool operator==(const StepShare&) const = default;
};

/// Blocks of one rank's KV cache on their way: GPU to host before the step runs, and before that, host to
/// GPU.
struct BlockMoves {
  std::uint64_t out = 0, in = 0;
  bool operator==(const BlockMoves&) const = default;
};

/// A step. Vectors of ids are in the order in which things were decided.
struct BatchStep {
  std::vector<StepShare> shares;           // no request twice
  std::uint64_t rows = 0;                  // tokens of all shares
  std::uint64_t recomputed = 0;            // of these, tokens that have been in the cache before
  std::uint64_t blocks_out = 0;            // GPU to host before the step runs, and before
  std::uint64_t blocks_in = 0;             // host to GPU, likewise
  std::vector<std::uint32_t> fetches;      // take their blocks, for what is then sent; they wait for that
  std::vector<std::uint32_t> admitted;     // for the first time
  std::vector<std::uint32_t> restarted;    // dropped before, admitted again
  std::vector<std::uint32_t> resumed;      // swapped in
  std::vector<std::uint32_t> swapped_out;  // preempted, their blocks go to the host
  std::vector<std::uint32_t> dropped;      // preempted, their cache is lost
  std::vector<std::uint32_t> finished;     // get their last token in this step, whatever drafts are refused
  std::vector<BlockMoves> of_ranks;        // where several ranks form a step: what each swaps
  bool operator==(const BatchStep&) const = default;
};

/// Where blocks and requests are: after form(), while the step runs; after complete(), between steps.
struct KvUse {
  std::uint64_t gpu_blocks = 0;   // in use, with those of kept and of fetched requests
  std::uint64_t gpu_floor = 0;    // promised: resize() to fewer is refused
  std::uint64_t host_blocks = 0;  // in use
  std::uint64_t running = 0;      // requests, as the next two
  std::uint64_t waiting = 0;      // not yet admitted, or dropped
  std::uint64_t swapped = 0;
  bool operator==(const KvUse&) const = default;
};

class BatchingPolicy {
 public:
  virtual ~BatchingPolicy() = default;
  /// Why `request` could never run to its end in the present KV cache, even alone, as a sentence's end with
  /// the numbers ("needs 12 blocks of 16 tokens, there are 10"); "" where it can. A request announced all the
  /// same waits, and those behind it, until resize() makes room.
  virtual std::string misfit(const BatchRequest& request) const = 0;
  /// In order of arrival, at any time: a request that comes between form() and complete() is in no step
  /// before the next.
  virtual void arrive(const BatchRequest& request) = 0;
  /// Fills `step` (what it held is dropped; its memory is reused). False: nothing can run before another
  /// request arrives, a kept one is released or a fetched one received, or, where use() has some that wait or
  /// are swapped, the cache grows; `step` then has no shares, but may have fetches, and preemptions after the
  /// cache shrank. Allocates nothing once warm.
  virtual bool form(BatchStep& step) = 0;
  /// Before complete(), where any draft was refused: by share of the formed step, how many of its last tokens
  /// were. They leave the request's cache, whose next share begins in their place; a decode share of n tokens
  /// of which r were refused has produced n - r. Only of policies that speculate (BatchingPolicyEntry).
  virtual void refuse(std::span<const std::uint32_t> /*refused*/) {}
  /// The formed step has run: caches have grown, requests that have got their last token leave and their
  /// blocks are free.
  virtual void complete() = 0;
  /// At any time: a kept request's blocks, which has got its last token, are free.
  virtual void release(std::uint32_t /*id*/) {}
  /// At any time: what a fetched request took blocks for is there.
  virtual void receive(std::uint32_t /*id*/) {}
  /// The GPU has `gpu_blocks` blocks from now on; only between steps. Where more are in use, the next form()
  /// preempts. Throws std::invalid_argument below use().gpu_floor.
  virtual void resize(std::uint64_t gpu_blocks) = 0;
  virtual KvUse use() const = 0;
};

struct BatchingPolicyEntry {
  PolicyInfo info;
  bool static_batches = false;  // a batch runs until all its requests are done, prompts by micro_batch
  bool speculates = false;      // its decode shares run drafts, and it hears what was refused
  bool hands_over = false;      // it knows kept and fetched requests (of moelab's own: no guard checks that)
  /// Of layers with a sliding window: 1 where a block holds its tokens for them as for others; 0 where they
  /// keep what the window leaves, in blocks that each request has besides (KvShape::state_blocks); between
  /// where they have a pool of their own, for so many tokens for each of the others'.
  double windowed_share = 1;
  /// Whether a prompt may run in several steps with these parameters, beside others'; empty: never.
  std::function<bool(const PolicyParameters& parameters)> chunks = {};
  /// Whether it goes by requests' priorities with these parameters; empty: never.
  std::function<bool(const PolicyParameters& parameters)> by_priority = {};
  /// Throws InputError for a shape with a zero or with max_tokens < max_requests (one token of each request
  /// that runs must fit into a step; where the policy says so, its drafts too), and for parameters that the
  /// policy's row does not allow.
  std::function<std::unique_ptr<BatchingPolicy>(const BatchingShape& shape,
                                                const PolicyParameters& parameters)>
      make;
};
/// The family's one table.
PolicyTable<BatchingPolicyEntry>& batching_policies();
/// nullptr when there is no such policy.
const BatchingPolicyEntry* find_batching_policy(std::string_view name);

/// Blocks that hold `tokens` tokens.
constexpr std::uint64_t kv_blocks(std::uint64_t tokens, std::uint32_t block_tokens) {
  return tokens / block_tokens + (tokens % block_tokens != 0 ? 1 : 0);
}
/// Blocks of an admitted request with `tokens` tokens.
constexpr std::uint64_t request_blocks(std::uint64_t tokens, const KvShape& shape) {
  return kv_blocks(tokens, shape.block_tokens) + shape.state_blocks;
}
/// Tokens that `request` has before it produces its first one here.
constexpr std::uint64_t given_tokens(const BatchRequest& request) {
  return std::uint64_t{request.prompt_tokens} + (request.prefilled || request.encoded ? 1 : 0);
}
/// Tokens in its cache in the end, the most it ever has there.
constexpr std::uint64_t final_tokens(const BatchRequest& request) {
  return given_tokens(request) + request.output_tokens - 1;
}

}  // namespace moelab
