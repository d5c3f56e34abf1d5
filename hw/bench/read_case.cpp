// Reads of a file: by mode, size and depth, at places all over it.
#include <algorithm>

#include "hw/bench/bench_read.hpp"
#include "hw/bench/bench_team.hpp"
#include "hw/bench/bench_workspace.hpp"

namespace moelab {

namespace {

constexpr std::uint64_t kCachedBytes = std::uint64_t{128} << 20;
constexpr double kSampleSeconds = 10e-3;  // storage swings from read to read

class ReadCase final : public BenchCase {
 public:
  explicit ReadCase(BenchWorkspace& workspace) : workspace_(workspace) {}

  std::string filter() const override {
    const std::string why = why_no_room(workspace_);
    if (!why.empty()) return why;
    std::size_t buffers = 0;
    for (const std::size_t depth : depths()) buffers += depth;
    std::uint64_t due = 0;
    for (const std::size_t bytes : workspace_.sizes()) due += (3 + buffers) * bytes;
    return workspace_.why_no_memory(due);
  }

  void prepare() override {
    // Just written, and never told to be forgotten: the page cache has it.
    cached_ = std::make_unique<ScratchFile>(
        workspace_.options().folder, std::max<std::uint64_t>(kCachedBytes, 8 * workspace_.sizes().back()));
    for (const std::size_t bytes : workspace_.sizes()) {
      add("buffered", workspace_.file(), {ReadMode::buffered, 1}, bytes);
      add("cached", *cached_, {ReadMode::buffered, 1}, bytes);
      add("direct", workspace_.file(), {ReadMode::direct, 1}, bytes);
      for (const std::size_t depth : depths())
        add("io_uring", workspace_.file(), {ReadMode::io_uring, depth}, bytes);
    }
  }

  std::vector<BenchPoint> points() const override {
    std::vector<BenchPoint> points;
    for (const One& one : ones_)
      points.push_back({{{"mode", one.mode},
                         {"bytes", std::uint64_t{one.reads.bytes()}},
                         {"depth", std::uint64_t{one.reads.depth()}}},
                        static_cast<double>(one.reads.bytes()),
                        0,
                        one.reads.why(),
                        kSampleSeconds});
    return points;
  }

  std::string check(std::size_t point) override {
    settle(ones_[point]);
    return ones_[point].reads.check();
  }

  double run(std::size_t point, std::size_t operations) override {
    settle(ones_[point]);
    const double begin = seconds_now();
    ones_[point].reads.run(operations);
    return seconds_now() - begin;
  }

 private:
  struct One {
    std::string mode;
    BenchReads reads;
  };

  std::vector<std::size_t> depths() const {
    return workspace_.options().quick ? std::vector<std::size_t>{1, 4} : std::vector<std::size_t>{1, 2, 4, 8};
  }
  void add(const std::string& mode, const ScratchFile& file, const ReadOptions& options, std::size_t bytes) {
    ones_.push_back({mode, BenchReads(file, options, bytes)});
  }
  /// Cold is what the page cache has forgotten.
  void settle(const One& one) {
    if (one.mode == "buffered") workspace_.file().forget();
  }

  BenchWorkspace& workspace_;
  std::unique_ptr<ScratchFile> cached_;
  std::vector<One> ones_;
};

}  // namespace

BenchRow read_case() {
  return {.name = "read",
          .help = "One read of a file, from storage or from the page cache",
          .parameters =
              "mode (buffered: cold, cached: page cache hits, direct: O_DIRECT, io_uring), "
              "bytes, depth (reads under way)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<ReadCase>(workspace);
          }};
}

}  // namespace moelab
