// What SGLang's scheduler (sglang_batching.cpp) knows of requests that wait and run, what a step of prompts
// may still take, and in which order requests wait.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policies/batching/admitted_requests.hpp"

namespace moelab {

/// Tokens to come that are counted of a request, at most (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION).
inline constexpr std::uint32_t kClippedTokens = 4096;

enum class WaitingOrder : std::uint8_t { fcfs, lpm, lof };

/// What the policy is told.
struct SglangSettings {
  WaitingOrder order = WaitingOrder::fcfs;
  std::uint32_t chunk = 0;  // 0: whole prompts
  std::uint32_t prefill = 0;
  bool mixed = false, radix = true, overlap = true;
  double first_ratio = 0;                                    // of tokens to come that is expected, at first
  double least_ratio() const { return first_ratio * 0.14; }  // and after many steps
};

/// BatchedRequest::filled: its tokens that are in the tree.
struct SglangRequest : BatchedRequest {
  using BatchedRequest::BatchedRequest;
  std::uint64_t full_own = 0;  // of its own blocks, those that were in the tree when it was retracted
  std::uint64_t matched = 0;   // while it waits: tokens that it would find
  bool again = false;          // it was retracted
  bool fresh = false;          // its prompt has run and is not in the tree yet
  bool behind = false;         // while it waits: another one's tokens are to run first
  std::uint64_t turn = 0;      // while it waits: in the order in which requests began to
  std::uint32_t made() const { return ask.output_tokens - left; }
};

/// What a step of prompts may still take (PrefillAdder), in tokens.
struct PromptBudget {
  std::int64_t memory = 0;  // that is free, or free but readable
  double expected = 0;      // of it, that is taken and is expected to be
  std::int64_t taken = 0;   // of it, that is taken
  std::int64_t input = 0, chunk = 0;
  double left() const { return static_cast<double>(memory) - expected; }
  bool no_memory() const { return left() <= 0 || memory <= taken; }
  bool spent() const { return input <= 0 || chunk <= 0; }
  void charge(std::uint64_t rows, std::uint32_t to_come) {
    const auto tokens = static_cast<std::int64_t>(rows);
    expected += static_cast<double>(tokens) + to_come;
    taken += tokens;
    input -= tokens;
    chunk -= tokens;
  }
};

/// Tokens that two requests have in common, of those that they have so far.
inline std::uint32_t common_tokens(const BatchedRequest& a, const BatchedRequest& b) {
  std::uint32_t common = 0;
  for (std::size_t i = 0; i < std::min(a.ask.parts.size(), b.ask.parts.size()); ++i) {
    const TokenPart& one = a.ask.parts[i];
    const TokenPart& other = b.ask.parts[i];
    if (one.id != other.id) break;
    common = std::min(one.end, other.end);
    if (one.end != other.end) break;
  }
  return std::min({common, a.known, b.known});
}

/// By most tokens to make, of equal ones by turn, which is what SGLang's stable sort comes to, since requests
/// come into the queue behind all others. In place, in n log n steps.
template <class Iterator>
void longest_first(Iterator begin, Iterator end) {
  std::sort(begin, end, [](const SglangRequest& a, const SglangRequest& b) {
    return a.ask.output_tokens != b.ask.output_tokens ? a.ask.output_tokens > b.ask.output_tokens
                                                      : a.turn < b.turn;
  });
}

/// schedule_policy.py. `find(request)`: tokens of it that are in the cache.
template <class Find>
void order_waiting(RequestQueue<SglangRequest>& waiting, WaitingOrder order, const Find& find) {
  constexpr std::size_t kMostMatched = 128;  // lpm orders no more
  constexpr std::uint32_t kFew = 32;         // tokens found in the cache, or shared with one that waits
  if (order == WaitingOrder::lof) longest_first(waiting.begin(), waiting.end());
  if (order != WaitingOrder::lpm || waiting.size() > kMostMatched) return;
  for (auto at = waiting.begin(); at != waiting.end(); ++at) {
    at->matched = find(*at);
    at->behind = at->matched <= kFew && std::any_of(waiting.begin(), at, [&](const SglangRequest& other) {
                   return other.matched <= kFew && !other.behind && common_tokens(*at, other) >= kFew;
                 });
  }
  insertion_sort(waiting.begin(), waiting.end(), [](const SglangRequest& a, const SglangRequest& b) {
    return a.behind != b.behind ? b.behind : !a.behind && a.matched > b.matched;
  });
}

}  // namespace moelab
