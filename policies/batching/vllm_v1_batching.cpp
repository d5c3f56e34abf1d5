// vllm-v1: one budget of tokens a step, as vLLM's V1 engine schedules (vllm/v1/core/sched/scheduler.py, 0.19,
// its policy "fcfs"). There are no phases: a request runs what it has and its cache has not, prompts in
// chunks where the budget ends.
//
//   form:
//     for each running request, first admitted first, while there is budget:
//       rows = min(tokens known - tokens cached + drafts, budget)
//       while blocks for cached + rows are not free:  preempt the last admitted; it was this one: stop
//     if none was preempted:
//       while there is budget and running < max_requests:
//         admit the first that waits, with min(known - cached, budget) rows, if
//           reserve:  blocks of all its tokens are free,  though it takes those of its rows only
//           else:     blocks of its rows are
//   preempt:  its blocks are free, it waits before all others, and its tokens so far run again as a prompt
//
// prefix_cache: full blocks of a preempted request are found again where no other request took them
// meanwhile, so that what is left of its beginning does not run again. Blocks are taken in the order in which
// they became free, of a request its last ones first. Prefixes that requests share are not known here.
//
// async (AsyncScheduler, step_with_batch_queue; vLLM's default since 0.14): a step is formed while the one
// before it runs. Who came during that step is not seen before the step after, and who got the last token in
// it holds place and blocks until then.
//
// Drafted tokens (num_tokens_with_spec) count as rows and take blocks as others do; the budget may cut them.
// Refused ones leave the cache (update_from_output: num_computed_tokens -= num_rejected), while the request
// keeps their blocks for what comes in their place. Where a model or a head drafts, vLLM holds blocks for as
// many tokens more (num_lookahead_tokens), into which that writes its keys and values of the next drafts;
// here drafts are made at the begin of the step that verifies them, into the blocks that it takes for them.
//
// Deviations, each so that every request which fits alone runs to its end:
// - A step that came out empty is formed again at once, as the engine's next turn would: with what came and
//   ended meanwhile, and with requests that were preempted.
// - After resize() to fewer blocks the last admitted are preempted first. vLLM's cache has one size.
// - A cache that is resized forgets what was free, and requests with states (state_blocks) find nothing
//   again.
// - async: a step that is formed while drafts are verified knows how many were accepted. vLLM counts all of
//   them as accepted until it hears otherwise, so that it holds blocks for some tokens more.
// - No more is drafted than a request can use up to its last token; vLLM drafts as many as ever.
// - Requests that come prefilled take the blocks of all their tokens; vLLM's KV connectors do the same.
#include <algorithm>

#include "policies/batching/admitted_requests.hpp"
#include "policies/batching/free_blocks.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

struct VllmV1Settings {
  bool async = true;
  bool reserve = true;
  bool prefix_cache = true;
};

class VllmV1Batching final : public BatchingPolicy {
 public:
  VllmV1Batching(const BatchingShape& shape, const VllmV1Settings& settings)
      : shape_(shape), settings_(settings) {
    free_.reset(shape.kv.gpu_blocks);
  }

  std::string misfit(const BatchRequest& request) const override { return misfit_of(request, shape_, 0, ""); }

  void arrive(const BatchRequest& request) override {
    waiting_.push(request);
    if (!settings_.async) seen_ = waiting_.size();
  }

  bool form(BatchStep& step) override {
    clear(step);
    std::size_t dropped = 0;
    do {
      dropped = step.dropped.size();
      schedule(step);
    } while (step.shares.empty() && (settle() || step.dropped.size() > dropped));
    settle();
    return !step.shares.empty();
  }

  void refuse(std::span<const std::uint32_t> refused) override { refuse_drafts(running_, refused); }

  void complete() override {
    for (BatchedRequest& request : running_) {
      if (request.rows == 0 || !complete_share(request)) continue;
      ++leaving_;
      leaving_blocks_ += request.blocks;
    }
    std::erase_if(running_, [](const BatchedRequest& request) { return request.left == 0; });
    if (!settings_.async) settle();
  }

  void resize(std::uint64_t gpu_blocks) override {
    shape_.kv.gpu_blocks = gpu_blocks;
    free_.reset(gpu_blocks > gpu_used_ ? gpu_blocks - gpu_used_ : 0);
  }

  KvUse use() const override {
    return {.gpu_blocks = gpu_used_,
            .gpu_floor = 0,
            .host_blocks = 0,
            .running = running_.size(),
            .waiting = dropped_.size() + waiting_.size(),
            .swapped = 0};
  }

 private:
  /// A request that was preempted, and how many of its blocks were full.
  struct Dropped {
    BatchedRequest request;
    std::uint64_t full = 0;
  };

  void give(std::uint64_t owner, std::uint64_t blocks) {
    gpu_used_ -= blocks;
    const std::uint64_t now_free = shape_.kv.gpu_blocks > gpu_used_ ? shape_.kv.gpu_blocks - gpu_used_ : 0;
    free_.give(owner, std::min(blocks, now_free - free_.count()));
  }
  void take(std::uint64_t blocks) {
    gpu_used_ += blocks;
    free_.take(blocks);
  }

  /// What came and what ended during the step before is known now. Says whether that was anything.
  bool settle() {
    const bool any = leaving_ > 0 || seen_ < waiting_.size();
    give(FreeBlocks::kNoOwner, leaving_blocks_);
    leaving_ = leaving_blocks_ = 0;
    seen_ = waiting_.size();
    return any;
  }

  std::uint32_t rows_within(const BatchedRequest& request, const BatchStep& step) const {
    const auto budget = static_cast<std::uint32_t>(shape_.max_tokens - step.rows);
    return std::min(rows_to_run(request, shape_), budget);
  }
  bool has_budget(const BatchStep& step) const { return step.rows < shape_.max_tokens; }
  bool has_room(std::uint64_t more) const { return gpu_used_ + more <= shape_.kv.gpu_blocks; }

  void schedule(BatchStep& step) {
    const std::size_t dropped = step.dropped.size();
    while (!has_room(0) && !running_.empty()) preempt_last(step);
    run_running(step);
    if (step.dropped.size() == dropped) admit_waiting(step);
  }

  void run_running(BatchStep& step) {
    for (std::size_t i = 0; i < running_.size() && has_budget(step); ++i) {
      const std::uint32_t rows = rows_within(running_[i], step);
      const std::uint64_t held = running_[i].blocks;
      const std::uint64_t more =
          std::max(request_blocks(std::uint64_t{running_[i].cached} + rows, shape_.kv), held) - held;
      // Those behind this one are not in the step yet; at worst it is this one that gives way.
      while (i < running_.size() && !has_room(more)) preempt_last(step);
      if (i == running_.size()) return;
      running_[i].blocks += more;
      take(more);
      add_share(running_[i], rows, step);
    }
  }

  void preempt_last(BatchStep& step) {
    BatchedRequest request = running_.back();
    running_.pop_back();
    give(request.place, request.blocks);
    const bool found_again = settings_.prefix_cache && shape_.kv.state_blocks == 0;
    const std::uint64_t full = found_again ? request.cached / shape_.kv.block_tokens : 0;
    request.blocks = 0;
    request.cached = 0;
    request.prompt = true;
    step.dropped.push_back(request.ask.id);
    dropped_.push_back({request, full});
  }

  /// Of what it lost, from its beginning; at least one token runs again, the one that makes the next.
  std::uint64_t blocks_found(const Dropped& dropped) const {
    const std::uint64_t readable = std::min(dropped.full, free_.kept(dropped.request.place));
    return std::min<std::uint64_t>(readable, (dropped.request.known - 1) / shape_.kv.block_tokens);
  }

  void admit_waiting(BatchStep& step) {
    while (has_budget(step) && running_.size() + leaving_ < shape_.max_requests) {
      if (dropped_.empty() && seen_ == 0) return;
      const bool restarts = !dropped_.empty();
      BatchedRequest request =
          restarts ? dropped_.back().request : BatchedRequest(waiting_.front(), admitted_);
      const std::uint64_t found = restarts ? blocks_found(dropped_.back()) : 0;
      request.cached += static_cast<std::uint32_t>(found * shape_.kv.block_tokens);
      // All that it had is there again: it goes on with the token that it was at.
      if (restarts && request.known > request.ask.prompt_tokens)
        request.prompt = request.cached + 1 < request.known;
      const std::uint32_t rows = rows_within(request, step);
      const std::uint64_t all = request_blocks(tokens_to_hold(request, shape_), shape_.kv);
      const std::uint64_t taken = request_blocks(std::uint64_t{request.cached} + rows, shape_.kv);
      if (!has_room(settings_.reserve ? all : taken)) return;
      if (restarts) {
        dropped_.pop_back();
        step.restarted.push_back(request.ask.id);
      } else {
        waiting_.pop();
        --seen_;
        ++admitted_;
        step.admitted.push_back(request.ask.id);
      }
      request.blocks = taken;
      if (restarts) free_.claim(request.place, found);
      gpu_used_ += found;
      take(taken - found);
      add_share(request, rows, step);
      running_.push_back(request);
    }
  }

  BatchingShape shape_;
  const VllmV1Settings settings_;
  std::vector<BatchedRequest> running_;  // in the order of their last admission
  std::vector<Dropped> dropped_;         // they wait before all others, the last one first
  ArrivalQueue waiting_;
  std::size_t seen_ = 0;              // of waiting_, from its front: known to the scheduler
  std::uint64_t leaving_ = 0;         // requests that have ended, of which it does not know yet
  std::uint64_t leaving_blocks_ = 0;  // what they hold
  std::uint64_t admitted_ = 0;        // requests so far
  std::uint64_t gpu_used_ = 0;
  FreeBlocks free_;  // all others, where the cache has not shrunk below what is in use
};

PolicyInfo vllm_v1_info() {
  return {
      .name = "vllm-v1",
      .help = "one budget of tokens a step: running requests, then waiting ones, prompts in chunks",
      .source = "vLLM's V1 engine, vllm/v1/core/sched/scheduler.py (0.19)",
      .parameters = {{.name = "async",
                      .unit = "",
                      .default_value = 1,
                      .low = 0,
                      .high = 1,
                      .help = "1: a step is formed while the one before it runs (since 0.14), 0: after it"},
                     {.name = "reserve",
                      .unit = "",
                      .default_value = 1,
                      .low = 0,
                      .high = 1,
                      .help = "1: a request joins where all of its tokens have room, 0: where those of its "
                              "first chunk have"},
                     {.name = "prefix_cache",
                      .unit = "",
                      .default_value = 1,
                      .low = 0,
                      .high = 1,
                      .help = "1: a preempted request finds again what is left of its blocks, 0: none"}}};
}

std::unique_ptr<BatchingPolicy> make_vllm_v1(const BatchingShape& shape, const PolicyParameters& parameters) {
  const PolicyInfo info = vllm_v1_info();
  check_shape(shape);
  return std::make_unique<VllmV1Batching>(
      shape, VllmV1Settings{.async = checked_count(info, parameters, "async") == 1,
                            .reserve = checked_count(info, parameters, "reserve") == 1,
                            .prefix_cache = checked_count(info, parameters, "prefix_cache") == 1});
}

}  // namespace

BatchingPolicyEntry vllm_v1_batching_entry() {
  return {.info = vllm_v1_info(), .speculates = true, .make = make_vllm_v1};
}

}  // namespace moelab
