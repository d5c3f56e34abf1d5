// Planes joined to BF16 on the CPU: by elements and threads.
#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

class JoinCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    for (const std::size_t elements : workspace().sizes())
      for (const unsigned threads : workspace().thread_counts()) add_point(elements, threads);
  }

 private:
  void add_point(std::size_t elements, unsigned threads) {
    BenchOperations operations;
    for (unsigned i = 0; i < threads; ++i)
      operations.push_back(
          join_operation(workspace().tensor(), elements, workspace().far_output(i, threads)));
    add({{{"elements", std::uint64_t{elements}}, {"threads", std::uint64_t{threads}}},
         2.0 * static_cast<double>(elements) * threads},
        std::move(operations));
  }
};

}  // namespace

BenchRow join_case() {
  return {.name = "join",
          .help = "Exponent and sign-mantissa planes joined to BF16 on the CPU",
          .parameters = "elements, threads",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<JoinCase>(workspace);
          }};
}

}  // namespace moelab
