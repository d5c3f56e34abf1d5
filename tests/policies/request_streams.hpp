// What tests of batching policies on random streams of requests share: texts that requests have in common,
// and books of what they run.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/policies/batching_steps.hpp"

namespace moelab::request_streams {

using namespace moelab::batching_steps;

inline std::uint32_t from_to(std::mt19937_64& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random() % (high - low + 1));
}

/// Texts that branch: each goes on from some token of another one, or begins anew.
class Texts {
 public:
  /// `longest`: tokens that each has more than the one before it.
  explicit Texts(std::mt19937_64& random, std::uint32_t longest = 14) {
    for (std::uint32_t i = 0, n = from_to(random, 1, 7); i < n; ++i) {
      Text text;
      if (i > 0 && random() % 3 != 0) {
        text.before = static_cast<int>(random() % i);
        const Text& before = texts_[static_cast<std::size_t>(text.before)];
        text.begin = from_to(random, before.begin + 1, before.end);
      }
      text.end = text.begin + from_to(random, 1, longest);
      texts_.push_back(text);
    }
  }
  /// Parts of one of them, as far as `most` tokens.
  std::vector<TokenPart> draw(std::mt19937_64& random, std::uint32_t most) const {
    std::vector<TokenPart> parts;
    int text = static_cast<int>(random() % texts_.size());
    std::uint32_t end = std::min(texts_[static_cast<std::size_t>(text)].end, most);
    for (; text >= 0; text = texts_[static_cast<std::size_t>(text)].before) {
      const Text& of = texts_[static_cast<std::size_t>(text)];
      if (end > of.begin) parts.push_back({static_cast<std::uint64_t>(text) + 1, end});
      end = std::min(end, of.begin);
    }
    std::ranges::reverse(parts);
    return parts;
  }

 private:
  struct Text {
    int before = -1;
    std::uint32_t begin = 0, end = 0;
  };
  std::vector<Text> texts_;
};

/// What requests run and leave out, by the shares alone: each token of a request is found or run when it is
/// first in its cache, and each that runs again is said to.
class RowBooks {
 public:
  void count(const BatchStep& step) {
    std::uint64_t again = 0;
    for (const StepShare& share : step.shares) {
      std::uint64_t& reached = reached_[share.request];
      const std::uint64_t end = std::uint64_t{share.context} + share.tokens;
      if (share.context < reached) again += std::min<std::uint64_t>(end, reached) - share.context;
      if (share.context > reached) found_ += share.context - reached;
      reached = std::max(reached, end);
    }
    REQUIRE(step.recomputed == again);
    recomputed_ += again;
    rows_ += step.rows;
  }
  void check(const std::vector<BatchRequest>& requests) const {
    std::uint64_t tokens = 0;
    for (const BatchRequest& request : requests) tokens += final_tokens(request);
    REQUIRE(rows_ + found_ == tokens + recomputed_);
  }

 private:
  std::map<std::uint32_t, std::uint64_t> reached_;  // tokens in the cache, the most that ever were
  std::uint64_t rows_ = 0, found_ = 0, recomputed_ = 0;
};

/// Holds a policy's steps against a reference's. A stream has a shape, requests, a policy() and whether it
/// resizes: requests come at random between steps, the cache shrinks and grows where the stream says so.
/// `seen` hears each step.
template <class Stream, class Reference, class Seen>
void compare_steps(std::mt19937_64& random, const Stream& stream, Reference& reference, const Seen& seen) {
  const auto policy = stream.policy();
  std::size_t next_arrival = 0;
  const std::uint64_t all = stream.shape.kv.gpu_blocks;
  std::uint64_t blocks = all;
  const auto resize = [&](std::uint64_t to) {
    blocks = to;
    policy->resize(to);
    reference.resize(to);
  };
  RowBooks books;
  BatchStep step;
  for (int steps = 0;; ++steps) {
    REQUIRE(steps < 20000);
    while (next_arrival < stream.requests.size() && random() % 2 == 0) {
      policy->arrive(stream.requests[next_arrival]);
      reference.arrive(stream.requests[next_arrival++]);
    }
    if (stream.resizes && steps < 200 && random() % 8 == 0) resize(random() % (all + 1));
    if (steps == 200) resize(all);
    const bool runs = policy->form(step);
    const BatchStep expected = reference.form();
    if (step != expected) REQUIRE(text(step) == text(expected));
    REQUIRE(step == expected);
    REQUIRE(runs == !step.shares.empty());
    REQUIRE(policy->use() == reference.use());
    books.count(step);
    seen(step);
    if (runs) {
      policy->complete();
      reference.complete();
      REQUIRE(policy->use() == reference.use());
    } else if (policy->use().waiting > 0) {
      REQUIRE(blocks < all);  // else it would be stuck for good
      resize(all);
    } else if (next_arrival == stream.requests.size()) {
      break;
    }
  }
  books.check(stream.requests);
}

}  // namespace moelab::request_streams
