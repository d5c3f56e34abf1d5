// continuous: iteration-level batching over a paged KV cache, as vLLM does it (Kwon et al., SOSP 2023,
// section 4.5; vllm/core/scheduler.py and block_manager.py of v0.4 to v0.10, the "V0" engine). First come,
// first served; the latest to arrive gives way.
//
//   form:
//     while more blocks are in use than there are:  preempt the latest          # the cache shrank
//     if not chunked:  admit prompts, whole ones                                 # they run alone
//     if there are none:
//       for each running request that decodes:    while its next token has no room: preempt the latest
//       for the running request with prompt left:  run what the budget allows    # chunked only
//       those that fetched their keys and values, which are there, join
//       resume swapped requests, earliest first, up to the first that does not fit
//       admit  (chunked: any request, else those that come prefilled)
//
//   admit:    if none is swapped: dropped requests, then new ones, earliest first, up to the first that does
//             not fit. Its blocks are taken for all tokens it has, also where the prompt runs in chunks
//             (vLLM: allocate()); one that fetches its keys and values takes them and waits
//   fits:     this step preempted none,  requests that run < max_requests,  rows of the step <= max_tokens
//             (chunked: one row at least),  and
//             free blocks - blocks of all tokens it has, with the next one's >= watermark * gpu_blocks
//   preempt:  swap: its blocks go to the host, later back into as many, whether full or not yet written;
//             recompute: its blocks are dropped, and prompt and tokens so far run again as a prompt
//
// So each request of a step holds ceil(tokens known / block_tokens) blocks: those that its cache fills once
// the prompt, or the one new token, has run; and those of its state (KvShape::state_blocks), which come and
// go with them. Drafts (BatchingShape::drafts) run beside that token, and take blocks and rows as it does
// (V0's num_lookahead_slots); those of refused ones stay, for what comes in their place.
//
// Deviations, each so that every request which fits alone runs to its end:
// - Swap space that has no room for a request: it is recomputed. vLLM ends the engine with an error.
// - Where nothing runs one request joins without the watermark, and in a step that preempted. vLLM ignores a
//   prompt (AllocStatus.NEVER), and never swaps in a request, that would leave less than the watermark.
// - Not chunked, prompt and output must fit into a step, since a request dropped late is run again in one.
//   vLLM asks the same of its settings (max_num_batched_tokens >= max_model_len).
// and further:
// - A decode needs a block only where its last one is full. The V0 engine's can_append_slots preempts when no
//   block at all is free ("worst-case heuristic"), so that one block is never used; V1 does as here.
// - Chunked, nothing is admitted past swapped requests or in a step that preempted, as without chunks (and as
//   in V1); V0's chunked steps admit prompts then, which overtakes requests that came before them.
// - Chunked, decodes come before all prompt chunks, so that each runs in every step: V0's documentation says
//   so, its code sorts by arrival.
// - Requests that come prefilled are unknown to V0's scheduler. Not chunked they join decode steps. Those
// that
//   fetch what they need, and those whose blocks are kept for others to fetch, do as under vllm-v1.
#include <algorithm>

#include "policies/batching/admitted_requests.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

struct ContinuousSettings {
  bool swap = false;
  bool chunked = false;
  double watermark = 0;  // share of gpu_blocks
};

class ContinuousBatching final : public BatchingPolicy {
 public:
  ContinuousBatching(const BatchingShape& shape, const ContinuousSettings& settings)
      : shape_(shape), settings_(settings) {
    resize(shape.kv.gpu_blocks);
  }

  std::string misfit(const BatchRequest& request) const override {
    return misfit_of(request, shape_, settings_.chunked ? 0 : final_tokens(request),
                     "to be run again if preempted late, without chunks");
  }
  void arrive(const BatchRequest& request) override { waiting_.push(request); }

  bool form(BatchStep& step) override {
    clear(step);
    while (gpu_used_ > shape_.kv.gpu_blocks && !running_.empty()) preempt_latest(step);
    if (!settings_.chunked) admit(step, true);
    if (step.shares.empty()) {
      run_decodes(step);
      run_prompt(step);
      admit_received(step);
      resume(step);
      admit(step, false);
    }
    return !step.shares.empty();
  }

  void refuse(std::span<const std::uint32_t> refused) override { refuse_drafts(running_, refused); }

  void release(std::uint32_t id) override {
    const auto kept = find_request(kept_, id);
    if (kept == kept_.end()) return;
    gpu_used_ -= kept->blocks;
    kept_.erase(kept);
  }

  void receive(std::uint32_t id) override { move_request(id, fetching_, received_); }

  void complete() override {
    for (BatchedRequest& request : running_) {
      if (!complete_share(request)) continue;
      if (request.ask.kept)
        kept_.push_back(request);
      else
        gpu_used_ -= request.blocks;
    }
    std::erase_if(running_, [](const BatchedRequest& request) { return request.left == 0; });
  }

  void resize(std::uint64_t gpu_blocks) override {
    shape_.kv.gpu_blocks = gpu_blocks;
    watermark_ = static_cast<std::uint64_t>(settings_.watermark * static_cast<double>(gpu_blocks));
  }

  KvUse use() const override {
    return {.gpu_blocks = gpu_used_,
            .gpu_floor = 0,
            .host_blocks = host_used_,
            .running = running_.size(),
            .waiting = dropped_.size() + waiting_.size() + fetching_.size() + received_.size(),
            .swapped = swapped_.size()};
  }

 private:
  using Requests = std::vector<BatchedRequest>;  // in order of arrival

  static void insert(Requests& requests, const BatchedRequest& request) {
    const auto later = [](const BatchedRequest& a, const BatchedRequest& b) { return a.place < b.place; };
    requests.insert(std::upper_bound(requests.begin(), requests.end(), request, later), request);
  }

  std::uint64_t blocks_needed(const BatchedRequest& request) const {
    return request_blocks(tokens_to_hold(request, shape_), shape_.kv);
  }
  std::uint32_t budget(const BatchStep& step) const {
    return shape_.max_tokens - static_cast<std::uint32_t>(step.rows);
  }

  /// Whether `request`, which holds no GPU block, can join.
  bool fits(const BatchedRequest& request, const BatchStep& step) const {
    const bool preempted = !step.swapped_out.empty() || !step.dropped.empty();
    if (preempted && !running_.empty()) return false;
    const std::uint64_t spare = running_.empty() ? 0 : watermark_;
    const std::uint32_t rows = settings_.chunked ? 1 : rows_to_run(request, shape_);
    return running_.size() < shape_.max_requests && rows <= budget(step) &&
           gpu_used_ + blocks_needed(request) + spare <= shape_.kv.gpu_blocks;
  }

  /// `request` takes its GPU blocks and runs what the budget allows.
  void join(BatchedRequest request, BatchStep& step) {
    request.blocks = blocks_needed(request);
    gpu_used_ += request.blocks;
    add_share(request, std::min(rows_to_run(request, shape_), budget(step)), step);
    insert(running_, request);
  }

  void preempt_latest(BatchStep& step) {
    BatchedRequest request = running_.back();
    running_.pop_back();
    gpu_used_ -= request.blocks;
    if (settings_.swap && host_used_ + request.blocks <= shape_.kv.host_blocks) {
      host_used_ += request.blocks;
      step.blocks_out += request.blocks;
      step.swapped_out.push_back(request.ask.id);
      insert(swapped_, request);
      return;
    }
    request.blocks = 0;
    request.cached = 0;
    request.prompt = true;
    step.dropped.push_back(request.ask.id);
    insert(dropped_, request);
  }

  void run_decodes(BatchStep& step) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].prompt) continue;
      const std::uint64_t more = blocks_needed(running_[i]) - running_[i].blocks;
      // The latest is never in the step yet: requests after this one are not, and at worst it is this one.
      while (i < running_.size() && gpu_used_ + more > shape_.kv.gpu_blocks) preempt_latest(step);
      if (i == running_.size()) return;
      running_[i].blocks += more;
      gpu_used_ += more;
      add_share(running_[i], rows_to_run(running_[i], shape_), step);
    }
  }

  /// At most one request that runs has prompt left: another is admitted only beside a prompt's last chunk. So
  /// there is a token for it, since fewer than max_requests decode.
  void run_prompt(BatchStep& step) {
    for (BatchedRequest& request : running_)
      if (request.prompt) add_share(request, std::min(rows_to_run(request, shape_), budget(step)), step);
  }

  void admit_received(BatchStep& step) {
    while (!received_.empty() && running_.size() < shape_.max_requests &&
           rows_to_run(received_.front(), shape_) <= budget(step)) {
      const BatchedRequest request = received_.front();
      received_.erase(received_.begin());
      gpu_used_ -= request.blocks;  // which it takes again
      step.admitted.push_back(request.ask.id);
      join(request, step);
    }
  }

  void resume(BatchStep& step) {
    while (!swapped_.empty() && fits(swapped_.front(), step)) {
      const BatchedRequest request = swapped_.front();
      swapped_.erase(swapped_.begin());
      host_used_ -= request.blocks;
      step.blocks_in += request.blocks;
      step.resumed.push_back(request.ask.id);
      join(request, step);
    }
  }

  /// Without chunks: `prompts` says whether only requests with a prompt to run are admitted, or only others.
  void admit(BatchStep& step, bool prompts) {
    if (!swapped_.empty()) return;
    const auto allowed = [&](const BatchedRequest& request) {
      return (settings_.chunked || request.prompt == prompts) && fits(request, step);
    };
    while (!dropped_.empty() && allowed(dropped_.front())) {
      const BatchedRequest request = dropped_.front();
      dropped_.erase(dropped_.begin());
      step.restarted.push_back(request.ask.id);
      join(request, step);
    }
    while (dropped_.empty() && !waiting_.empty()) {  // all that were dropped came before all these
      const BatchedRequest request(waiting_.front(), admitted_);
      if (!allowed(request)) return;
      waiting_.pop();
      ++admitted_;
      if (request.ask.fetched) {
        begin_fetch(request, step);
        continue;
      }
      step.admitted.push_back(request.ask.id);
      join(request, step);
    }
  }

  void begin_fetch(BatchedRequest request, BatchStep& step) {
    request.blocks = blocks_needed(request);
    gpu_used_ += request.blocks;
    step.fetches.push_back(request.ask.id);
    fetching_.push_back(request);
  }

  BatchingShape shape_;
  const ContinuousSettings settings_;
  std::uint64_t watermark_ = 0;  // blocks
  // Together at most max_requests: a new one is admitted only where none is swapped or dropped.
  Requests running_, swapped_, dropped_;
  Requests fetching_, received_;  // not admitted, with blocks: to be filled, and full
  Requests kept_;                 // they have ended, and their blocks are still in use
  ArrivalQueue waiting_;
  std::uint64_t admitted_ = 0;  // requests so far
  std::uint64_t gpu_used_ = 0, host_used_ = 0;
};

PolicyInfo continuous_batching_info() {
  return {.name = "continuous",
          .help = "requests join and leave each step, as blocks allow; the latest gives way",
          .source = "vLLM (Kwon et al., SOSP 2023), scheduler of its V0 engine",
          .parameters = {{.name = "swap",
                          .unit = "",
                          .default_value = 0,
                          .low = 0,
                          .high = 1,
                          .help = "1: preempted requests are swapped to the host, 0: computed again"},
                         {.name = "watermark",
                          .unit = "",
                          .default_value = 0.01,
                          .low = 0,
                          .high = 1,
                          .help = "share of the blocks that stays free when a request joins others"},
                         {.name = "chunked",
                          .unit = "",
                          .default_value = 0,
                          .low = 0,
                          .high = 1,
                          .help = "1: prompts run in chunks beside decodes, 0: whole prompts run alone"}}};
}

std::unique_ptr<BatchingPolicy> make_continuous_batching(const BatchingShape& shape,
                                                         const PolicyParameters& parameters) {
  const PolicyInfo info = continuous_batching_info();
  check_shape(shape, 1 + shape.drafts);
  return std::make_unique<ContinuousBatching>(
      shape, ContinuousSettings{.swap = checked_count(info, parameters, "swap") == 1,
                                .chunked = checked_count(info, parameters, "chunked") == 1,
                                .watermark = checked_parameter(info, parameters, "watermark")});
}

}  // namespace

BatchingPolicyEntry continuous_batching_entry() {
  return {.info = continuous_batching_info(),
          .speculates = true,
          .hands_over = true,
          .chunks =
              [](const PolicyParameters& parameters) {
                return parameter(continuous_batching_info(), parameters, "chunked") == 1;
              },
          .make = make_continuous_batching};
}

}  // namespace moelab
