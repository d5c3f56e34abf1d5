// Pages shown at addresses that stay, and hidden again: what a stand-in for a GPU does where a GPU would map
// and unmap its memory.
#include <algorithm>
#include <memory>

#include "hw/bench/bench_team.hpp"
#include "hw/bench/bench_workspace.hpp"
#include "hw/io/remapped_memory.hpp"

namespace moelab {

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// Two pieces of memory, and addresses that show one of them, or none.
class RemappedPieces {
 public:
  explicit RemappedPieces(std::size_t bytes) : bytes_(bytes), memory_(bytes, 2 * bytes) {}
  void show(std::size_t piece) { memory_.map(0, piece * bytes_, bytes_); }
  void hide(std::size_t piece) { memory_.unmap(0, piece * bytes_, bytes_); }
  std::span<std::byte> shown() { return memory_.at(0, bytes_); }

 private:
  std::size_t bytes_;
  RemappedMemory memory_;
};

class RemapCase final : public BenchCase {
 public:
  void prepare() override {
    for (const std::size_t bytes : {2 * kMebibyte, 16 * kMebibyte, 64 * kMebibyte})
      for (const char* const step : {"map", "unmap"}) {
        points_.push_back({{{"step", step}, {"bytes", std::uint64_t{bytes}}}});
        sizes_.push_back(bytes);
      }
  }
  std::vector<BenchPoint> points() const override { return points_; }

  /// Fills both pieces with bytes of their own and finds them again at the one address.
  std::string check(std::size_t point) override {
    RemappedPieces pieces(sizes_[point]);
    const auto value = [](std::size_t piece) { return static_cast<std::byte>(0x5A + piece); };
    for (const std::size_t piece : {std::size_t{0}, std::size_t{1}}) {
      pieces.show(piece);
      std::ranges::fill(pieces.shown(), value(piece));
      pieces.hide(piece);
    }
    for (const std::size_t piece : {std::size_t{0}, std::size_t{1}}) {
      pieces.show(piece);
      if (std::ranges::any_of(pieces.shown(), [&](std::byte b) { return b != value(piece); }))
        return "other memory is mapped than was asked for";
      pieces.hide(piece);
    }
    return {};
  }

  double run(std::size_t point, std::size_t operations) override {
    RemappedPieces pieces(sizes_[point]);
    double mapping = 0, unmapping = 0;
    for (std::size_t i = 0; i < operations; ++i) {
      const double begin = seconds_now();
      pieces.show(i % 2);
      const double shown = seconds_now();
      pieces.hide(i % 2);
      mapping += shown - begin;
      unmapping += seconds_now() - shown;
    }
    return point % 2 == 0 ? mapping : unmapping;
  }

 private:
  std::vector<BenchPoint> points_;
  std::vector<std::size_t> sizes_;  // bytes, by point
};

}  // namespace

BenchRow remap_case() {
  return {
      .name = "remap",
      .help = "Memory mapped to, or unmapped from, addresses that stay: a stand-in GPU's paging",
      .parameters = "step (map, unmap), bytes",
      .make = [](BenchWorkspace&) -> std::unique_ptr<BenchCase> { return std::make_unique<RemapCase>(); }};
}

}  // namespace moelab
