// Copies between two regions of memory on one thread, both beyond the caches: the link of a stand-in for a
// GPU.
#include <algorithm>

#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

constexpr std::size_t kActivations = std::size_t{4} << 10;  // of a token

class CopyCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    if (workspace().sizes().front() > kActivations) add_point(kActivations);
    for (const std::size_t bytes : workspace().sizes())
      if (bytes <= workspace().ones().size()) add_point(bytes);
  }

 private:
  void add_point(std::size_t bytes) {
    BenchOperations operations;
    operations.push_back(copy_operation(workspace().ones(), bytes, workspace().far_output(0, 1)));
    add({{{"bytes", std::uint64_t{bytes}}}, static_cast<double>(bytes)}, std::move(operations));
  }
};

}  // namespace

BenchRow copy_case() {
  return {.name = "copy",
          .help = "One copy between two regions of memory on one thread: a stand-in GPU's link",
          .parameters = "bytes",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<CopyCase>(workspace);
          }};
}

}  // namespace moelab
