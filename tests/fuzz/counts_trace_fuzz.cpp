// read_counts_trace.
#include "tests/fuzz/fuzz_support.hpp"
#include "traces/counts_trace.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  accepted([&] {
    const CountsTrace trace = read_counts_trace(memory_file(input.rest()));
    touch(trace.model());
    touch(trace.provenance());
    require(trace.prompts() >= 1 && trace.layers() >= 1 && trace.experts() >= 1);
    require(trace.top_k() <= trace.experts());
    std::uint64_t sum = 0;
    for (std::uint64_t prompt = 0; prompt < trace.prompts(); ++prompt) {
      require(trace.domain_of(prompt) < std::max<std::size_t>(trace.domains().size(), 1));
      for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
        for (const std::uint64_t count : trace.counts(prompt, layer))
          require(!__builtin_add_overflow(sum, count, &sum));
    }
  });
  return 0;
}
