// What a serving loop does, apart from time, by naive code: passes, uses, page cache, hits and bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "policies/routing/routing.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::test {

struct NaivePass {
  bool prompt = false;
  std::vector<std::uint64_t> rows;
  std::vector<std::size_t> gets_token;  // requests
  bool begins_batch = false;
};

/// The passes of a trace, straight from the definition of static batches
/// (policies/batching/static_batching.cpp).
inline std::vector<NaivePass> naive_passes(const RoutingTrace& trace, std::size_t batch,
                                           bool encoder_decoder) {
  std::vector<NaivePass> passes;
  const auto requests = trace.requests();
  for (std::size_t first = 0; first < requests.size(); first += batch) {
    const std::size_t last = std::min(first + batch, requests.size());
    NaivePass prompt{true, {}, {}, true};
    std::uint64_t longest = 0;
    for (std::size_t q = first; q < last; ++q) {
      for (std::uint64_t row = requests[q].begin; row < requests[q].decode_begin; ++row)
        prompt.rows.push_back(row);
      if (!encoder_decoder && requests[q].decode_begin > requests[q].begin) prompt.gets_token.push_back(q);
      longest = std::max(longest, requests[q].end - requests[q].decode_begin);
    }
    if (!prompt.rows.empty()) passes.push_back(prompt);
    for (std::uint64_t step = 0; step < longest; ++step) {
      NaivePass decode{false, {}, {}, prompt.rows.empty() && step == 0};
      for (std::size_t q = first; q < last; ++q) {
        if (requests[q].decode_begin + step >= requests[q].end) continue;
        decode.rows.push_back(requests[q].decode_begin + step);
        decode.gets_token.push_back(q);
      }
      passes.push_back(decode);
    }
  }
  return passes;
}

/// Tokens that each row of a pass attends to, full attention.
struct NaiveAttention {
  std::vector<double> prompts, decoding;
  std::vector<double> encoded;  // of rows that decode: tokens of the encoder, by cross-attention
};

/// Through a sliding window of so many; 0: none.
inline double sum_through(const std::vector<double>& attended, int window) {
  double sum = 0;
  for (const double tokens : attended) sum += window > 0 ? std::min<double>(tokens, window) : tokens;
  return sum;
}

/// A row sees its request's tokens up to itself. An encoder's row sees its whole prompt, and what comes of it
/// is what a decoder's row sees by cross-attention, beside the decoder's tokens up to itself.
inline NaiveAttention naive_attention(const SmallRun& run, const NaivePass& pass) {
  const bool encodes = run.scenario.model.has_encoder();
  NaiveAttention all;
  for (const std::uint64_t row : pass.rows)
    for (const TraceRequest& q : run.trace.requests()) {
      if (row < q.begin || row >= q.end) continue;
      const auto prompt = static_cast<double>(q.decode_begin - q.begin);
      const auto behind = static_cast<double>(row - (encodes && !pass.prompt ? q.decode_begin : q.begin));
      if (pass.prompt) {
        all.prompts.push_back(encodes ? prompt : behind + 1);
      } else {
        all.decoding.push_back(behind + 1);
        all.encoded.push_back(encodes ? prompt : 0);
      }
    }
  return all;
}

/// Tokens by distinct expert.
inline std::map<std::uint32_t, std::uint32_t> naive_uses(const RoutingTrace& trace, const NaivePass& pass,
                                                         std::uint32_t moe_layer) {
  std::map<std::uint32_t, std::uint32_t> uses;
  for (const std::uint64_t row : pass.rows)
    for (const std::uint16_t e : trace.experts_of(row, moe_layer))
      if (e != kNoExpert) ++uses[e];
  return uses;
}

inline std::uint32_t prompt_rows(const RoutingTrace& trace, const NaivePass& pass) {
  std::uint32_t rows = 0;
  for (const std::uint64_t row : pass.rows)
    for (const TraceRequest& q : trace.requests()) rows += row >= q.begin && row < q.decode_begin ? 1 : 0;
  return rows;
}

/// Model layers that a pass runs, as (model layer, MoE layer or -1).
inline std::vector<std::pair<std::int32_t, std::int32_t>> layers_of(const Architecture& model, bool prompt) {
  const Stack stack = model.has_encoder() && prompt ? Stack::encoder : Stack::decoder;
  std::vector<std::pair<std::int32_t, std::int32_t>> layers;
  std::int32_t moe = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const bool is_moe = model.layers[i].feed_forward.kind == FeedForward::Kind::moe;
    if (model.layers[i].stack == stack) layers.emplace_back(static_cast<std::int32_t>(i), is_moe ? moe : -1);
    moe += is_moe ? 1 : 0;
  }
  return layers;
}

/// Least recently used by bytes, by lists.
class NaivePageCache {
 public:
  explicit NaivePageCache(double capacity) : capacity_(capacity) {}
  bool read(std::uint32_t object, double bytes) {
    const bool hit = forget(object);
    if (bytes > capacity_) return hit;
    while (held() + bytes > capacity_) objects_.pop_back();
    objects_.emplace_front(object, bytes);
    return hit;
  }
  bool forget(std::uint32_t object) {
    return std::erase_if(objects_, [object](const auto& o) { return o.first == object; }) > 0;
  }
  double held() const {
    double sum = 0;
    for (const auto& [object, bytes] : objects_) sum += bytes;
    return sum;
  }

 private:
  double capacity_;
  std::list<std::pair<std::uint32_t, double>> objects_;
};

/// Experts of a pass and model layer.
using ExpertsOfLayer = std::map<std::pair<std::uint64_t, std::int32_t>, std::set<std::uint32_t>>;

/// Use of one expert by a step.
struct NaiveUse {
  std::uint32_t tokens = 0;
  float score = 0;
  bool top = false;  // a top-score expert of some token
};

/// What a routing policy makes of the tokens of a step, given what is on the GPU; the model's own choice
/// where there is none. `summed`: scores of all experts over the tokens.
inline std::map<std::uint32_t, NaiveUse> routed_uses(const RoutingTrace& trace, const NaivePass& pass,
                                                     std::uint32_t layer, RoutingPolicy* routing,
                                                     const std::vector<std::uint8_t>& resident,
                                                     std::vector<float>& summed) {
  std::map<std::uint32_t, NaiveUse> uses;
  std::vector<std::vector<float>> scores;
  std::vector<std::uint64_t> rows;
  summed.assign(trace.experts(), 0);
  for (const std::uint64_t row : pass.rows) {
    if (trace.experts_of(row, layer)[0] == kNoExpert) continue;
    rows.push_back(row);
    scores.emplace_back(trace.description().router_width());
    trace.router_scores_of(row, layer, scores.back());
    for (std::size_t e = 0; e < scores.back().size(); ++e) summed[e] += scores.back()[e];
  }
  std::vector<TokenGate> gates;
  for (std::size_t t = 0; t < rows.size(); ++t)
    gates.push_back({trace.experts_of(rows[t], layer), scores[t]});
  StepRouting step;
  if (routing != nullptr) routing->route(gates, resident, step);
  for (std::size_t t = 0; t < rows.size(); ++t)
    for (std::size_t r = 0; r < trace.top_k(); ++r) {
      const std::size_t place = t * trace.top_k() + r;
      const std::uint16_t e = routing != nullptr ? step.experts[place] : gates[t].chosen[r];
      NaiveUse& use = uses[e];
      ++use.tokens;
      use.score += routing != nullptr ? scores[t][e] : trace.scores_of(rows[t], layer)[r];
      use.top |= routing == nullptr || step.roles[place] == ExpertRole::top;
    }
  return uses;
}

struct Counts {
  ExpertsOfLayer used;
  std::array<std::uint64_t, kStates> hits{}, decode_hits{};
  std::array<double, kTiers> bytes{};
};

/// Hits and bytes of a run without prefetch, which time has no part in: the cache policies driven through the
/// trace as cache.hpp says, with a naive page cache behind them. `on_cpu`: experts that the CPU computed,
/// which the caches do not hear of. `passes`: those that ran.
inline Counts replay(const SmallRun& run, const RunResult& result, const ExpertsOfLayer& on_cpu,
                     const std::vector<NaivePass>& passes) {
  const Scenario& s = run.scenario;
  const SystemConfig& system = run.system();
  const ExpertCosts costs = run.costs();
  const CachePolicyEntry& entry = *find_cache_policy(system.cache.name);
  const std::uint32_t layers = run.trace.layers(), experts = run.trace.experts();
  const bool per_model = entry.per_model || system.cache_domain == CacheDomain::model;
  CacheShape shape;
  shape.layers = per_model ? layers : 1;
  shape.objects = shape.layers * experts;
  shape.capacity_bytes = result.memory.expert_cache.value() / (per_model ? 1 : layers);
  shape.bytes = costs.bytes;
  for (std::size_t p = 0; p < kStates; ++p)
    shape.pool_experts[p] = result.plan.capacity[p] * (per_model ? layers : 1);
  shape.kept_as = system.kept_as;
  shape.top_k = run.trace.top_k();
  std::vector<double> profile(std::size_t{layers} * experts, 0);  // of the trace that is replayed
  for (std::uint64_t row = 0; row < run.trace.tokens(); ++row)
    for (std::uint32_t l = 0; l < layers; ++l)
      for (const std::uint16_t e : run.trace.experts_of(row, l))
        if (e != kNoExpert) ++profile[std::size_t{l} * experts + e];
  std::vector<std::unique_ptr<CachePolicy>> caches;
  for (std::uint32_t d = 0; d < (per_model ? 1 : layers); ++d) {
    shape.profile = std::span(profile).subspan(std::size_t{d} * shape.objects, shape.objects);
    caches.push_back(entry.make(shape, system.cache.parameters));
  }
  const bool on_ssd = result.memory.experts_on_ssd, linked = s.device.is_discrete();
  NaivePageCache page_cache(system.page_cache || on_ssd ? result.memory.page_cache.value() : 0);

  // Steps at which each expert is used, a layer's steps counted where it is used at all.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> steps_of;
  std::vector<std::uint64_t> step(layers, 0);
  for (const NaivePass& pass : passes)
    for (std::uint32_t l = 0; l < layers; ++l) {
      const auto uses = naive_uses(run.trace, pass, l);
      for (const auto& [e, tokens] : uses) steps_of[{l, e}].push_back(step[l]);
      step[l] += uses.empty() ? 0 : 1;
    }
  std::fill(step.begin(), step.end(), 0);

  const RoutingPolicyEntry& routing_entry = *find_routing_policy(system.routing.name);
  const auto routing = routing_entry.make(system.routing.parameters);
  std::vector<float> summed;
  Counts counts;
  std::uint64_t pass_number = 0;
  for (const NaivePass& pass : passes) {
    if (pass.begins_batch)
      for (auto& cache : caches) cache->begin_request();
    for (const auto& [model_layer, moe_layer] : layers_of(s.model, pass.prompt)) {
      if (moe_layer < 0) continue;
      const auto layer = static_cast<std::uint32_t>(moe_layer);
      CachePolicy& cache = *caches[per_model ? 0 : layer];
      const std::uint32_t base = per_model ? layer * experts : 0;
      std::vector<std::uint8_t> resident;
      for (std::uint32_t e = 0; e < experts; ++e) resident.push_back(cache.state(base + e) != State::M);
      const auto uses = routed_uses(
          run.trace, pass, layer, routing_entry.needs_all_scores ? routing.get() : nullptr, resident, summed);
      cache.begin_step({per_model ? layer : 0, static_cast<std::uint32_t>(pass.rows.size()),
                        prompt_rows(run.trace, pass)});
      if (entry.needs_all_scores) cache.observe(summed);
      const auto cpu = on_cpu.find({pass_number, model_layer});
      const auto by_cpu = [&](std::uint32_t e) { return cpu != on_cpu.end() && cpu->second.contains(e); };
      const auto load = [&](std::uint32_t e) {
        const State state = cache.state(base + e);
        const std::uint32_t object = layer * experts + e;
        const double sm = has_sm(state) ? 0 : costs.sm_bytes.value() * costs.tensors;
        const double exponents = has_e(state) ? 0 : costs.e_bytes.value() * costs.tensors;
        const auto read = [&](std::uint32_t plane, double stored, double bytes) {
          const bool buffered = (!linked || on_ssd) && page_cache.read(plane, stored);
          if (linked ? on_ssd && !buffered : !buffered)
            counts.bytes[static_cast<std::size_t>(Tier::ssd)] += stored;
          if (linked && !by_cpu(e)) counts.bytes[static_cast<std::size_t>(Tier::host)] += bytes;
          if (!linked && buffered) counts.bytes[static_cast<std::size_t>(Tier::page_cache)] += bytes;
        };
        if (sm > 0) read(2 * object, sm, sm);
        if (exponents > 0) read(2 * object + 1, costs.e_stored.value() * costs.tensors, exponents);
        return index(state);
      };
      for (const auto& [e, use] : uses) {
        counts.used[{pass_number, model_layer}].insert(e);
        const std::size_t found = load(e);
        ++counts.hits[found];
        if (!pass.prompt) ++counts.decode_hits[found];
      }
      if (system.fetch_whole_layer)
        for (std::uint32_t e = 0; e < experts; ++e)
          if (!uses.contains(e)) load(e);
      std::vector<ExpertUse> reported;
      for (const auto& [e, use] : uses) {
        if (by_cpu(e)) continue;
        const auto& future = steps_of[{layer, e}];
        const auto next = std::upper_bound(future.begin(), future.end(), step[layer]);
        reported.push_back({base + e, use.tokens, use.score, next == future.end() ? kNeverUsedAgain : *next});
      }
      cache.use_all(reported);
      step[layer] += uses.empty() ? 0 : 1;
    }
    ++pass_number;
  }
  return counts;
}

/// The same of static batches.
inline Counts replay(const SmallRun& run, const RunResult& result, const ExpertsOfLayer& on_cpu = {}) {
  const Scenario& s = run.scenario;
  return replay(run, result, on_cpu, naive_passes(run.trace, s.workload.batch, s.model.has_encoder()));
}

}  // namespace moelab::test
