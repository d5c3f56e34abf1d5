#include "policies/batching/rank_batching.hpp"

#include "policies/batching/admitted_requests.hpp"

namespace moelab {
namespace {

class RankBatching final : public BatchingPolicy {
 public:
  explicit RankBatching(std::vector<std::unique_ptr<BatchingPolicy>> ranks)
      : ranks_(std::move(ranks)), parts_(ranks_.size()), formed_(ranks_.size()) {}

  std::string misfit(const BatchRequest& request) const override { return ranks_.front()->misfit(request); }

  void arrive(const BatchRequest& request) override {
    std::size_t least = 0;
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank)
      if (load(rank) < load(least)) least = rank;
    ranks_[least]->arrive(request);
  }

  bool form(BatchStep& step) override {
    clear(step);
    bool any = false;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      formed_[rank] = ranks_[rank]->form(parts_[rank]);
      any |= formed_[rank];
      append(parts_[rank], static_cast<std::uint16_t>(rank), step);
    }
    return any;
  }

  void refuse(std::span<const std::uint32_t> refused) override {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::size_t shares = parts_[rank].shares.size();
      if (formed_[rank]) ranks_[rank]->refuse(refused.first(shares));
      refused = refused.subspan(shares);
    }
  }

  void complete() override {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (formed_[rank]) ranks_[rank]->complete();
  }

  void resize(std::uint64_t gpu_blocks) override {
    for (const auto& rank : ranks_) rank->resize(gpu_blocks / ranks_.size());
  }

  KvUse use() const override {
    KvUse all;
    for (const auto& rank : ranks_) {
      const KvUse use = rank->use();
      all.gpu_blocks += use.gpu_blocks;
      all.gpu_floor += use.gpu_floor;
      all.host_blocks += use.host_blocks;
      all.running += use.running;
      all.waiting += use.waiting;
      all.swapped += use.swapped;
    }
    return all;
  }

 private:
  std::uint64_t load(std::size_t rank) const {
    const KvUse use = ranks_[rank]->use();
    return 4 * (use.waiting + use.swapped) + use.running;
  }

  static void append(const BatchStep& part, std::uint16_t rank, BatchStep& step) {
    for (StepShare share : part.shares) {
      share.rank = rank;
      step.shares.push_back(share);
    }
    step.rows += part.rows;
    step.recomputed += part.recomputed;
    step.blocks_out += part.blocks_out;
    step.blocks_in += part.blocks_in;
    step.of_ranks.push_back({part.blocks_out, part.blocks_in});
    const auto add = [](const std::vector<std::uint32_t>& ids, std::vector<std::uint32_t>& all) {
      all.insert(all.end(), ids.begin(), ids.end());
    };
    add(part.admitted, step.admitted);
    add(part.restarted, step.restarted);
    add(part.resumed, step.resumed);
    add(part.swapped_out, step.swapped_out);
    add(part.dropped, step.dropped);
    add(part.finished, step.finished);
  }

  std::vector<std::unique_ptr<BatchingPolicy>> ranks_;
  std::vector<BatchStep> parts_;  // of the step that was formed, by rank
  std::vector<char> formed_;      // by rank: it runs some of it
};

}  // namespace

std::unique_ptr<BatchingPolicy> make_rank_batching(std::vector<std::unique_ptr<BatchingPolicy>> ranks) {
  return std::make_unique<RankBatching>(std::move(ranks));
}

}  // namespace moelab
