// One expert on one core: by shape and tokens.
#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

class ExpertCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    const std::vector<std::size_t> tokens = workspace().options().quick
                                                ? std::vector<std::size_t>{1, 4, 16}
                                                : std::vector<std::size_t>{1, 2, 4, 8, 16, 64};
    for (const ExpertShape& shape : workspace().experts())
      for (const std::size_t count : tokens) add_point(shape, count);
  }

 private:
  void add_point(const ExpertShape& shape, std::size_t tokens) {
    BenchOperations operations;
    operations.push_back(expert_operation(workspace().ones(), shape, tokens));
    const auto weights = static_cast<double>(shape.weights());
    add({{{"hidden", std::uint64_t{shape.hidden}},
          {"width", std::uint64_t{shape.width}},
          {"matrices", static_cast<std::uint64_t>(shape.matrices)},
          {"tokens", std::uint64_t{tokens}}},
         2 * weights,
         2 * weights * static_cast<double>(tokens)},
        std::move(operations));
  }
};

}  // namespace

BenchRow expert_case() {
  return {.name = "expert",
          .help = "One expert's feed-forward network in BF16 on one core",
          .parameters = "hidden, width, matrices, tokens",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<ExpertCase>(workspace);
          }};
}

}  // namespace moelab
