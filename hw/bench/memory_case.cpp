// Memory beyond the caches, read and copied by one thread and by several: the most that they get together.
#include <cstring>
#include <numeric>

#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // of an operation

/// A thread's part of the memory: pieces one after the other, and round again.
class Pieces {
 public:
  Pieces(std::size_t begin, std::size_t bytes) : begin_(begin), count_(bytes / kPieceBytes) {}
  void next() { at_ = (at_ + 1) % count_; }
  std::size_t offset() const { return begin_ + at_ * kPieceBytes; }

 private:
  std::size_t begin_, count_, at_ = 0;
};

class Read final : public BenchOperation {
 public:
  Read(AlignedMemory& memory, Pieces pieces) : memory_(memory), pieces_(pieces) {}
  void run() override {
    pieces_.next();
    const auto words = memory_.as<std::uint64_t>().subspan(pieces_.offset() / 8, kPieceBytes / 8);
    sum_ = std::accumulate(words.begin(), words.end(), std::uint64_t{0});
  }
  bool right() const override { return sum_ == kPieceBytes / 8 * kWord; }

  static constexpr std::uint64_t kWord = 0x0101010101010101;

 private:
  AlignedMemory& memory_;
  Pieces pieces_;
  volatile std::uint64_t sum_ = 0;
};

class CopyPieces final : public BenchOperation {
 public:
  CopyPieces(const AlignedMemory& from, AlignedMemory& to, Pieces pieces)
      : from_(from), to_(to), pieces_(pieces) {}
  void run() override {
    pieces_.next();
    std::memcpy(to_.bytes().data() + pieces_.offset(), from_.bytes().data() + pieces_.offset(), kPieceBytes);
  }
  bool right() const override {
    return std::memcmp(to_.bytes().data() + pieces_.offset(), from_.bytes().data() + pieces_.offset(),
                       kPieceBytes) == 0;
  }

 private:
  const AlignedMemory& from_;
  AlignedMemory& to_;
  Pieces pieces_;
};

class MemoryCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    const std::size_t bytes = beyond_caches(workspace().options().quick);
    from_ = AlignedMemory(bytes);
    to_ = AlignedMemory(bytes);
    std::memset(from_.bytes().data(), 1, bytes);
    std::memset(to_.bytes().data(), 2, bytes);
    for (const bool copy : {false, true})
      for (const unsigned threads : workspace().thread_counts()) add_point(copy, threads);
  }

 private:
  void add_point(bool copy, unsigned threads) {
    const std::size_t part = from_.size() / threads / kPieceBytes * kPieceBytes;
    BenchPoint point{{{"work", copy ? "copy" : "read"}, {"threads", std::uint64_t{threads}}},
                     static_cast<double>(kPieceBytes) * threads};
    BenchOperations operations;
    if (part == 0) point.skip = "more threads than pieces of memory";
    for (unsigned i = 0; i < threads && part > 0; ++i) {
      const Pieces pieces(i * part, part);
      if (copy)
        operations.push_back(std::make_unique<CopyPieces>(from_, to_, pieces));
      else
        operations.push_back(std::make_unique<Read>(from_, pieces));
    }
    add(std::move(point), std::move(operations));
  }

  AlignedMemory from_, to_;
};

}  // namespace

BenchRow memory_case() {
  return {.name = "memory",
          .help = "Reading and copying memory beyond the caches: what all threads together may expect",
          .parameters = "work (read, copy), threads",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<MemoryCase>(workspace);
          }};
}

}  // namespace moelab
