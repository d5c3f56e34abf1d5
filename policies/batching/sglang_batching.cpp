// sglang: prompts first, as SGLang schedules (Zheng et al., SGLang: Efficient Execution of Structured
// Language Model Programs, NeurIPS 2024, arXiv 2312.07104; sglang/srt/managers/scheduler.py,
// schedule_policy.py and schedule_batch.py, srt/mem_cache/radix_cache.py of 0.5.6).
//
//   form:
//     unless it is full: a step of prompts, from the one that was cut and then from those that wait, while
//       tokens to run + tokens to come < tokens free - ratio * sum(tokens that running requests still may
//       make) and while max_prefill_tokens and chunked_prefill_size last; a prompt that is longer is cut
//       there
//     else a step of decodes, one token of each request that runs; ratio falls a little
//       while blocks for them are not free: retract the one with the fewest tokens made, of these the longest
//       prompt; ratio = (made + 20 a request) / (all that they may make)
//   full: those that wait have found no room or no place; until a request ends or is retracted
//
// Those that wait are ordered each time (schedule_policy): fcfs; lpm, the longest beginning that is in the
// cache first, of those that share 32 tokens with one before them and find no more than that only the first,
// and as they are where more than 128 wait; lof, the most tokens to make first. Who is retracted waits behind
// all others. enable_mixed_chunk: steps of prompts have the decodes too.
//
// The cache is a tree of blocks. A prompt is in it when it has run (each chunk of it), an answer when it has
// ended; a retracted request leaves what was in it and loses the rest. What is in it twice is held once. What
// is free and not in it is taken first, then what was released longest ago, of a request its last blocks
// first.
//
// disable_overlap_schedule 0: a step is formed while the one before it runs, as with vllm-v1's `async`. What
// ended still holds its place until the step of decodes after the scheduler knows of it.
//
// Simplified:
// - A request makes as many tokens as it may (max_new_tokens), which the scheduler knows; with overlap it
//   counts tokens made a step late, and runs who has ended once more. Here neither.
// - The tree's leaves leave as a whole, and early, by the order in which they were last looked at; here block
//   by block, when they are taken, by the order in which they were released.
// - add_one_req_ignore_eos, by which SGLang adds memory up over time without the tree, is left out.
// - Requests that come prefilled join the decodes where they are first in the queue. Nothing drafts.
// Deviations, each so that every request which fits alone runs to its end:
// - Where nothing runs, the first that waits joins if it fits at all.
// - Where the last one that decodes has no room beside a prompt that was cut, that one starts anew.
// - After resize() to fewer blocks requests are retracted. SGLang's cache has one size.
// - With mixed chunks, blocks that decodes take are kept for them. Where no token of a chunk fits it waits.
#include <algorithm>
#include <limits>
#include <optional>

#include "policies/batching/admitted_requests.hpp"
#include "policies/batching/kv_pool.hpp"
#include "policies/batching/sglang_requests.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

constexpr std::uint32_t kRetractSteps = 20;  // that those left are to have room for after a retraction
constexpr double kFirstRatio = 0.7, kDecaySteps = 600;

class SglangBatching final : public BatchingPolicy {
 public:
  SglangBatching(const BatchingShape& shape, const SglangSettings& settings)
      : shape_(shape),
        settings_(settings),
        ratio_(settings.first_ratio),
        pool_(shape.kv.gpu_blocks, shape.kv.block_tokens) {}

  std::string misfit(const BatchRequest& request) const override {
    const std::uint64_t at_once = settings_.chunk == 0 ? final_tokens(request) : 0;
    return misfit_of(request, shape_, at_once, "to compute all that it has again, uncut");
  }

  void arrive(const BatchRequest& request) override {
    unseen_.push_back(request);
    if (!settings_.overlap) see_arrivals();
  }

  bool form(BatchStep& step) override {
    clear(step);
    for (bool again = true; again && step.shares.empty();) {
      const std::size_t dropped = step.dropped.size(), ended = ended_;
      schedule(step);
      again = step.shares.empty() && (settle() || step.dropped.size() > dropped || ended_ < ended);
    }
    settle();
    if (step.shares.empty()) ratio_ = settings_.first_ratio;  // the server is idle
    return !step.shares.empty();
  }

  void complete() override {
    join_prompts();
    for (SglangRequest& request : running_)
      if (request.rows > 0 && complete_share(request)) leaving_.push_back(request);
    std::erase_if(running_, [](const SglangRequest& request) { return request.left == 0; });
    if (!settings_.overlap) settle();
  }

  void resize(std::uint64_t gpu_blocks) override {
    shape_.kv.gpu_blocks = gpu_blocks;
    pool_.resize(gpu_blocks);
    full_ = false;
  }

  KvUse use() const override {
    return {.gpu_blocks = pool_.used(),
            .gpu_floor = 0,
            .host_blocks = 0,
            .running = running_.size() + prompts_.size() + (chunk_ ? 1 : 0),
            .waiting = waiting_.size() + unseen_.size(),
            .swapped = 0};
  }

 private:
  bool finds_blocks() const { return settings_.radix && shape_.kv.shares_beginnings; }
  std::uint64_t whole_blocks(std::uint64_t tokens) const {  // in tokens
    return kv_blocks(tokens, shape_.kv.block_tokens) * shape_.kv.block_tokens;
  }
  std::int64_t free_tokens() const {
    return (static_cast<std::int64_t>(shape_.kv.gpu_blocks) - static_cast<std::int64_t>(pool_.used())) *
           shape_.kv.block_tokens;
  }
  /// Requests of the running batch, among them those of which it has not heard that they ended.
  std::size_t in_batch() const { return running_.size() + leaving_.size() + ended_; }

  void see_arrivals() {
    for (const BatchRequest& request : unseen_) {
      SglangRequest known(request, arrived_++);
      if (!finds_blocks() || request.prefilled) known.ask.parts = {};
      wait(known);
    }
    unseen_.clear();
  }
  void wait(SglangRequest request) {
    request.turn = turns_++;
    waiting_.push(request);
  }

  /// What came and what ran during the step before is known now. Says whether any came or ended.
  bool settle() {
    const bool any = !leaving_.empty() || !unseen_.empty();
    for (SglangRequest& request : running_)
      if (std::exchange(request.fresh, false)) put_in_tree(request);
    for (SglangRequest& request : leaving_) {
      put_in_tree(request);
      leave(request, FreeBlocks::kNoOwner);
    }
    just_ended_ = leaving_.size();
    ended_ += just_ended_;
    leaving_.clear();
    see_arrivals();
    return any;
  }

  void put_in_tree(SglangRequest& request) {
    if (!finds_blocks()) return;
    request.filled = request.cached;
    if (!request.ask.parts.empty()) pool_.fill_once(request, request.cached);
  }
  std::uint64_t own_in_tree(const SglangRequest& request) const {
    const std::uint64_t full = request.filled / shape_.kv.block_tokens, pages = pool_.pages(request);
    return full > pages ? full - pages : 0;
  }
  void leave(SglangRequest& request, std::uint64_t owner) {
    const std::uint64_t own = request.blocks - pool_.pages(request);
    pool_.release(request, owner, own - own_in_tree(request));
  }

  void retract(SglangRequest request, BatchStep& step) {
    request.full_own = own_in_tree(request);
    leave(request, request.place);
    request.filled = request.cached = 0;
    request.prompt = request.again = true;
    request.fresh = false;
    step.dropped.push_back(request.ask.id);
    wait(request);
  }
  void retract_last(BatchStep& step) {
    retract(running_.back(), step);
    running_.pop_back();
  }
  void retract_chunk(BatchStep& step) {
    retract(*chunk_, step);
    chunk_.reset();
  }

  void schedule(BatchStep& step) {
    make_room(step);
    if (chunk_) put_in_tree(*chunk_);
    if (std::exchange(ran_prompts_, false)) leave_prompts();
    if (form_prompts(step)) {
      ran_prompts_ = true;
      if (settings_.mixed) {
        ended_ = 0;
        decode_all(step);
      }
    } else {
      form_decodes(step);
    }
  }

  /// Those of the last step, which was of prompts, join the batch, but for who was cut and who is known to
  /// have ended; where the decodes were in it, all that are known to have ended were.
  void leave_prompts() {
    const std::size_t gone = settings_.mixed ? ended_ : settings_.overlap ? 0 : just_ended_;
    if (gone > 0 || chunk_) full_ = false;
    ended_ -= gone;
  }

  void order_running() {
    insertion_sort(running_.begin(), running_.end(), [](const SglangRequest& a, const SglangRequest& b) {
      return a.made() != b.made() ? a.made() > b.made() : a.ask.prompt_tokens < b.ask.prompt_tokens;
    });
  }

  /// After resize() to fewer blocks.
  void make_room(BatchStep& step) {
    if (pool_.has_room(0)) return;
    order_running();
    while (!pool_.has_room(0) && !running_.empty()) retract_last(step);
    if (!pool_.has_room(0) && chunk_) retract_chunk(step);
  }

  // --- steps of prompts

  bool form_prompts(BatchStep& step) {
    if ((full_ || waiting_.empty()) && !chunk_) return false;
    if (in_batch() >= shape_.max_requests && !chunk_) {
      full_ = true;
      return false;
    }
    if (settings_.mixed && !pool_.has_room(blocks_to_decode())) return false;
    order_waiting(waiting_, settings_.order, [this](const SglangRequest& request) {
      const std::uint64_t most = request.known / shape_.kv.block_tokens;
      return pool_.find(request, request.full_own, most).blocks() * shape_.kv.block_tokens;
    });
    PromptBudget budget = prompt_budget();
    if (chunk_ && !add_chunk(budget, step)) return false;
    while (!waiting_.empty() && !full_) {
      if (prompts_.size() + in_batch() >= shape_.max_requests)
        full_ = true;
      else if (waiting_.front().ask.prefilled && !waiting_.front().again)
        break;
      else if (!add_waiting(budget, step))
        break;
    }
    return !prompts_.empty();
  }

  PromptBudget prompt_budget() const {
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
    PromptBudget budget{.memory = free_tokens(),
                        .input = std::min(settings_.prefill, shape_.max_tokens),
                        .chunk = settings_.chunk == 0 ? kAll : std::min(settings_.chunk, shape_.max_tokens)};
    for (const SglangRequest& request : running_)
      budget.expected += std::min(request.left, kClippedTokens) * ratio_;
    if (!settings_.mixed) return budget;
    const auto decodes = static_cast<std::int64_t>(in_batch());
    budget.input -= decodes;
    budget.chunk -= decodes;
    budget.taken = std::max(decodes, static_cast<std::int64_t>(blocks_to_decode() * shape_.kv.block_tokens));
    budget.expected += static_cast<double>(budget.taken);
    return budget;
  }

  bool is_alone() const { return prompts_.empty() && running_.empty() && leaving_.empty(); }

  /// The prompt that was cut goes on. Says whether any of it does.
  bool add_chunk(PromptBudget& budget, BatchStep& step) {
    SglangRequest& request = *chunk_;
    const std::uint32_t missing = request.known - request.cached;
    double memory = budget.left();
    if (is_alone()) {
      const std::uint64_t held = request.blocks - shape_.kv.state_blocks;
      memory = static_cast<double>(free_tokens()) +
               static_cast<double>(held * shape_.kv.block_tokens - request.cached);
    }
    const double most = std::min(memory, static_cast<double>(budget.chunk));
    if (most < 1) return false;
    const std::uint32_t rows = most < missing ? static_cast<std::uint32_t>(most) : missing;
    budget.charge(whole_blocks(rows),
                  rows < missing ? 0 : std::min(request.ask.output_tokens, kClippedTokens));
    const std::uint64_t blocks = request_blocks(std::uint64_t{request.cached} + rows, shape_.kv);
    if (blocks > request.blocks) {
      pool_.take(blocks - request.blocks);
      request.blocks = blocks;
    }
    add_share(request, rows, step);
    prompts_.push_back(request);
    chunk_.reset();
    return true;
  }

  /// The first that waits joins, if it may. Says whether others may too.
  bool add_waiting(PromptBudget& budget, BatchStep& step) {
    SglangRequest request = waiting_.front();
    const KvPool::Found found =
        pool_.find(request, request.full_own, (request.known - 1) / shape_.kv.block_tokens);
    const std::uint64_t revived = (found.blocks() - found.in_use) * shape_.kv.block_tokens;
    request.cached = static_cast<std::uint32_t>(found.blocks() * shape_.kv.block_tokens);
    const std::uint32_t missing = request.known - request.cached;
    const bool alone = is_alone();
    const bool fits = alone ? request_blocks(final_tokens(request.ask), shape_.kv) <= shape_.kv.gpu_blocks
                            : room_asked(request, missing) + static_cast<double>(revived) < budget.left();
    if (!fits) {
      full_ = true;
      return false;
    }
    const auto input = static_cast<std::int64_t>(whole_blocks(missing));
    if (input >= budget.input && !prompts_.empty()) return false;
    std::uint32_t rows = missing;
    if (input > budget.chunk) {
      const std::int64_t whole = budget.chunk / shape_.kv.block_tokens * shape_.kv.block_tokens;
      const std::int64_t cut = whole == 0 && alone ? budget.chunk : whole;
      if (cut <= 0) return false;
      rows = static_cast<std::uint32_t>(std::min<std::int64_t>(missing, cut));
    }
    budget.memory -= static_cast<std::int64_t>(revived + shape_.kv.state_blocks * shape_.kv.block_tokens);
    budget.charge(whole_blocks(rows),
                  rows < missing ? 0 : std::min(request.ask.output_tokens, kClippedTokens));
    join(request, found, rows, step);
    if (budget.no_memory()) full_ = true;
    return !full_ && !budget.spent();
  }

  /// Tokens of memory that a request is to find before it joins: to run, and to come.
  double room_asked(const SglangRequest& request, std::uint32_t missing) const {
    const double states = static_cast<double>(shape_.kv.state_blocks) * shape_.kv.block_tokens;
    return static_cast<double>(missing) + std::min(request.left, kClippedTokens) + states;
  }

  void join(SglangRequest& request, const KvPool::Found& found, std::uint32_t rows, BatchStep& step) {
    (request.again ? step.restarted : step.admitted).push_back(request.ask.id);
    request.reached = std::max(request.reached, request.cached);
    request.filled = request.cached;
    // All that it had is there again: it goes on with the token that it was at.
    if (request.made() > 0) request.prompt = request.cached + 1 < request.known;
    request.blocks = request_blocks(std::uint64_t{request.cached} + rows, shape_.kv);
    pool_.claim(request, found);
    pool_.take(request.blocks - found.blocks());
    add_share(request, rows, step);
    prompts_.push_back(request);
    waiting_.pop();
  }

  /// What ran of prompts decodes from now on, but for one that was cut.
  void join_prompts() {
    std::size_t place = settings_.mixed ? 0 : running_.size();
    for (SglangRequest& request : prompts_) {
      const bool ends = complete_share(request);
      if (request.prompt) {
        chunk_ = request;
      } else if (ends) {
        leaving_.push_back(request);
      } else {
        request.fresh = true;
        running_.insert(running_.begin() + static_cast<std::ptrdiff_t>(place++), request);
      }
    }
    prompts_.clear();
  }

  // --- steps of decodes

  std::uint64_t more_blocks(const SglangRequest& request) const {
    const std::uint64_t blocks = request_blocks(request.known, shape_.kv);
    return blocks > request.blocks ? blocks - request.blocks : 0;
  }
  std::uint64_t blocks_to_decode() const {
    std::uint64_t blocks = 0;
    for (const SglangRequest& request : running_) blocks += more_blocks(request);
    return blocks;
  }

  void form_decodes(BatchStep& step) {
    const std::size_t dropped = step.dropped.size();
    const bool heard = std::exchange(ended_, 0) > 0;
    if (heard || (running_.empty() && leaving_.empty())) full_ = false;
    if (running_.empty()) {
      if (chunk_ && leaving_.empty() && !heard) retract_chunk(step);  // there are fewer blocks than it needs
    } else if (pool_.has_room(blocks_to_decode())) {
      ratio_ = std::max(ratio_ - (settings_.first_ratio - settings_.least_ratio()) / kDecaySteps,
                        settings_.least_ratio());
    } else {
      full_ = false;
      if (!retract_for_decodes(step)) return;
    }
    if (step.dropped.size() == dropped) admit_prefilled(step);
    decode_all(step);
  }

  /// Says whether those that are left have room.
  bool retract_for_decodes(BatchStep& step) {
    order_running();
    while (running_.size() > 1 && !pool_.has_room(blocks_to_decode())) retract_last(step);
    if (!pool_.has_room(blocks_to_decode())) {
      if (!leaving_.empty()) return false;  // it has room when what ended has left
      if (chunk_) retract_chunk(step);
      if (!pool_.has_room(blocks_to_decode())) retract_last(step);
      if (running_.empty()) return false;
    }
    double made = 0, all = 1;
    for (const SglangRequest& request : running_) {
      made += request.made() + kRetractSteps;
      all += request.ask.output_tokens;
    }
    ratio_ = std::min(made / all, 1.0);
    return true;
  }

  /// As long as one is first in the queue.
  void admit_prefilled(BatchStep& step) {
    while (!waiting_.empty() && waiting_.front().ask.prefilled && !waiting_.front().again) {
      SglangRequest request = waiting_.front();
      const std::uint64_t blocks = request_blocks(request.known, shape_.kv);
      const bool fits =
          (is_alone() && !chunk_) || room_asked(request, request.known) < prompt_budget().left();
      if (!fits || !pool_.has_room(blocks + blocks_to_decode()) ||
          in_batch() + (chunk_ ? 1 : 0) >= shape_.max_requests)
        return;
      waiting_.pop();
      request.blocks = blocks;
      pool_.take(blocks);
      step.admitted.push_back(request.ask.id);
      running_.push_back(request);
    }
  }

  void decode_all(BatchStep& step) {
    for (SglangRequest& request : running_) {
      const std::uint64_t more = more_blocks(request);
      pool_.take(more);
      request.blocks += more;
      add_share(request, rows_to_run(request, shape_), step);
    }
  }

  BatchingShape shape_;
  const SglangSettings settings_;
  double ratio_;                // of what running requests may still make, that is expected (new_token_ratio)
  bool full_ = false;           // batch_is_full
  bool ran_prompts_ = false;    // in the step before
  std::size_t just_ended_ = 0;  // of these, heard of last
  std::size_t ended_ = 0;       // requests that are known to have ended, not yet taken off the batch
  std::vector<SglangRequest> running_;   // that decode
  std::vector<SglangRequest> prompts_;   // of the step that is formed
  std::optional<SglangRequest> chunk_;   // its prompt was cut
  RequestQueue<SglangRequest> waiting_;  // in the order in which they are to run
  std::vector<BatchRequest> unseen_;     // came while a step runs
  std::vector<SglangRequest> leaving_;   // have ended, of which the scheduler does not know yet
  std::uint64_t arrived_ = 0;            // requests so far
  std::uint64_t turns_ = 0;              // that were given to those that wait
  KvPool pool_;
};

PolicyInfo sglang_info() {
  const auto number = [](std::string_view name, double value, double low, double high, std::string_view help,
                         std::string_view unit = "") {
    return PolicyParameter{
        .name = name, .unit = unit, .default_value = value, .low = low, .high = high, .help = help};
  };
  constexpr double kMost = 1e9;
  return {
      .name = "sglang",
      .help = "prompts first, as memory for what they will make is expected; decodes else",
      .source = "SGLang (Zheng et al., NeurIPS 2024), sglang/srt/managers/scheduler.py (0.5.6)",
      .parameters = {
          number("schedule_policy", 0, 0, 2,
                 "who is first of those that wait. 0, fcfs: who came first; 1, lpm: who finds most in the "
                 "cache; 2, lof: who makes the most tokens"),
          number("chunked_prefill_size", 8192, 0, kMost,
                 "of prompts in a step, which cuts longer ones; never more than max_tokens. 0: whole prompts "
                 "(SGLang: -1). SGLang's default goes by the GPU's memory: 2048, 4096, 8192 or 16384",
                 "tokens"),
          number("max_prefill_tokens", 16384, 1, kMost, "of prompts in a step, but for its first one",
                 "tokens"),
          number("enable_mixed_chunk", 0, 0, 1,
                 "1: steps of prompts have the decodes too, 0: steps have one of both"),
          number("schedule_conservativeness", 1, 0, 10,
                 "0.7 times it is the share of a running request's tokens to come that is expected at first"),
          number("disable_radix_cache", 0, 0, 1,
                 "1: requests find nothing of their beginning, 0: what the cache has"),
          number("disable_overlap_schedule", 0, 0, 1,
                 "1: a step is formed after the one before it, 0: while that runs")}};
}

std::unique_ptr<BatchingPolicy> make_sglang(const BatchingShape& shape, const PolicyParameters& parameters) {
  const PolicyInfo info = sglang_info();
  check_shape(shape);
  const auto count = [&](std::string_view name) { return checked_count(info, parameters, name); };
  const auto order = static_cast<WaitingOrder>(count("schedule_policy"));
  const bool radix = count("disable_radix_cache") == 0;
  const double conservativeness = checked_parameter(info, parameters, "schedule_conservativeness");
  return std::make_unique<SglangBatching>(
      shape, SglangSettings{.order = order == WaitingOrder::lpm && !radix ? WaitingOrder::fcfs : order,
                            .chunk = count("chunked_prefill_size"),
                            .prefill = count("max_prefill_tokens"),
                            .mixed = count("enable_mixed_chunk") == 1 && count("chunked_prefill_size") > 0,
                            .radix = radix,
                            .overlap = count("disable_overlap_schedule") == 0,
                            .first_ratio = std::min(kFirstRatio * conservativeness, 1.0)});
}

}  // namespace

BatchingPolicyEntry sglang_batching_entry() {
  return {.info = sglang_info(),
          .windowed_share = 0.8,  // sglang/srt/server_args.py, swa_full_tokens_ratio
          .chunks = [](const PolicyParameters&) { return true; },
          .make = make_sglang};
}

}  // namespace moelab
