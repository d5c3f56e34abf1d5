// Dense layers' products on one core: by bytes of weights and tokens. One token shows the bandwidth that they
// get, many the floating-point rate.
#include <cmath>

#include "hw/bench/operations_case.hpp"
#include "hw/compute/dense_kernel.hpp"

namespace moelab {

namespace {

constexpr std::size_t kColumns = DenseKernel::kUsualColumns;

class Dense final : public BenchOperation {
 public:
  Dense(std::shared_ptr<DenseKernel> kernel, std::uint64_t bytes, std::size_t tokens)
      : kernel_(std::move(kernel)), bytes_(bytes), tokens_(tokens) {}

  void run() override { sum_ = kernel_->run(bytes_, tokens_); }
  /// As DenseKernel::run says.
  bool right() const override {
    const double rows = static_cast<double>(bytes_) / (2 * kColumns);
    const double due = rows * static_cast<double>(tokens_) * static_cast<double>(kColumns + 1) / 2;
    return std::abs(sum_ - due) <= 1e-4 * due;
  }

 private:
  std::shared_ptr<DenseKernel> kernel_;
  std::uint64_t bytes_;
  std::size_t tokens_;
  double sum_ = 0;
};

class DenseCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    const bool quick = workspace().options().quick;
    const auto kernel = std::make_shared<DenseKernel>(beyond_caches(quick), kColumns);
    const std::vector<std::size_t> tokens =
        quick ? std::vector<std::size_t>{1, 16} : std::vector<std::size_t>{1, 2, 4, 16, 64};
    for (const std::uint64_t bytes : {std::uint64_t{2} << 20, std::uint64_t{16} << 20}) {
      for (const std::size_t count : tokens) {
        BenchOperations operations;
        operations.push_back(std::make_unique<Dense>(kernel, bytes, count));
        add({{{"bytes", bytes}, {"tokens", std::uint64_t{count}}},
             static_cast<double>(bytes),
             static_cast<double>(bytes) * static_cast<double>(count)},
            std::move(operations));
      }
    }
  }
};

}  // namespace

BenchRow dense_case() {
  return {.name = "dense",
          .help = "Dense layers' products in BF16 on one core: memory bound at one token",
          .parameters = "bytes (of weights), tokens",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<DenseCase>(workspace);
          }};
}

}  // namespace moelab
