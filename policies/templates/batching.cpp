// @name@: a batching policy. Requests are served one after the other, each to its end before the next one is
// admitted.
#include <moelab/policy/admitted_requests.hpp>
#include <moelab/policy/policy_library.hpp>

#include <optional>
#include <stdexcept>

namespace {

class Mine final : public moelab::BatchingPolicy {
 public:
  explicit Mine(const moelab::BatchingShape& shape) : shape_(shape) {}

  // Why it could never run to its end, or "". A prompt may be split over steps; an encoder reads a whole one.
  std::string misfit(const moelab::BatchRequest& request) const override {
    return moelab::misfit_of(request, shape_, request.encoded ? request.prompt_tokens : 1, "for its prompt");
  }
  void arrive(const moelab::BatchRequest& request) override { waiting_.push(request); }

  bool form(moelab::BatchStep& step) override {
    moelab::clear(step);
    if (!running_ && !waiting_.empty() && misfit(waiting_.front()).empty()) {
      running_.emplace(waiting_.front());
      waiting_.pop();
      step.admitted.push_back(running_->ask.id);
    }
    if (!running_) return false;
    const std::uint32_t rows = std::min(running_->known - running_->cached, shape_.max_tokens);
    running_->blocks = moelab::request_blocks(running_->cached + rows, shape_.kv);
    moelab::add_share(*running_, rows, step);
    return true;
  }
  void complete() override {
    if (running_ && moelab::complete_share(*running_)) running_.reset();
  }
  // Blocks are promised to the end of the request that runs.
  void resize(std::uint64_t gpu_blocks) override {
    if (gpu_blocks < promised())
      throw std::invalid_argument("@name@: blocks are promised to the request that runs");
    shape_.kv.gpu_blocks = gpu_blocks;
  }
  moelab::KvUse use() const override {
    return {.gpu_blocks = running_ ? running_->blocks : 0,
            .gpu_floor = promised(),
            .running = running_ ? 1U : 0U,
            .waiting = waiting_.size()};
  }

 private:
  std::uint64_t promised() const {
    return running_ ? moelab::request_blocks(moelab::final_tokens(running_->ask), shape_.kv) : 0;
  }

  moelab::BatchingShape shape_;
  moelab::ArrivalQueue waiting_;
  std::optional<moelab::BatchedRequest> running_;
};

moelab::BatchingPolicyEntry mine() {
  return {.info = {.name = "@name@", .help = "one request after the other", .source = "mine"},
          .make = [](const moelab::BatchingShape& shape,
                     const moelab::PolicyParameters&) -> std::unique_ptr<moelab::BatchingPolicy> {
            moelab::check_shape(shape);
            return std::make_unique<Mine>(shape);
          }};
}

}  // namespace

MOELAB_POLICIES(mine())
