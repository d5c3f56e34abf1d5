// One operation while n threads are busy, with decompression, joins and experts in turn, or with experts and
// copies: what operations cost each other by sharing cores, caches and memory. n = 1 is the operation alone;
// n above the cores, when they wait for each other.
#include <algorithm>
#include <array>
#include <span>

#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

constexpr std::size_t kShardBytes = std::size_t{512} << 10;  // of a shard, and elements of a join
constexpr double kSharedSampleSeconds = 20e-3;               // several of the system's time slices
constexpr std::size_t kCopyBytes = std::size_t{2} << 20;     // a tensor
enum class Work { decompress, join, expert, copy };
struct NamedWork {
  const char* name;
  Work work;
};
constexpr std::array kStorageWorks = {NamedWork{"decompress", Work::decompress},
                                      NamedWork{"join", Work::join}, NamedWork{"expert", Work::expert}};
/// Two experts, the GPU's and the CPU's, a copy.
constexpr std::array kLinkWorks = {NamedWork{"copy", Work::copy}, NamedWork{"expert", Work::expert},
                                   NamedWork{"other expert", Work::expert}};

class SharingCase final : public BenchCase {
 public:
  SharingCase(BenchWorkspace& workspace, std::span<const NamedWork> works)
      : workspace_(workspace), works_(works) {}

  std::string filter() const override { return workspace_.why_no_memory(); }

  void prepare() override {
    std::vector<unsigned> busy = workspace_.thread_counts();
    busy.push_back(workspace_.cores() + 1);
    busy.push_back(workspace_.cores() + 2);
    for (std::size_t work = 0; work < works_.size(); ++work) {
      for (const unsigned threads : busy) {
        BenchOperations operations;
        for (unsigned i = 0; i < threads; ++i)
          operations.push_back(make(works_[(work + i) % works_.size()].work, i, threads));
        points_.push_back({{{"work", works_[work].name}, {"busy", std::uint64_t{threads}}},
                           0,
                           0,
                           {},
                           kSharedSampleSeconds});
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
  std::unique_ptr<BenchOperation> make(Work work, unsigned thread, unsigned threads) {
    switch (work) {
      case Work::decompress:
        return decompress_operation(workspace_.shards(workspace_.usual_codec(), kShardBytes),
                                    workspace_.tensor().exponents.bytes(), workspace_.near_output(thread));
      case Work::join:
        return join_operation(workspace_.tensor(), kShardBytes, workspace_.far_output(thread, threads));
      case Work::copy: {
        const std::span<std::byte> to = workspace_.far_output(thread, threads);
        return copy_operation(workspace_.ones(), std::min({kCopyBytes, to.size(), workspace_.ones().size()}),
                              to);
      }
      case Work::expert:
        break;
    }
    return expert_operation(workspace_.ones(), workspace_.experts().front(), 1, 3 * thread);
  }

  BenchWorkspace& workspace_;
  std::span<const NamedWork> works_;
  std::vector<BenchPoint> points_;
  std::vector<BenchOperations> operations_;
};

}  // namespace

BenchRow sharing_case() {
  return {.name = "sharing",
          .help = "One operation while so many threads are busy with all kinds of them",
          .parameters = "work (decompress, join, expert), busy (threads, the timed one with them)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<SharingCase>(workspace, kStorageWorks);
          }};
}

BenchRow link_sharing_case() {
  return {.name = "link-sharing",
          .help = "The same with what a stand-in GPU's host does: copies and experts",
          .parameters = "work (copy, expert, other expert), busy",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<SharingCase>(workspace, kLinkWorks);
          }};
}

}  // namespace moelab
