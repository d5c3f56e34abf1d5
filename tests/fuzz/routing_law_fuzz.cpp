// Laws of routing: what is accepted is written, reads back the same, and can be resized.
#include "tests/fuzz/fuzz_support.hpp"
#include "traces/law/routing_law.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  RoutingLaw law;
  if (!accepted([&] { law = read_routing_law(memory_file(input.rest())); })) return 0;
  require(!law.layers.empty() && law.top_k >= 1 && law.top_k <= law.experts);
  const std::string text = to_yaml(law);
  require(to_yaml(read_routing_law(memory_file(text, 1))) == text);
  accepted([&] {
    const RoutingLaw other = resized(law, 7, law.has_encoder() ? 3 : 0, 11, 2);
    require(other.layers.size() == 7 && other.layers.front().bias.size() == 11);
  });
  return 0;
}
