#include <span>
#include <stdexcept>

#include "policies/guard/policy_guard.hpp"
#include "policies/guard/request_books.hpp"

namespace moelab {
namespace {

class GuardedBatching final : public BatchingPolicy {
 public:
  GuardedBatching(const BatchingPolicyEntry& entry, const BatchingShape& shape,
                  const PolicyParameters& parameters, const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(shape, parameters); })),
        guard_(entry.info, options),
        shape_(shape),
        books_(shape) {}

  std::string misfit(const BatchRequest& request) const override {
    std::string why = guard_.ask([&] { return policy_->misfit(request); });
    const std::uint64_t blocks = request_blocks(final_tokens(request), shape_.kv);
    if (why.empty() && blocks > books_.gpu_blocks())
      guard_.broken("says that a request fits that needs " + counted(blocks, "block") + ", there are " +
                    std::to_string(books_.gpu_blocks()));
    return why;
  }

  void arrive(const BatchRequest& request) override {
    guard_.ask([&] { policy_->arrive(request); });
    books_.arrive(request);
  }

  bool form(BatchStep& step) override {
    guard_.begin_step();
    const bool runs = guard_.ask([&] { return policy_->form(step); });
    if (runs == step.shares.empty())
      guard_.broken(runs ? "says that a step runs, and gives none of its shares"
                         : "says that nothing can run, and gives " + counted(step.shares.size(), "share"));
    books_.form(guard_, step);
    books_.check_use(guard_, asked_use(), true);
    if (!runs && books_.all_fit([this](const BatchRequest& request) { return misfit(request).empty(); }))
      guard_.broken("says that nothing can run, though each request that is there fits the KV cache");
    return runs;
  }

  void refuse(std::span<const std::uint32_t> refused) override {
    guard_.ask([&] { policy_->refuse(refused); });
    books_.refuse(refused);
  }

  void complete() override {
    guard_.ask([&] { policy_->complete(); });
    books_.complete();
    books_.check_use(guard_, asked_use(), false);
  }

  void resize(std::uint64_t gpu_blocks) override {
    if (const std::uint64_t floor = asked_use().gpu_floor; gpu_blocks < floor)
      throw std::invalid_argument(std::to_string(floor) +
                                  " blocks are promised, the KV cache cannot shrink to " +
                                  std::to_string(gpu_blocks));
    guard_.ask([&] { policy_->resize(gpu_blocks); });
    books_.resize(gpu_blocks);
  }

  KvUse use() const override { return asked_use(); }

 private:
  KvUse asked_use() const {
    return guard_.ask([&] { return policy_->use(); });
  }

  std::unique_ptr<BatchingPolicy> policy_;
  PolicyGuard guard_;
  BatchingShape shape_;
  RequestBooks books_;
};

}  // namespace

std::unique_ptr<BatchingPolicy> make_batching_policy(const BatchingPolicyEntry& entry,
                                                     const BatchingShape& shape,
                                                     const PolicyParameters& parameters,
                                                     const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(shape, parameters);
  return std::make_unique<GuardedBatching>(entry, shape, parameters, options);
}

}  // namespace moelab
