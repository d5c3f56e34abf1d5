// What reads and decompression cost each other: each timed alone and beside the other.
#include <deque>
#include <optional>

#include "hw/bench/bench_read.hpp"
#include "hw/bench/bench_work.hpp"
#include "hw/bench/bench_workspace.hpp"

namespace moelab {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;  // of reads and shards
constexpr double kStreamSampleSeconds = 10e-3;

class InterferenceCase final : public BenchCase {
 public:
  explicit InterferenceCase(BenchWorkspace& workspace) : workspace_(workspace) {}

  std::string filter() const override {
    const std::string why = why_no_room(workspace_);
    return why.empty() ? workspace_.why_no_memory() : why;
  }

  void prepare() override {
    const auto codecs =
        workspace_.options().quick ? std::vector<std::string>{workspace_.usual_codec()} : workspace_.codecs();
    for (const ReadMode mode : {ReadMode::direct, ReadMode::io_uring}) {
      reads_.emplace_back(workspace_.file(), ReadOptions{mode, 1}, kReadBytes);
      add(mode, "read", 0, "");
    }
    for (const std::string& codec : codecs) {
      for (const unsigned threads : workspace_.thread_counts()) {
        add({}, "decompress", threads, codec);
        for (const char* timed : {"read", "decompress"}) add(ReadMode::io_uring, timed, threads, codec);
      }
    }
  }

  std::vector<BenchPoint> points() const override { return points_; }

  std::string check(std::size_t point) override {
    const One& one = ones_[point];
    const std::string wrong = one.reads != nullptr ? one.reads->check() : "";
    return wrong.empty() ? check_operations(one.decompress) : wrong;
  }

  double run(std::size_t point, std::size_t operations) override {
    const One& one = ones_[point];
    std::vector<BenchWork> decompress = works_of(one.decompress), read;
    if (one.reads != nullptr) read.push_back([reads = one.reads] { reads->run(1); });
    return one.read_is_timed ? team_seconds(read, decompress, operations)
                             : team_seconds(decompress, read, operations);
  }

 private:
  struct One {
    bool read_is_timed;
    BenchReads* reads;  // nullptr: none
    BenchOperations decompress;
  };

  /// No mode: nothing is read. No threads: nothing is decompressed.
  void add(std::optional<ReadMode> mode, const std::string& timed, unsigned threads,
           const std::string& codec) {
    const bool read_is_timed = timed == "read";
    One one{read_is_timed, mode ? &reads_.back() : nullptr, {}};  // the latest reads are of this mode
    for (unsigned i = 0; i < threads; ++i)
      one.decompress.push_back(decompress_operation(workspace_.shards(codec, kReadBytes),
                                                    workspace_.tensor().exponents.bytes(),
                                                    workspace_.near_output(i)));
    const bool alone = read_is_timed ? threads == 0 : !mode;
    points_.push_back({{{"timed", timed},
                        {"beside", alone           ? "nothing"
                                   : read_is_timed ? "decompress"
                                                   : "read"},
                        {"codec", codec.empty() ? "-" : codec},
                        {"mode", mode ? std::string(to_string(*mode)) : "-"},
                        {"bytes", std::uint64_t{kReadBytes}},
                        {"threads", std::uint64_t{threads}}},
                       static_cast<double>(kReadBytes) * (read_is_timed ? 1 : threads),
                       0,
                       mode ? reads_.back().why() : std::string(),
                       kStreamSampleSeconds});
    ones_.push_back(std::move(one));
  }

  BenchWorkspace& workspace_;
  std::deque<BenchReads> reads_;  // stay where they are
  std::vector<BenchPoint> points_;
  std::vector<One> ones_;
};

}  // namespace

BenchRow interference_case() {
  return {.name = "interference",
          .help = "Reads beside decompression, and decompression beside reads, and both alone",
          .parameters =
              "timed (read, decompress), beside (nothing, decompress, read), codec, mode, "
              "bytes, threads (that decompress)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<InterferenceCase>(workspace);
          }};
}

}  // namespace moelab
