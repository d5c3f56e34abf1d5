#include "models/expert_parallel.hpp"

#include <algorithm>

#include "models/tensor_parallel.hpp"

namespace moelab {

ExpertRange experts_of_rank(int experts, int ranks, int rank) {
  const int even = experts / ranks, more = experts % ranks;
  return {rank * even + std::min(rank, more), even + (rank < more ? 1 : 0)};
}

Bytes dispatch_bytes(const Architecture& model, double rows) {
  constexpr double kBytesPerChoice = 8;
  return all_reduce_bytes(model, rows) + Bytes(kBytesPerChoice * model.moe().top_k * rows);
}

Bytes combine_bytes(const Architecture& model, double rows) {
  return all_reduce_bytes(model, rows);
}

}  // namespace moelab
