#include <vector>

#include "hw/bench/bench_case.hpp"

namespace moelab {

// A row a case, in the order in which they are listed and run: the function at the end of the case's file.
// clang-format off
#define BENCH_CASES(row) \
  row(read_case) \
  row(memory_case) \
  row(copy_case) \
  row(remap_case) \
  row(decompress_case) \
  row(interference_case) \
  row(join_case) \
  row(recover_case) \
  row(checksum_case) \
  row(expert_case) \
  row(dense_case) \
  row(sharing_case) \
  row(link_sharing_case) \
  row(handoff_case) \
  row(cuda_link_case) \
  row(cuda_copy_case) \
  row(cuda_recover_case) \
  row(cuda_expert_case) \
  row(cuda_launch_case) \
  row(cuda_remap_case) \
  row(cuda_overlap_case)
// clang-format on

#define DECLARE(entry) BenchRow entry();
BENCH_CASES(DECLARE)
#undef DECLARE

std::span<const BenchRow> bench_table() {
#define CALL(entry) entry(),
  static const std::vector<BenchRow> table = {BENCH_CASES(CALL)};
#undef CALL
  return table;
}

}  // namespace moelab
