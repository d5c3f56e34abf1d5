// MoE-Infinity's activation-aware prefetch: the past request that routed most like this one so far tells
// which experts of the layers ahead are likely.
//
//   running EAM += the gate's token counts of layer l
//   P = the past EAM with the smallest distance, mean over layers of (1 - cosine of rows)
//   for every expert e of every layer m = l+1 .. L-1:
//     priority(m, e) = (P[m][e] / sum(P[m]) + epsilon) * (1 - (m - l) / L)
//   wish them by descending priority
//   when the request ends: its EAM joins the collection
//
// and so again after every gate, with what the new layer has shown. Source: MoE-Infinity (Xue et al. 2024,
// arXiv 2401.14361) and its code, memory/expert_tracer.py and memory/expert_predictor.py. Symbols: EAM, EAMC
// (the collection) and epsilon are the paper's.
//
// Deviations:
// - The collection starts empty and is filled by the requests of the run; the first request has nothing to be
//   compared with and wishes nothing. The code can load one recorded before serving.
// - A full collection loses the entry nearest to the new one, which keeps the rest diverse; the code
//   drops the one matched least often.
// - Rows are compared where the running request has routed. The code blanks the layers up to l in the
//   collection, so that a request's first token is compared with nothing.
// - A batch is one request: its EAM is the sum over its sequences, since the loop reports a layer's tokens by
//   expert and not by sequence. The paper traces sequences one by one; at batch 1 there is no difference.
// - The code queues all experts of all layers ahead and lets demand overtake them. Here `fetches` bounds a
//   call's list and leaves out the tail, which bandwidth rarely reaches; 0 is the code's behaviour.
// - The layer term is 1 - distance / L as in the paper; the code divides by L + 1.
// Equal priorities go to the nearer layer, then to the lower expert.
#include "policies/checked_parameter.hpp"
#include "policies/prefetch/activation_history.hpp"
#include "policies/prefetch/prefetch.hpp"

namespace moelab {
namespace {

// The most urgent wish of a layer that is not listed yet.
struct Head {
  double priority;
  std::uint32_t layer;
  std::uint32_t place;  // in the layer's experts, most used first
};

bool less_urgent(const Head& a, const Head& b) {
  return a.priority != b.priority ? a.priority < b.priority : a.layer > b.layer;
}

struct MoeInfinityLimits {
  std::uint32_t collection;    // past EAMs
  std::uint32_t layers_ahead;  // 0: all that are left in the step
  std::uint32_t fetches;       // a call; 0: all
  double epsilon;
};

class MoeInfinityPrefetch final : public PrefetchPolicy {
 public:
  MoeInfinityPrefetch(const PrefetchShape& shape, const MoeInfinityLimits& limits)
      : shape_(shape), limits_(limits), history_(shape.layers, shape.experts, limits.collection) {
    heads_.reserve(shape.layers);
  }

  void begin_request() override { history_.finish(); }

  void after_gate(std::uint32_t layer, std::span<const ExpertUse> uses,
                  std::vector<Fetch>& fetches) override {
    assert(layer < shape_.layers);
    history_.add(layer, uses);
    if (history_.size() == 0) return;
    merge_layers(layer, history_.nearest(), fetches);
  }

 private:
  // Priorities fall along a layer's experts from most to least used, so the list is a merge of the layers.
  void merge_layers(std::uint32_t running, std::uint32_t past, std::vector<Fetch>& fetches) {
    const std::uint32_t left = shape_.layers - 1 - running;
    const std::uint32_t ahead = limits_.layers_ahead == 0 ? left : std::min(left, limits_.layers_ahead);
    heads_.clear();
    for (std::uint32_t layer = running + 1; layer <= running + ahead; ++layer)
      heads_.push_back({priority(running, past, layer, 0), layer, 0});
    std::make_heap(heads_.begin(), heads_.end(), less_urgent);
    for (std::size_t listed = 0; limits_.fetches == 0 || listed < limits_.fetches; ++listed) {
      if (heads_.empty() || heads_.front().priority <= 0) return;
      std::pop_heap(heads_.begin(), heads_.end(), less_urgent);
      Head& head = heads_.back();
      fetches.push_back({head.layer, history_.most_used(past, head.layer)[head.place]});
      if (++head.place == shape_.experts) {
        heads_.pop_back();
        continue;
      }
      head.priority = priority(running, past, head.layer, head.place);
      std::push_heap(heads_.begin(), heads_.end(), less_urgent);
    }
  }

  double priority(std::uint32_t running, std::uint32_t past, std::uint32_t layer, std::uint32_t place) const {
    const double ratio = history_.past(past).ratio(layer, history_.most_used(past, layer)[place]);
    return (ratio + limits_.epsilon) * (1.0 - static_cast<double>(layer - running) / shape_.layers);
  }

  const PrefetchShape shape_;
  const MoeInfinityLimits limits_;
  ActivationHistory history_;
  std::vector<Head> heads_;
};

PolicyInfo moe_infinity_prefetch_info() {
  return {.name = "moe-infinity",
          .help = "likely experts of the layers ahead, from the past request most like this one",
          .source = "MoE-Infinity (Xue et al. 2024, arXiv 2401.14361)",
          .parameters = {
              {.name = "collection",
               .unit = "requests",
               .default_value = 128,
               .low = 1,
               .high = 1e4,
               .help = "past requests remembered (the EAMC's capacity); memory grows with it"},
              {.name = "layers_ahead",
               .unit = "layers",
               .default_value = 0,
               .low = 0,
               .high = 1e6,
               .help = "how far ahead of the running layer; 0: to the step's last layer"},
              {.name = "fetches",
               .unit = "experts",
               .default_value = 32,
               .low = 0,
               .high = 1e9,
               .help = "most experts wished after a gate; 0: all with a positive priority"},
              {.name = "epsilon",
               .unit = "",
               .default_value = 1e-8,
               .low = 0,
               .high = 1,
               .help = "activation ratio of an expert the matched request never used; 0: not wished"}}};
}

std::unique_ptr<PrefetchPolicy> make_moe_infinity_prefetch(const PrefetchShape& shape,
                                                           const PolicyParameters& parameters) {
  assert(shape.layers > 0 && shape.experts > 0);
  const PolicyInfo info = moe_infinity_prefetch_info();
  return std::make_unique<MoeInfinityPrefetch>(
      shape, MoeInfinityLimits{.collection = checked_count(info, parameters, "collection"),
                               .layers_ahead = checked_count(info, parameters, "layers_ahead"),
                               .fetches = checked_count(info, parameters, "fetches"),
                               .epsilon = checked_parameter(info, parameters, "epsilon")});
}

}  // namespace

PrefetchPolicyEntry moe_infinity_prefetch_entry() {
  return {.info = moe_infinity_prefetch_info(), .make = make_moe_infinity_prefetch};
}

}  // namespace moelab
