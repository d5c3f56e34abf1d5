// fixed3 decodes and joins in one go: by size of shard and threads.
#include <algorithm>

#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

constexpr const char* kCodec = "fixed3";  // the one that can

class RecoverCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  std::string filter() const override {
    const auto& codecs = workspace().codecs();
    if (std::ranges::find(codecs, kCodec) == codecs.end()) return "fixed3 is not among the codecs";
    return OperationsCase::filter();
  }

  void prepare() override {
    for (const std::size_t bytes : workspace().sizes())
      for (const unsigned threads : workspace().thread_counts()) add_point(bytes, threads);
  }

 private:
  void add_point(std::size_t bytes, unsigned threads) {
    BenchOperations operations;
    for (unsigned i = 0; i < threads; ++i)
      operations.push_back(recover_operation(workspace().shards(kCodec, bytes), workspace().tensor(),
                                             workspace().far_output(i, threads)));
    add({{{"codec", kCodec}, {"bytes", std::uint64_t{bytes}}, {"threads", std::uint64_t{threads}}},
         2.0 * static_cast<double>(bytes) * threads},
        std::move(operations));
  }
};

}  // namespace

BenchRow recover_case() {
  return {.name = "recover",
          .help = "A fixed3 shard decoded and joined to BF16 in one go",
          .parameters = "codec, bytes (of plane), threads",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<RecoverCase>(workspace);
          }};
}

}  // namespace moelab
