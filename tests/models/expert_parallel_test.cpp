// Which GPU has which experts, and what goes between GPUs for them.
#include "models/expert_parallel.hpp"

#include <catch2/catch.hpp>

#include "models/tensor_parallel.hpp"

namespace moelab::expert_parallel_test {

TEST_CASE("expert parallel: every expert is on one GPU, neighbours together, the first GPUs have one more") {
  for (int experts = 1; experts <= 130; ++experts)
    for (int ranks = 1; ranks <= experts; ++ranks) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ExpertRange range = experts_of_rank(experts, ranks, rank);
        REQUIRE(range.first == next);
        REQUIRE(range.count == experts / ranks + (rank < experts % ranks ? 1 : 0));
        next += range.count;
      }
      REQUIRE(next == experts);
      REQUIRE(most_experts_of_rank(experts, ranks) == (experts + ranks - 1) / ranks);
    }
}

TEST_CASE("expert parallel: bytes of a row to its experts and back") {
  const Architecture qwen = load_architecture("qwen3-30b-a3b");
  // 2,048 hidden values of 2 bytes; 8 experts chosen, a number and a weight of 4 bytes each.
  CHECK(dispatch_bytes(qwen, 10) == Bytes(10 * (2048 * 2 + 8 * (4 + 4))));
  CHECK(combine_bytes(qwen, 10) == Bytes(10 * 2048 * 2));
}

TEST_CASE("expert parallel: what a GPU has of a model whose experts are divided otherwise than the rest") {
  const Architecture whole = load_architecture("qwen3-30b-a3b");
  const Architecture tensor = parallel_part(whole, 2, 1);
  CHECK(tensor.moe().width == 768);
  CHECK(tensor.layers.front().attention.heads == 16);
  CHECK(tensor.vocab == whole.vocab / 2);
  CHECK(expert_bytes(tensor) == expert_bytes(whole));
  CHECK(kv_bytes_per_token(tensor).value() == kv_bytes_per_token(whole).value() / 2);
  const Architecture slices = parallel_part(whole, 1, 4);
  CHECK(slices.moe().width == 192);
  CHECK(non_expert_bytes(slices) == non_expert_bytes(whole));
  CHECK(parallel_part(whole, 1, 1) == whole);
  CHECK(parallel_part(whole, 4, 4) == tensor_parallel_part(whole, 4));
}

}  // namespace moelab::expert_parallel_test
