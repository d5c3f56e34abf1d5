// One operation while n threads are busy, with decompression, joins and experts in turn: what operations cost
// each other by sharing cores, caches and memory. n = 1 is the operation alone; n above the cores, when they
// wait for each other.
#include <array>

#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

constexpr std::size_t kBytes = std::size_t{512} << 10;  // of a shard, and elements of a join
constexpr double kSampleSeconds = 20e-3;                // several of the system's time slices
constexpr std::array kWorks = {"decompress", "join", "expert"};

class SharingCase final : public BenchCase {
 public:
  explicit SharingCase(BenchWorkspace& workspace) : workspace_(workspace) {}

  std::string filter() const override { return workspace_.why_no_memory(); }

  void prepare() override {
    std::vector<unsigned> busy = workspace_.thread_counts();
    busy.push_back(workspace_.cores() + 1);
    busy.push_back(workspace_.cores() + 2);
    const BenchShards& shards = workspace_.shards(workspace_.usual_codec(), kBytes);
    const auto make = [&](std::size_t work, unsigned thread, unsigned threads) {
      if (work == 0)
        return decompress_operation(shards, workspace_.tensor().exponents.bytes(),
                                    workspace_.near_output(thread));
      if (work == 1)
        return join_operation(workspace_.tensor(), kBytes, workspace_.far_output(thread, threads));
      return expert_operation(workspace_.ones(), workspace_.experts().front(), 1, 3 * thread);
    };
    for (std::size_t work = 0; work < kWorks.size(); ++work) {
      for (const unsigned threads : busy) {
        BenchOperations operations;
        for (unsigned i = 0; i < threads; ++i)
          operations.push_back(make((work + i) % kWorks.size(), i, threads));
        points_.push_back(
            {{{"work", kWorks[work]}, {"busy", std::uint64_t{threads}}}, 0, 0, {}, kSampleSeconds});
        operations_.push_back(std::move(operations));
      }
    }
  }

  std::vector<BenchPoint> points() const override { return points_; }
  std::string check(std::size_t point) override { return check_operations(operations_[point]); }
  double run(std::size_t point, std::size_t operations) override {
    const std::vector<BenchWork> works = works_of(operations_[point]);
    return team_seconds(std::span(works).first(1), std::span(works).subspan(1), operations);
  }

 private:
  BenchWorkspace& workspace_;
  std::vector<BenchPoint> points_;
  std::vector<BenchOperations> operations_;
};

}  // namespace

std::unique_ptr<BenchCase> make_sharing_case(BenchWorkspace& workspace) {
  return std::make_unique<SharingCase>(workspace);
}

}  // namespace moelab
