// Disaggregated prefill, written down a second time: one loop over time, lists, no engine, no policies. Steps
// take the same time whatever is in them; as many requests as blocks allow share one; prompts run in chunks
// of what a step's tokens leave (vLLM's V1 scheduler, without what it does behind the step before; and its V0
// scheduler with chunks, which takes all blocks of a prompt at once).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

namespace moelab::test {

struct NaiveRequest {
  double arrival = 0;
  std::uint32_t prompt = 0, output = 0;
  // What came of it.
  std::size_t prefill = 0, decode = 0;  // instances, of their kind
  double started = -1, first = -1, sent_from = -1, sent_until = -1, end = -1;
  std::vector<double> gaps = {};
};

struct NaiveInstances {
  std::size_t prefill = 1, decode = 1;
  double step_s = 0, latency_s = 0, rate = 0;  // bytes a second
  double block_bytes = 0;
  std::uint64_t blocks = 0;  // of each instance
  std::uint32_t block_tokens = 1, most_tokens = 0, most_requests = 0;
  bool whole_prompts = false;  // blocks are taken for all of a prompt at once

  /// Fills in what came of `requests`, which are in order of arrival. False: a request would have to give
  /// way, which this does not know, or rounding decides what comes first.
  bool run(std::vector<NaiveRequest>& requests);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Running {
    std::size_t request;
    std::uint32_t left;  // tokens of the prompt that have not run, or of the answer
    std::uint32_t cached;
    std::uint64_t blocks;
    std::uint32_t rows = 0;  // in the step that runs
  };
  struct One {
    std::deque<std::size_t> queue;
    std::vector<Running> running, received;
    std::uint64_t used = 0, load = 0;  // blocks; prompt tokens that have not run, or requests
    double step_end = kNever;
  };
  struct Transfer {
    std::size_t request;
    double left, flows_from;  // bytes; when its latency is over
  };

  std::uint64_t blocks_of(std::uint64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
  static std::size_t least(const std::vector<One>& all) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i].load < all[best].load) best = i;
    return best;
  }
  double rate_of(const Transfer& t, const std::vector<NaiveRequest>& requests) const {
    double out = 0, in = 0;
    for (const Transfer& other : transfers_) {
      if (other.flows_from > now_) continue;
      out += requests[other.request].prefill == requests[t.request].prefill ? 1 : 0;
      in += requests[other.request].decode == requests[t.request].decode ? 1 : 0;
    }
    return rate / std::max(out, in);
  }
  double next_event(const std::vector<NaiveRequest>& requests) const;
  void move_bytes(double to, const std::vector<NaiveRequest>& requests);
  void end_transfers(std::vector<NaiveRequest>& requests);
  void end_prompts(One& one, std::vector<NaiveRequest>& requests);
  void end_decodes(One& one, std::vector<NaiveRequest>& requests);
  void begin_prompts(One& one, std::vector<NaiveRequest>& requests);
  void begin_decodes(One& one, std::vector<NaiveRequest>& requests);

  double now_ = 0;
  std::vector<One> prompts_, decodes_;
  std::vector<Transfer> transfers_;
  std::size_t come_ = 0;
  bool gives_way_ = false, rounding_decides_ = false;
};

inline double NaiveInstances::next_event(const std::vector<NaiveRequest>& requests) const {
  double next = come_ < requests.size() ? requests[come_].arrival : kNever;
  for (const std::vector<One>* all : {&prompts_, &decodes_})
    for (const One& one : *all) next = std::min(next, one.step_end);
  for (const Transfer& t : transfers_)
    next = std::min(next, t.flows_from > now_ ? t.flows_from : now_ + t.left / rate_of(t, requests));
  return next;
}

inline void NaiveInstances::move_bytes(double to, const std::vector<NaiveRequest>& requests) {
  std::vector<double> moved;
  for (const Transfer& t : transfers_)
    moved.push_back(t.flows_from > now_ ? 0 : (to - now_) * rate_of(t, requests));
  for (std::size_t i = 0; i < moved.size(); ++i) transfers_[i].left -= moved[i];
  now_ = to;
}

inline void NaiveInstances::end_transfers(std::vector<NaiveRequest>& requests) {
  std::size_t ended = 0;
  for (std::size_t i = 0; i < transfers_.size();) {
    const Transfer t = transfers_[i];
    if (t.flows_from > now_ || t.left > 1e-9 * block_bytes) {
      ++i;
      continue;
    }
    if (++ended > 1) rounding_decides_ = true;  // the first alone might be in the next step, or both
    NaiveRequest& q = requests[t.request];
    q.sent_until = now_;
    // Where a step of either side ends at the same moment, it may be in the next one or not.
    for (const One* one : {&prompts_[q.prefill], &decodes_[q.decode]})
      if (std::abs(one->step_end - now_) < 1e-6 * step_s) rounding_decides_ = true;
    prompts_[q.prefill].used -= blocks_of(q.prompt);
    decodes_[q.decode].received.push_back({t.request, q.output - 1, q.prompt, blocks_of(q.prompt + 1U)});
    transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

inline void NaiveInstances::end_prompts(One& one, std::vector<NaiveRequest>& requests) {
  if (one.step_end > now_) return;
  one.step_end = kNever;
  for (Running& r : one.running) {
    r.left -= r.rows;
    r.rows = 0;
    if (r.left > 0) continue;
    NaiveRequest& q = requests[r.request];
    q.first = now_;
    one.load -= q.prompt;
    if (q.output == 1) {
      q.end = now_;
      one.used -= r.blocks;
      continue;
    }
    // Where an answer ends at the same moment, which of the two is seen first decides.
    for (const One& other : decodes_)
      for (const Running& last : other.running)
        if (other.step_end <= now_ && last.left == 1) rounding_decides_ = true;
    q.decode = least(decodes_);
    ++decodes_[q.decode].load;
    decodes_[q.decode].queue.push_back(r.request);
  }
  std::erase_if(one.running, [](const Running& r) { return r.left == 0; });
}

inline void NaiveInstances::end_decodes(One& one, std::vector<NaiveRequest>& requests) {
  if (one.step_end > now_) return;
  one.step_end = kNever;
  for (Running& r : one.running) {
    NaiveRequest& q = requests[r.request];
    const double before = q.end < 0 ? q.first : q.end;
    q.gaps.push_back(now_ - before);
    q.end = now_;
    ++r.cached;
    if (--r.left > 0) continue;
    one.used -= r.blocks;
    --one.load;
  }
  std::erase_if(one.running, [](const Running& r) { return r.left == 0; });
}

// Blocks are taken as the rows come that fill them.
inline void NaiveInstances::begin_prompts(One& one, std::vector<NaiveRequest>& requests) {
  if (one.step_end < kNever) return;
  std::uint32_t budget = most_tokens;
  const auto run = [&](Running& r) {
    r.rows = std::min(r.left, budget);
    r.cached += r.rows;
    budget -= r.rows;
    const std::uint64_t needs = blocks_of(whole_prompts ? requests[r.request].prompt : r.cached);
    const std::uint64_t more = needs - r.blocks;
    if (one.used + more > blocks) gives_way_ = true;
    one.used += more;
    r.blocks += more;
  };
  for (Running& r : one.running)
    if (budget > 0) run(r);
  while (budget > 0 && one.running.size() < most_requests && !one.queue.empty()) {
    NaiveRequest& q = requests[one.queue.front()];
    if (one.used + blocks_of(q.prompt) > blocks) break;
    q.started = now_;
    one.running.push_back({one.queue.front(), q.prompt, 0, 0});
    one.queue.pop_front();
    run(one.running.back());
  }
  if (budget < most_tokens) one.step_end = now_ + step_s;
}

inline void NaiveInstances::begin_decodes(One& one, std::vector<NaiveRequest>& requests) {
  if (one.step_end < kNever) return;
  for (Running& r : one.running) {
    const std::uint64_t more = blocks_of(r.cached + 1U) - r.blocks;
    if (one.used + more > blocks) gives_way_ = true;
    one.used += more;
    r.blocks += more;
  }
  while (!one.received.empty() && one.running.size() < most_requests) {
    one.running.push_back(one.received.front());
    one.received.erase(one.received.begin());
  }
  while (one.running.size() < most_requests && one.running.size() < most_tokens && !one.queue.empty()) {
    NaiveRequest& q = requests[one.queue.front()];
    const std::uint64_t needs = blocks_of(q.prompt + 1U);
    if (one.used + needs > blocks) break;
    one.used += needs;
    q.sent_from = now_;
    transfers_.push_back(
        {one.queue.front(), static_cast<double>(blocks_of(q.prompt)) * block_bytes, now_ + latency_s});
    one.queue.pop_front();
  }
  if (!one.running.empty()) one.step_end = now_ + step_s;
}

inline bool NaiveInstances::run(std::vector<NaiveRequest>& requests) {
  prompts_.assign(prefill, {});
  decodes_.assign(decode, {});
  transfers_.clear();
  now_ = 0;
  come_ = 0;
  gives_way_ = rounding_decides_ = false;
  for (double next = next_event(requests); next < kNever && !gives_way_; next = next_event(requests)) {
    // Two events that only rounding tells apart: which comes first decides where a request goes.
    if (next > now_ && next - now_ < 1e-6 * step_s) rounding_decides_ = true;
    move_bytes(next, requests);
    end_transfers(requests);
    for (One& one : prompts_) end_prompts(one, requests);
    for (One& one : decodes_) end_decodes(one, requests);
    for (; come_ < requests.size() && requests[come_].arrival <= now_; ++come_) {
      NaiveRequest& q = requests[come_];
      q.prefill = least(prompts_);
      prompts_[q.prefill].load += q.prompt;
      prompts_[q.prefill].queue.push_back(come_);
    }
    for (One& one : prompts_) begin_prompts(one, requests);
    for (One& one : decodes_) begin_decodes(one, requests);
  }
  return !gives_way_ && !rounding_decides_;
}

}  // namespace moelab::test
