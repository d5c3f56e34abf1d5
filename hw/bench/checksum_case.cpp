// The checksum that says whether a chunk or tensor is the one that was packed: by bytes.
#include <cstring>

#include "hw/bench/operations_case.hpp"
#include "hw/codec/chunk.hpp"

namespace moelab {

namespace {

class Checksum final : public BenchOperation {
 public:
  Checksum(std::span<const std::byte> memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  void run() override {
    offset_ += bytes_;
    if (offset_ + bytes_ > memory_.size()) offset_ = 0;
    found_ = checksum(memory_.subspan(offset_, bytes_));
  }
  /// Another than that of the same bytes but for one bit.
  bool right() const override {
    std::vector<std::byte> other(memory_.begin() + static_cast<std::ptrdiff_t>(offset_),
                                 memory_.begin() + static_cast<std::ptrdiff_t>(offset_ + bytes_));
    if (checksum(other) != found_) return false;
    other[bytes_ / 2] ^= std::byte{1};
    return checksum(other) != found_;
  }

 private:
  std::span<const std::byte> memory_;
  std::size_t bytes_, offset_ = 0;
  volatile std::uint64_t found_ = 0;
};

class ChecksumCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    for (const std::size_t bytes : workspace().sizes()) {
      BenchOperations operations;
      operations.push_back(std::make_unique<Checksum>(workspace().tensor().weights.bytes(), bytes));
      add({{{"bytes", std::uint64_t{bytes}}}, static_cast<double>(bytes)}, std::move(operations));
    }
  }
};

}  // namespace

BenchRow checksum_case() {
  return {.name = "checksum",
          .help = "The checksum of a chunk or tensor",
          .parameters = "bytes",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<ChecksumCase>(workspace);
          }};
}

}  // namespace moelab
