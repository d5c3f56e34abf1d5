// Random batching instances, and their bookkeeping counted anew from the shares of each step.
#pragma once

#include <algorithm>
#include <map>
#include <random>

#include "tests/policies/batching_steps.hpp"

namespace moelab::batching_steps {

using Random = std::mt19937_64;

inline std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random() % (high - low + 1));
}

struct Instance {
  BatchingShape shape;
  bool swap = false, chunked = false, resizes = false;
  double watermark = 0;
  std::vector<BatchRequest> requests;  // that fit alone

  std::unique_ptr<BatchingPolicy> make_policy(std::string_view name) const {
    if (name == "static") return make(name, shape);
    return make(name, shape,
                {{"swap", swap ? 1.0 : 0.0}, {"chunked", chunked ? 1.0 : 0.0}, {"watermark", watermark}});
  }
};

inline Instance random_instance(Random& random, std::string_view name) {
  Instance instance;
  instance.shape.kv = {between(random, 1, 5), between(random, 1, 24),
                       random() % 3 == 0 ? 0 : between(random, 1, 30)};
  if (random() % 2 == 0) instance.shape.kv.state_blocks = between(random, 0, 3);
  instance.shape.max_requests = between(random, 1, 8);
  instance.shape.max_tokens = instance.shape.max_requests + between(random, 0, 40);
  instance.swap = random() % 2 == 0;
  instance.chunked = random() % 2 == 0;
  instance.resizes = random() % 3 == 0;
  instance.watermark = std::vector<double>{0, 0, 0.01, 0.1, 0.3, 1}[random() % 6];
  const std::uint32_t prefilled = between(random, 0, 2);  // none, some, all
  const auto policy = instance.make_policy(name);
  for (std::uint32_t i = 0, n = between(random, 1, 14); i < n; ++i) {
    const BatchRequest request{100 - i, between(random, 1, 20), between(random, 1, 12),
                               prefilled == 2 || (prefilled == 1 && random() % 2 == 0)};
    if (policy->misfit(request).empty()) instance.requests.push_back(request);
  }
  return instance;
}

/// Follows requests by the shares of steps alone, and checks what must hold in each step and in the end.
class Bookkeeper {
 public:
  Bookkeeper(const Instance& instance, bool is_static) : instance_(instance), static_(is_static) {}

  void arrived(const BatchRequest& request) {
    Seen& seen = seen_[request.id];
    seen.ask = request;
    seen.place = ++places_;
    seen.cached = seen.most = request.prefilled ? request.prompt_tokens : 0;
  }

  void formed(const BatchStep& step, std::uint64_t gpu_blocks, const KvUse& use) {
    const std::uint64_t before = count('r');
    leave(step);
    enter(step, before);
    shares(step);
    std::uint64_t gpu = 0, host = 0, promised = 0;
    for (const auto& [id, seen] : seen_) {
      if (seen.where == 'r') gpu += held(seen, runs(step, id));
      if (seen.where == 'r') promised += blocks(final_tokens(seen.ask));
      if (seen.where == 's') host += seen.swapped_blocks;
    }
    CHECK(use == KvUse{gpu, static_ ? promised : 0, host, count('r'), count('w'), count('s')});
    CHECK(gpu <= gpu_blocks);
    if (static_) CHECK(promised <= gpu_blocks);
    CHECK(host <= instance_.shape.kv.host_blocks);
    CHECK(count('r') <= instance_.shape.max_requests);
    CHECK(step.rows <= instance_.shape.max_tokens);
    last_ = step;
  }

  void completed(const KvUse& use) {
    for (const StepShare& share : last_.shares) {
      Seen& seen = seen_.at(share.request);
      seen.cached += share.tokens;
      seen.most = std::max(seen.most, seen.cached);
      if (share.produces) ++seen.produced;
      seen.prefilling = seen.prefilling && !share.produces;
    }
    for (const std::uint32_t id : last_.finished) {
      Seen& seen = seen_.at(id);
      CHECK(seen.produced == seen.ask.output_tokens);
      CHECK(seen.cached == final_tokens(seen.ask));
      seen.where = 'x';
    }
    std::uint64_t gpu = 0;
    for (const auto& [id, seen] : seen_)
      if (seen.where == 'r') gpu += held(seen, false);
    CHECK(use.gpu_blocks == gpu);
    CHECK(use.running == count('r'));
  }

  void ended(const KvUse& use) const {
    CHECK(use == KvUse{});
    CHECK(in_ == out_);
    std::uint64_t rows = recomputed_;
    for (const auto& [id, seen] : seen_) {
      CHECK(seen.where == 'x');
      rows +=
          seen.ask.prefilled ? seen.ask.output_tokens : seen.ask.prompt_tokens + seen.ask.output_tokens - 1;
    }
    CHECK(rows_ == rows);
    CHECK(seen_.size() == instance_.requests.size());
  }
  std::uint64_t preempted = 0, recomputed_ = 0;

 private:
  struct Seen {
    BatchRequest ask;
    std::uint64_t place = 0, cached = 0, most = 0, produced = 0, swapped_blocks = 0;
    char where = 'w';  // waiting, running, swapped, x: gone
    bool prefilling = false;
    std::uint64_t tokens() const { return given_tokens(ask) + produced; }
  };

  std::uint64_t blocks(std::uint64_t tokens) const {
    const std::uint32_t size = instance_.shape.kv.block_tokens;
    return (tokens + size - 1) / size + instance_.shape.kv.state_blocks;
  }
  /// Blocks are taken for a step; for a prompt in chunks before its first.
  std::uint64_t held(const Seen& seen, bool in_step) const {
    return blocks(in_step || (seen.prefilling && !static_) ? seen.tokens() : seen.cached);
  }
  std::uint64_t count(char where) const {
    std::uint64_t n = 0;
    for (const auto& [id, seen] : seen_) n += seen.where == where ? 1 : 0;
    return n;
  }

  static bool runs(const BatchStep& step, std::uint32_t id) {
    for (const StepShare& share : step.shares)
      if (share.request == id) return true;
    return false;
  }

  void leave(const BatchStep& step) {
    std::uint64_t out = 0, first = ~std::uint64_t{0};
    for (const Ids* ids : {&step.swapped_out, &step.dropped})
      for (const std::uint32_t id : *ids) {
        Seen& seen = seen_.at(id);
        CHECK(seen.where == 'r');
        first = std::min(first, seen.place);
        const bool swaps = ids == &step.swapped_out;
        seen.where = swaps ? 's' : 'w';
        seen.swapped_blocks = held(seen, false);
        if (swaps)
          out += seen.swapped_blocks;
        else
          seen.cached = 0;
        ++preempted;
      }
    CHECK(step.blocks_out == out);
    for (const auto& [id, seen] : seen_)
      if (seen.where == 'r') CHECK(seen.place < first);  // the latest give way
    out_ += out;
    if (static_) CHECK(first == ~std::uint64_t{0});
    if (!instance_.swap) CHECK(step.swapped_out.empty());
  }

  void enter(const BatchStep& step, std::uint64_t before) {
    const bool enters = !step.admitted.empty() || !step.restarted.empty() || !step.resumed.empty();
    if (enters && count('r') > 0) CHECK((step.swapped_out.empty() && step.dropped.empty()));
    if (enters && static_) CHECK(before == 0);
    std::uint64_t in = 0;
    for (const std::uint32_t id : step.resumed) {
      Seen& seen = seen_.at(id);
      CHECK(seen.where == 's');
      seen.where = 'r';
      in += seen.swapped_blocks;
    }
    CHECK(step.blocks_in == in);
    in_ += in;
    for (const Ids* ids : {&step.restarted, &step.admitted})
      for (const std::uint32_t id : *ids) {
        Seen& seen = seen_.at(id);
        CHECK(seen.where == 'w');
        CHECK(count('s') == 0);
        for (const auto& [other, earlier] : seen_)  // first come, first served
          if (earlier.where == 'w') CHECK(seen.place <= earlier.place);
        CHECK((ids == &step.admitted) == (seen.most == 0 || (seen.ask.prefilled && seen.cached > 0)));
        seen.where = 'r';
        seen.prefilling = seen.cached == 0;
      }
  }

  void shares(const BatchStep& step) {
    std::uint64_t rows = 0, again = 0, decodes = 0;
    std::map<std::uint32_t, int> times;
    Ids finished;
    for (const StepShare& share : step.shares) {
      const Seen& seen = seen_.at(share.request);
      CHECK(++times[share.request] == 1);
      CHECK(seen.where == 'r');
      CHECK(share.context == seen.cached);
      CHECK(share.prompt == seen.prefilling);
      CHECK(share.tokens >= 1);
      CHECK(share.context + share.tokens <= seen.tokens());
      CHECK(share.produces == (share.context + share.tokens == seen.tokens()));
      if (share.produces && seen.produced + 1 == seen.ask.output_tokens) finished.push_back(share.request);
      rows += share.tokens;
      for (std::uint64_t t = seen.cached; t < seen.cached + share.tokens; ++t) again += t < seen.most ? 1 : 0;
      decodes += share.prompt ? 0 : 1;
    }
    CHECK(step.finished == finished);
    CHECK(step.rows == rows);
    CHECK(step.recomputed == again);
    rows_ += rows;
    recomputed_ += again;
    if (static_ || !instance_.chunked) CHECK((decodes == 0 || decodes == step.shares.size()));
    std::uint64_t could = 0;  // a step with one decode has them all
    for (const auto& [id, seen] : seen_) could += seen.where == 'r' && !seen.prefilling ? 1 : 0;
    if (decodes > 0 || (instance_.chunked && !static_)) CHECK(decodes == could);
  }

  const Instance& instance_;
  const bool static_;
  std::map<std::uint32_t, Seen> seen_;
  std::uint64_t places_ = 0, rows_ = 0, in_ = 0, out_ = 0;
  BatchStep last_;
};

}  // namespace moelab::batching_steps
