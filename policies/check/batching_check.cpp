// A batching policy as the serving loop runs it: requests come at random between steps, and the cache shrinks
// and grows where it does so. All requests fit alone, so all are to be answered in the end.
#include <algorithm>
#include <array>
#include <vector>

#include "models/input_error.hpp"
#include "policies/check/trial.hpp"
#include "policies/guard/policy_error.hpp"

namespace moelab {
namespace {

constexpr int kMostSteps = 20'000;   // far more than the requests' tokens
constexpr int kResizingSteps = 200;  // then the cache has its first size for good

/// `speculates`: some instances have drafts.
BatchingShape draw_batching_shape(Trial& trial, bool speculates) {
  Draws& draws = trial.draws;
  if (trial.smallest) return {.kv = {1, 1, 0}, .max_requests = 1, .max_tokens = 1};
  BatchingShape shape;
  shape.kv = {draws.between(1, 5), draws.between(1, 24), draws.one_in(3) ? 0 : draws.between(1, 30)};
  if (draws.one_in(2)) shape.kv.state_blocks = draws.between(0, 3);
  shape.max_requests = draws.between(1, 8);
  if (speculates && draws.one_in(2)) shape.drafts = draws.between(1, 5);
  shape.max_tokens = shape.max_requests * (1 + shape.drafts) + draws.below(40);
  if (draws.one_in(4)) shape.micro_batch = draws.between(1, shape.max_tokens);
  return shape;
}

class BatchingTrial {
 public:
  BatchingTrial(Trial& trial, const BatchingPolicyEntry& entry)
      : trial_(trial),
        shape_(draw_batching_shape(trial, entry.speculates)),
        policy_(make_batching_policy(entry, shape_, trial.parameters, kClosely)),
        blocks_(shape_.kv.gpu_blocks),
        resizes_(!trial.smallest && trial.draws.one_in(3)) {
    draw_requests();
  }

  void play() {
    for (int steps = 0; steps < kMostSteps; ++steps) {
      while (next_ < requests_.size() && trial_.draws.one_in(2)) policy_->arrive(requests_[next_++]);
      if (resizes_ && steps < kResizingSteps && trial_.draws.one_in(4))
        resize(trial_.draws.below(static_cast<std::uint32_t>(shape_.kv.gpu_blocks) + 1));
      if (steps == kResizingSteps) resize(shape_.kv.gpu_blocks);
      if (run_step()) continue;
      if (const KvUse use = policy_->use(); use.running + use.waiting + use.swapped > 0)
        resize(shape_.kv.gpu_blocks);  // it waits for more blocks
      else if (next_ == requests_.size())
        return check_empty(use);
    }
    throw PolicyError("after " + std::to_string(kMostSteps) + " steps " + std::to_string(requests_.size()) +
                      " requests are not answered");
  }

 private:
  void draw_requests() {
    Draws& draws = trial_.draws;
    const std::uint32_t prefilled = draws.below(3);  // none, some, all
    const std::uint32_t count = trial_.smallest ? 1 : draws.between(1, 14);
    for (std::uint32_t i = 0; i < count; ++i) {
      BatchRequest request{.id = 100 - i};
      if (!trial_.smallest) {
        request.prompt_tokens = draws.between(1, 20);
        request.output_tokens = draws.between(1, 12);
        request.prefilled = prefilled == 2 || (prefilled == 1 && draws.one_in(2));
      }
      const std::string why = policy_->misfit(request);
      trial_.answers.add(std::uint64_t{why.size()});
      if (why.empty()) requests_.push_back(request);
    }
    if (requests_.empty()) throw InputError("", "takes none of the instance's requests");
    if (!trial_.smallest && draws.one_in(2)) draw_parts();
  }

  /// Most begin as the first one does; some of these go on as each other do.
  void draw_parts() {
    Draws& draws = trial_.draws;
    const std::uint32_t first = draws.between(1, 16), second = first + draws.between(1, 16);
    parts_.reserve(requests_.size());
    for (BatchRequest& request : requests_) {
      const std::uint32_t tokens = request.prompt_tokens + request.output_tokens;
      std::vector<TokenPart>& parts = parts_.emplace_back();
      if (draws.one_in(4)) continue;
      parts.push_back({1, std::min(first, tokens)});
      if (tokens > first && draws.one_in(2)) parts.push_back({2, std::min(second, tokens)});
      request.parts = parts;
    }
  }

  void resize(std::uint64_t blocks) {
    blocks_ = std::max(blocks, policy_->use().gpu_floor);
    policy_->resize(blocks_);
  }

  bool run_step() {
    const bool runs = policy_->form(step_);
    for (const StepShare& share : step_.shares)
      trial_.answers.add_all(std::array{share.request, share.tokens, share.context});
    trial_.answers.add_all(step_.swapped_out);
    trial_.answers.add_all(step_.dropped);
    if (runs) {
      refuse_some();
      policy_->complete();
    }
    return runs;
  }

  /// Of drafts: any number of a share's last ones.
  void refuse_some() {
    bool any = false;
    refused_.clear();
    for (const StepShare& share : step_.shares) {
      const std::uint32_t drafts = share.prompt ? 0 : share.tokens - 1;
      refused_.push_back(drafts == 0 ? 0 : trial_.draws.below(drafts + 1));
      any = any || refused_.back() > 0;
    }
    if (any) policy_->refuse(refused_);
  }

  static void check_empty(const KvUse& use) {
    if (use != KvUse())
      throw PolicyError("when all requests are answered " + std::to_string(use.gpu_blocks) +
                        " blocks are in use, and " + std::to_string(use.gpu_floor) + " promised");
  }

  Trial& trial_;
  BatchingShape shape_;
  std::unique_ptr<BatchingPolicy> policy_;
  std::uint64_t blocks_;
  bool resizes_;
  std::vector<BatchRequest> requests_;
  std::vector<std::vector<TokenPart>> parts_;  // of these, where they have tokens in common
  std::size_t next_ = 0;                       // that arrives
  BatchStep step_;
  std::vector<std::uint32_t> refused_;  // by share of it
};

}  // namespace

PolicyCheck check_policy(const BatchingPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("batching", entry.info, options,
                     [&](Trial& trial) { BatchingTrial(trial, entry).play(); });
}

}  // namespace moelab
