// read_routing_trace, and a trace that it accepts written and read again.
#include "tests/fuzz/fuzz_support.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  accepted([&] {
    const RoutingTrace trace = read_routing_trace(memory_file(input.rest()));
    touch_trace(trace);
    trace.release_rows(0, trace.tokens());
    touch_trace(trace);
  });
  return 0;
}
