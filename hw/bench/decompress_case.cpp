// Shards of exponent planes decoded: by codec, size and number of threads.
#include "hw/bench/operations_case.hpp"

namespace moelab {

namespace {

class DecompressCase final : public OperationsCase {
 public:
  using OperationsCase::OperationsCase;

  void prepare() override {
    for (const std::string& codec : workspace().codecs())
      for (const std::size_t bytes : workspace().sizes())
        for (const unsigned threads : workspace().thread_counts()) add_point(codec, bytes, threads);
  }

 private:
  void add_point(const std::string& codec, std::size_t bytes, unsigned threads) {
    const BenchShards& shards = workspace().shards(codec, bytes);
    BenchOperations operations;
    for (unsigned i = 0; i < threads; ++i)
      operations.push_back(
          decompress_operation(shards, workspace().tensor().exponents.bytes(), workspace().near_output(i)));
    add({{{"codec", shards.codec}, {"bytes", std::uint64_t{bytes}}, {"threads", std::uint64_t{threads}}},
         static_cast<double>(bytes) * threads},
        std::move(operations));
  }
};

}  // namespace

BenchRow decompress_case() {
  return {.name = "decompress",
          .help = "One shard of an exponent plane decoded",
          .parameters = "codec, bytes (of plane), threads (each with shards of its own)",
          .make = [](BenchWorkspace& workspace) -> std::unique_ptr<BenchCase> {
            return std::make_unique<DecompressCase>(workspace);
          }};
}

}  // namespace moelab
