// What reads and the CPU's work cost each other: decompression and reads, each timed alone and beside the
// other, and an expert beside reads.
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
      add(mode, "read", {}, "");
    }
    for (const std::string& codec : codecs) {
      for (const unsigned threads : workspace_.thread_counts()) {
        add({}, "decompress", decompress(threads, codec), codec);
        for (const char* timed : {"read", "decompress"})
          add(ReadMode::io_uring, timed, decompress(threads, codec), codec);
      }
    }
    add({}, "expert", expert(), "");
    add(ReadMode::io_uring, "expert", expert(), "");
  }

  std::vector<BenchPoint> points() const override { return points_; }

  std::string check(std::size_t point) override {
    const One& one = ones_[point];
    const std::string wrong = one.reads != nullptr ? one.reads->check() : "";
    return wrong.empty() ? check_operations(one.work) : wrong;
  }

  double run(std::size_t point, std::size_t operations) override {
    const One& one = ones_[point];
    std::vector<BenchWork> work = works_of(one.work), read;
    if (one.reads != nullptr) read.push_back([reads = one.reads] { reads->run(1); });
    return one.read_is_timed ? team_seconds(read, work, operations) : team_seconds(work, read, operations);
  }

 private:
  struct One {
    bool read_is_timed;
    BenchReads* reads;     // nullptr: none
    BenchOperations work;  // one a thread
  };

  BenchOperations decompress(unsigned threads, const std::string& codec) {
    BenchOperations each;
    for (unsigned i = 0; i < threads; ++i)
      each.push_back(decompress_operation(workspace_.shards(codec, kReadBytes),
                                          workspace_.tensor().exponents.bytes(), workspace_.near_output(i)));
    return each;
  }
  BenchOperations expert() {
    BenchOperations one;
    one.push_back(expert_operation(workspace_.ones(), workspace_.experts().front(), 1));
    return one;
  }

  /// No mode: nothing is read. No work: nothing but reads. The codec of what is decompressed.
  void add(std::optional<ReadMode> mode, const std::string& timed, BenchOperations work,
           const std::string& codec) {
    const bool read_is_timed = timed == "read";
    const std::uint64_t threads = work.size();
    const bool alone = read_is_timed ? threads == 0 : !mode;
    const double moved = read_is_timed           ? static_cast<double>(kReadBytes)
                         : timed == "decompress" ? static_cast<double>(kReadBytes * threads)
                                                 : 0;
    points_.push_back({{{"timed", timed},
                        {"beside", alone           ? "nothing"
                                   : read_is_timed ? "decompress"
                                                   : "read"},
                        {"codec", codec.empty() ? "-" : codec},
                        {"mode", mode ? std::string(to_string(*mode)) : "-"},
                        {"bytes", std::uint64_t{kReadBytes}},
                        {"threads", threads}},
                       moved,
                       0,
                       mode ? reads_.back().why() : std::string(),
                       kStreamSampleSeconds});
    ones_.push_back({read_is_timed, mode ? &reads_.back() : nullptr, std::move(work)});  // the latest reads
  }

  BenchWorkspace& workspace_;
  std::deque<BenchReads> reads_;  // stay where they are
  std::vector<BenchPoint> points_;
  std::vector<One> ones_;
};

}  // namespace

BenchRow interference_case() {
  return {.name = "interference",
          .help = "Reads beside decompression, decompression and an expert beside reads, and each alone",
          .parameters =
              "timed (read, decompress, expert), beside (nothing, decompress, read), codec, mode, "
              "bytes (of a read and of a shard), threads (that decompress or compute)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<InterferenceCase>(workspace);
          }};
}

}  // namespace moelab
