// static: request-level batching, the floor that Orca (Yu et al., OSDI 2022, section 3.1) measures against. A
// batch is taken, runs to the end of its longest request, and only then is the next one taken.
//
//   form: if the batch is empty: take waiting requests, first come first, while
//           requests <= max_requests,  blocks of all of them at their ends <= gpu_blocks
//         while a prompt of the batch has not run: run whole ones, first come first, while rows <=
//         max_tokens;
//           where there are micro-batches: the next micro_batch tokens of them, first come first
//         then: one token of each request that is not done, and its drafts
//
// Blocks are promised up to each request's end, so none is ever preempted and swap space is not used. A
// promise ends with its request, and the cache may shrink to what is still promised.
//
// Deviation: engines of this kind go on computing padding rows for requests that are done ("extra
// computation for inactive requests"); here these run no rows, which favours this policy.
#include <algorithm>
#include <stdexcept>

#include "policies/batching/admitted_requests.hpp"

namespace moelab {
namespace {

class StaticBatching final : public BatchingPolicy {
 public:
  explicit StaticBatching(const BatchingShape& shape) : shape_(shape) {}

  std::string misfit(const BatchRequest& request) const override {
    return misfit_of(request, shape_, request.prefilled ? 1 : request.prompt_tokens, "for its prompt");
  }
  void arrive(const BatchRequest& request) override { waiting_.push(request); }

  bool form(BatchStep& step) override {
    clear(step);
    if (batch_.empty()) take_batch(step);
    const bool prompts = std::any_of(batch_.begin(), batch_.end(),
                                     [](const BatchedRequest& request) { return request.prompt; });
    for (BatchedRequest& request : batch_) {
      if (request.prompt != prompts) continue;
      const std::uint32_t rows = rows_of(request, step);
      if (rows == 0 || step.rows + rows > shape_.max_tokens) break;
      request.blocks = request_blocks(tokens_to_hold(request, shape_), shape_.kv);
      add_share(request, rows, step);
    }
    return !step.shares.empty();
  }

  void refuse(std::span<const std::uint32_t> refused) override { refuse_drafts(batch_, refused); }

  void complete() override {
    for (BatchedRequest& request : batch_)
      if (complete_share(request)) promised_ -= blocks_at_end(request.ask);
    std::erase_if(batch_, [](const BatchedRequest& request) { return request.left == 0; });
  }

  void resize(std::uint64_t gpu_blocks) override {
    if (gpu_blocks < promised_)
      throw std::invalid_argument("static batching: " + std::to_string(promised_) +
                                  " blocks are promised, the KV cache cannot shrink to " +
                                  std::to_string(gpu_blocks));
    shape_.kv.gpu_blocks = gpu_blocks;
  }

  KvUse use() const override {
    KvUse use{.gpu_floor = promised_, .running = batch_.size(), .waiting = waiting_.size()};
    for (const BatchedRequest& request : batch_) use.gpu_blocks += request.blocks;
    return use;
  }

 private:
  /// What is to run of it, or as much of its prompt as the step's micro-batch has left.
  std::uint32_t rows_of(const BatchedRequest& request, const BatchStep& step) const {
    const std::uint32_t rows = rows_to_run(request, shape_);
    if (!request.prompt || request.ask.encoded || shape_.micro_batch == 0) return rows;
    return std::min(rows, shape_.micro_batch - static_cast<std::uint32_t>(step.rows));
  }

  std::uint64_t blocks_at_end(const BatchRequest& request) const {
    return request_blocks(final_tokens(request), shape_.kv);
  }

  void take_batch(BatchStep& step) {
    for (; !waiting_.empty() && batch_.size() < shape_.max_requests; waiting_.pop()) {
      BatchedRequest request(waiting_.front());
      const std::uint64_t blocks = blocks_at_end(request.ask);
      if (request.known - request.cached > shape_.max_tokens || promised_ + blocks > shape_.kv.gpu_blocks)
        return;
      promised_ += blocks;
      request.blocks = request_blocks(request.cached, shape_.kv);
      batch_.push_back(request);
      step.admitted.push_back(request.ask.id);
    }
  }

  BatchingShape shape_;
  ArrivalQueue waiting_;
  std::vector<BatchedRequest> batch_;  // those not done
  std::uint64_t promised_ = 0;         // blocks of the batch at its requests' ends
};

}  // namespace

BatchingPolicyEntry static_batching_entry() {
  return {.info = {.name = "static",
                   .help = "a batch runs until all its requests are done, then the next one is taken",
                   .source = "request-level batching, as in Orca (Yu et al., OSDI 2022), section 3.1"},
          .static_batches = true,
          .speculates = true,
          .make = [](const BatchingShape& shape, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
            check_shape(shape, 1 + shape.drafts);
            return std::make_unique<StaticBatching>(shape);
          }};
}

}  // namespace moelab
