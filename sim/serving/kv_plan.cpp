#include "sim/serving/kv_plan.hpp"

#include <algorithm>
#include <cmath>

#include "models/input_error.hpp"
#include "policies/batching/rank_batching.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab {

std::uint64_t whole_blocks(Bytes space, Bytes block) {
  constexpr double kMost = 0x1p40;
  constexpr double kRounding = 1e-9;  // of a block
  return static_cast<std::uint64_t>(std::clamp(space / block + kRounding, 0.0, kMost));
}

namespace {

/// Of the model and of the one that drafts; nothing where no layer is without a window: its blocks are the
/// pool's then.
WindowedKv windowed_kv(const Scenario& s, std::uint32_t block_tokens) {
  WindowedKv all = windowed_kv(s.model, kLongestWindow, block_tokens);
  if (s.speculation.any() && s.speculation.model) {
    const WindowedKv draft = windowed_kv(*s.speculation.model, kLongestWindow, block_tokens);
    all.per_token += draft.per_token;
    all.per_request += draft.per_request;
  }
  return all.per_token < kv_bytes_per_token(s) ? all : WindowedKv{};
}

}  // namespace

void plan_kv_block(const Scenario& s, const SystemConfig& system, MemoryPlan& m) {
  const double share =
      system.batching ? find_batching_policy(system.batching->policy.name)->windowed_share : 1;
  WindowedKv windowed;
  if (share < 1) windowed = windowed_kv(s, system.kv.block_tokens);
  m.kv_block = system.kv.block_tokens * (kv_bytes_per_token(s) - (1 - share) * windowed.per_token);
  if (m.kv_block == Bytes(0))
    throw InputError(s.name, "model '" + s.model.name + "' has no KV cache, so there is none to page");
  Bytes of_request = state_bytes_per_request(s);
  if (share == 0) {
    of_request += windowed.per_request;
    m.activations += system.batching->max_tokens * windowed.per_token;
  }
  m.state_blocks = static_cast<std::uint64_t>(std::ceil(of_request / m.kv_block));
}

std::uint64_t swap_blocks(const Scenario& s, const SystemConfig& system, const MemoryPlan& m) {
  return s.device.is_discrete() ? whole_blocks(system.kv.swap_space, m.kv_block) : 0;
}

KvShape kv_shape(const Scenario& s, const SystemConfig& system, const MemoryPlan& memory) {
  return {system.kv.block_tokens, memory.kv_blocks, memory.swap_blocks, memory.state_blocks,
          state_bytes_per_request(s) == Bytes(0)};
}

std::unique_ptr<BatchingPolicy> make_batching(const Scenario& s, const SystemConfig& system,
                                              const MemoryPlan& memory) {
  const std::uint32_t drafts = s.speculation.tokens;
  if (!system.batching) return make_static_batches(s.workload.batch, micro_batch_of(system), drafts);
  const BatchingShape shape{kv_shape(s, system, memory), s.workload.batch, system.batching->max_tokens,
                            micro_batch_of(system), drafts};
  const PolicyChoice& policy = system.batching->policy;
  const BatchingPolicyEntry& entry = *find_batching_policy(policy.name);
  const auto make = [&] { return make_batching_policy(entry, shape, policy.parameters); };
  if (s.data_parallel == 1) return make();
  std::vector<std::unique_ptr<BatchingPolicy>> ranks;
  for (std::uint32_t rank = 0; rank < s.data_parallel; ++rank) ranks.push_back(make());
  return make_rank_batching(std::move(ranks));
}

void check_requests(const Scenario& s, const SystemConfig& system, const MemoryPlan& memory,
                    const std::vector<ServedRequest>& requests) {
  const std::unique_ptr<BatchingPolicy> batching = make_batching(s, system, memory);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (const std::string why = batching->misfit(batch_request(requests[i])); !why.empty())
      throw InputError(s.name, "system '" + system.name + "' can never serve request " +
                                   std::to_string(i + 1) + " (" + std::to_string(requests[i].prompt_tokens) +
                                   " prompt and " + std::to_string(requests[i].output_tokens) +
                                   " output tokens): it " + why);
}

}  // namespace moelab
