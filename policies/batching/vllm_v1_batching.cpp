// vllm-v1: one budget of tokens a step, as vLLM's V1 engine schedules (vllm/v1/core/sched/scheduler.py,
// 0.19). There are no phases: a request runs what it has and its cache has not, prompts in chunks where the
// budget ends.
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
// scheduling 1 (request_queue.py, PriorityRequestQueue; --scheduling-policy priority): those that wait,
// preempted or new, are admitted by (priority, arrival), lower first; the request that runs with the highest
// of both is preempted, and where the step has it already its rows are budget again.
//
// prefix_cache (kv_cache_manager.py, block_pool.py): a request that is admitted looks, from its first block
// on, for blocks that are full of its tokens, and takes what it finds; those that other requests hold are
// held by both, and in use once. It runs what is behind them, its last token at least: of a prompt that is
// there as a whole, the last block. A block is found from the step on that fills it, by requests that are
// admitted behind the one that does; and once it is free, until it is taken. Free blocks are taken in the
// order in which they became free, of a request its last ones first. What requests have in common, their
// parts say; what is a request's own is found by itself, when it was preempted.
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
// A fetched request takes the blocks of all its tokens when it is first of those that wait and there is a
// place for it (KVConnectorBase_V1, status WAITING_FOR_REMOTE_KVS), and runs no row before its keys and
// values are there. The blocks of a kept one are free when it is released (delay_free_blocks).
//
// Deviations, each so that every request which fits alone runs to its end:
// - Requests whose keys and values have come join before those that were preempted, which may wait for the
//   blocks that they hold. vLLM has them wait in the order of the queue.
// - A step that came out empty is formed again at once, as the engine's next turn would: with what came and
//   ended meanwhile, and with requests that were preempted.
// - After resize() to fewer blocks the last admitted are preempted first. vLLM's cache has one size.
// - A cache that is resized forgets what was free, and requests of a model with states (shares_beginnings)
//   find nothing.
// - Of layers with a short window a request holds the window's blocks from its admission on, and each of
//   those that find a beginning has its own; vLLM takes them as tokens come, frees what the window has left,
//   which then cannot be found by others, and lets requests share them.
// - async: a step that is formed while drafts are verified knows how many were accepted. vLLM counts all of
//   them as accepted until it hears otherwise, so that it holds blocks for some tokens more.
// - No more is drafted than a request can use up to its last token; vLLM drafts as many as ever.
// - Where a head drafts, vLLM gives up the last block that it finds, for the head's hidden states; here it is
//   found.
// - Requests that come prefilled take the blocks of all their tokens, as with vLLM's KV connectors, but share
//   none of them.
// - A block that a decoded token fills is found from that step on. With `async` vLLM knows the token a step
//   later; who goes on with an answer comes later than that.
#include <algorithm>
#include <utility>

#include "policies/batching/admitted_requests.hpp"
#include "policies/batching/kv_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

struct VllmV1Settings {
  bool async = true;
  bool reserve = true;
  bool prefix_cache = true;
  bool priority = false;
};

/// Who goes first by priority, and who gives way last.
bool goes_before(const BatchedRequest& a, const BatchedRequest& b) {
  return a.ask.priority != b.ask.priority ? a.ask.priority < b.ask.priority : a.place < b.place;
}

class VllmV1Batching final : public BatchingPolicy {
 public:
  VllmV1Batching(const BatchingShape& shape, const VllmV1Settings& settings)
      : shape_(shape), settings_(settings), pool_(shape.kv.gpu_blocks, shape.kv.block_tokens) {}

  std::string misfit(const BatchRequest& request) const override { return misfit_of(request, shape_, 0, ""); }

  void arrive(const BatchRequest& request) override {
    BatchRequest known = request;
    if (!finds_blocks() || request.prefilled) known.parts = {};
    waiting_.push(BatchedRequest(known, arrived_++));
    if (!settings_.async) see_arrivals();
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

  void release(std::uint32_t id) override {
    // As soon as its end is known; until then it is one that leaves like others.
    for (BatchedRequest& request : leaving_)
      if (request.ask.id == id) request.ask.kept = false;
    const auto kept = find_request(kept_, id);
    if (kept == kept_.end()) return;
    pool_.release(*kept, FreeBlocks::kNoOwner);
    kept_.erase(kept);
  }

  void receive(std::uint32_t id) override { move_request(id, fetching_, received_); }

  void complete() override {
    for (BatchedRequest& request : running_)
      if (request.rows > 0 && complete_share(request)) leaving_.push_back(request);
    std::erase_if(running_, [](const BatchedRequest& request) { return request.left == 0; });
    if (!settings_.async) settle();
  }

  void resize(std::uint64_t gpu_blocks) override {
    shape_.kv.gpu_blocks = gpu_blocks;
    pool_.resize(gpu_blocks);
  }

  KvUse use() const override {
    return {.gpu_blocks = pool_.used(),
            .gpu_floor = 0,
            .host_blocks = 0,
            .running = running_.size(),
            .waiting = dropped_.size() + waiting_.size() + fetching_.size() + received_.size(),
            .swapped = 0};
  }

 private:
  /// A request that was preempted, and how many of its own blocks were full.
  struct Dropped {
    BatchedRequest request;
    std::uint64_t full_own = 0;
  };

  bool finds_blocks() const { return settings_.prefix_cache && shape_.kv.shares_beginnings; }

  /// What came and what ended during the step before is known now. Says whether that was anything.
  bool settle() {
    const bool any = !leaving_.empty() || seen_ < waiting_.size();
    for (BatchedRequest& request : leaving_) {
      if (request.ask.kept)
        kept_.push_back(request);
      else
        pool_.release(request, FreeBlocks::kNoOwner);
    }
    leaving_.clear();
    see_arrivals();
    return any;
  }
  void see_arrivals() {
    const bool more = seen_ < waiting_.size();
    seen_ = waiting_.size();
    if (settings_.priority && more && !std::is_sorted(waiting_.begin(), waiting_.end(), goes_before))
      std::sort(waiting_.begin(), waiting_.end(), goes_before);  // no two are alike: places differ
  }

  std::uint32_t rows_within(const BatchedRequest& request, const BatchStep& step) const {
    const auto budget = static_cast<std::uint32_t>(shape_.max_tokens - step.rows);
    return std::min(rows_to_run(request, shape_), budget);
  }
  bool has_budget(const BatchStep& step) const { return step.rows < shape_.max_tokens; }

  void schedule(BatchStep& step) {
    const std::size_t dropped = step.dropped.size();
    while (!pool_.has_room(0) && !running_.empty()) preempt(step);
    run_running(step);
    // What they fill can be found; not before all have their places, since who gives way fills nothing.
    for (BatchedRequest& request : running_)
      if (request.rows > 0) fill(request);
    if (step.dropped.size() != dropped) return;
    admit_received(step);
    admit_waiting(step);
  }

  void run_running(BatchStep& step) {
    for (std::size_t i = 0; i < running_.size() && has_budget(step); ++i) {
      const std::uint32_t rows = rows_within(running_[i], step);
      const std::uint64_t held = running_[i].blocks;
      const std::uint64_t more =
          std::max(request_blocks(std::uint64_t{running_[i].cached} + rows, shape_.kv), held) - held;
      while (!pool_.has_room(more)) {
        const std::size_t gone = preempt(step);
        if (gone == i) return;
        if (gone < i) --i;
      }
      running_[i].blocks += more;
      pool_.take(more);
      add_share(running_[i], rows, step);
    }
  }

  /// Says where in running_ it was.
  std::size_t preempt(BatchStep& step) {
    const auto gone =
        settings_.priority ? std::ranges::max_element(running_, goes_before) : std::prev(running_.end());
    const auto place = static_cast<std::size_t>(gone - running_.begin());
    BatchedRequest request = *gone;
    running_.erase(gone);
    if (request.rows > 0) take_share_back(request, step);
    const std::uint32_t known_to_fill = std::min(request.cached, std::exchange(request.filled, 0));
    const std::uint64_t full = finds_blocks() ? known_to_fill / shape_.kv.block_tokens : 0;
    const std::uint64_t of_parts = pool_.blocks_of_parts(request);
    pool_.release(request, request.place);
    request.cached = 0;
    request.prompt = true;
    step.dropped.push_back(request.ask.id);
    dropped_.push_back({request, full > of_parts ? full - of_parts : 0});
    if (settings_.priority)
      insertion_sort(dropped_.begin(), dropped_.end(),
                     [](const Dropped& a, const Dropped& b) { return goes_before(b.request, a.request); });
    return place;
  }

  void take_share_back(BatchedRequest& request, BatchStep& step) {
    step.shares.erase(step.shares.begin() + static_cast<std::ptrdiff_t>(request.share));
    for (BatchedRequest& other : running_)
      if (other.rows > 0 && other.share > request.share) --other.share;
    std::erase(step.finished, request.ask.id);
    step.recomputed -= std::min(request.rows, request.reached - request.cached);
    step.rows -= std::exchange(request.rows, 0);
  }

  /// What the rows in the step fill with tokens that are known can be found.
  void fill(BatchedRequest& request) {
    request.filled = std::min(request.known, request.cached + request.rows);
    if (!request.ask.parts.empty()) pool_.fill(request, request.filled);
  }

  /// What is there of a request's beginning; at least one token runs, the one that makes the next.
  KvPool::Found find(const BatchedRequest& request, std::uint64_t full_own) const {
    if (request.cached > 0) return {};
    return pool_.find(request, full_own, (request.known - 1) / shape_.kv.block_tokens);
  }

  bool has_place(const BatchStep& step) const {
    return has_budget(step) && running_.size() + leaving_.size() < shape_.max_requests;
  }

  void admit_received(BatchStep& step) {
    while (!received_.empty() && has_place(step)) {
      running_.push_back(received_.front());
      received_.erase(received_.begin());
      step.admitted.push_back(running_.back().ask.id);
      add_share(running_.back(), rows_within(running_.back(), step), step);
      fill(running_.back());
    }
  }

  /// The first that waits takes its blocks; what they are for is then to come. Whether there is room.
  bool begin_fetch(BatchStep& step) {
    BatchedRequest request = waiting_.front();
    request.blocks = request_blocks(tokens_to_hold(request, shape_), shape_.kv);
    if (!pool_.has_room(request.blocks)) return false;
    waiting_.pop();
    --seen_;
    pool_.take(request.blocks);
    fetching_.push_back(request);
    step.fetches.push_back(request.ask.id);
    return true;
  }

  void admit_waiting(BatchStep& step) {
    while (has_place(step)) {
      if (dropped_.empty() && seen_ == 0) return;
      const bool restarts = next_was_dropped();
      if (!restarts && waiting_.front().ask.fetched) {
        if (!begin_fetch(step)) return;
        continue;
      }
      BatchedRequest request = restarts ? dropped_.back().request : waiting_.front();
      const KvPool::Found found = find(request, restarts ? dropped_.back().full_own : 0);
      request.cached += static_cast<std::uint32_t>(found.blocks() * shape_.kv.block_tokens);
      request.reached = std::max(request.reached, request.cached);
      // All that it had is there again: it goes on with the token that it was at.
      if (restarts && request.known > request.ask.prompt_tokens)
        request.prompt = request.cached + 1 < request.known;
      const std::uint32_t rows = rows_within(request, step);
      const std::uint64_t all = request_blocks(tokens_to_hold(request, shape_), shape_.kv);
      const std::uint64_t taken = request_blocks(std::uint64_t{request.cached} + rows, shape_.kv);
      if (!pool_.has_room((settings_.reserve ? all : taken) - found.in_use)) return;
      if (restarts) {
        dropped_.pop_back();
        step.restarted.push_back(request.ask.id);
      } else {
        waiting_.pop();
        --seen_;
        step.admitted.push_back(request.ask.id);
      }
      request.blocks = taken;
      pool_.claim(request, found);
      pool_.take(taken - found.blocks());
      add_share(request, rows, step);
      fill(request);
      running_.push_back(request);
    }
  }

  bool next_was_dropped() const {
    if (dropped_.empty() || seen_ == 0 || !settings_.priority) return !dropped_.empty();
    return goes_before(dropped_.back().request, waiting_.front());
  }

  BatchingShape shape_;
  const VllmV1Settings settings_;
  std::vector<BatchedRequest> running_;  // in the order of their last admission
  std::vector<Dropped> dropped_;         // they wait, the last one first: before all others, or by priority
  RequestQueue<BatchedRequest> waiting_;
  std::size_t seen_ = 0;                             // of waiting_, from its front: known to the scheduler
  std::vector<BatchedRequest> leaving_;              // they have ended, of which it does not know yet
  std::vector<BatchedRequest> fetching_, received_;  // not admitted, with blocks: to be filled, and full
  std::vector<BatchedRequest> kept_;                 // they have ended, and their blocks are still in use
  std::uint64_t arrived_ = 0;                        // requests so far
  KvPool pool_;
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
                      .help = "1: requests find what the cache has of their beginning, 0: nothing"},
                     {.name = "scheduling",
                      .unit = "",
                      .default_value = 0,
                      .low = 0,
                      .high = 1,
                      .help = "0, fcfs: who came first goes first, 1, priority: who has the lowest priority "
                              "(vLLM: --scheduling-policy)"}}};
}

std::unique_ptr<BatchingPolicy> make_vllm_v1(const BatchingShape& shape, const PolicyParameters& parameters) {
  const PolicyInfo info = vllm_v1_info();
  check_shape(shape);
  return std::make_unique<VllmV1Batching>(
      shape, VllmV1Settings{.async = checked_count(info, parameters, "async") == 1,
                            .reserve = checked_count(info, parameters, "reserve") == 1,
                            .prefix_cache = checked_count(info, parameters, "prefix_cache") == 1,
                            .priority = checked_count(info, parameters, "scheduling") == 1});
}

}  // namespace

BatchingPolicyEntry vllm_v1_batching_entry() {
  return {.info = vllm_v1_info(),
          .speculates = true,
          .hands_over = true,
          .windowed_share = 0,  // vllm/v1/core/single_type_kv_cache_manager.py, SlidingWindowManager
          .chunks = [](const PolicyParameters&) { return true; },
          .by_priority =
              [](const PolicyParameters& parameters) {
                return parameter(vllm_v1_info(), parameters, "scheduling") == 1;
              },
          .make = make_vllm_v1};
}

}  // namespace moelab
