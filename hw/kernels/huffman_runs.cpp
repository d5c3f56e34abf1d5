#include "hw/kernels/huffman_runs.hpp"

namespace moelab {

HuffmanRuns huffman_runs(const HuffmanLengths& lengths) {
  const HuffmanTable single = huffman_table(lengths);
  HuffmanRuns runs{};
  for (std::size_t index = 0; index < single.size(); ++index) {
    unsigned count = 0, bits = 0;
    while (count < kMaxRun) {
      const HuffmanEntry next = single[index >> bits];
      if (bits + next.bits > kHuffmanMaxLength) break;  // not all of its bits are in the index
      runs.symbols[index] |= std::uint32_t{next.symbol} << (8 * count++);
      bits += next.bits;
    }
    runs.steps[index] = static_cast<std::uint16_t>(bits | count << 4 | unsigned{single[index].bits} << 8);
  }
  return runs;
}

}  // namespace moelab
