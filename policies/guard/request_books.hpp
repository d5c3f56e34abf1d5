// What requests have in a paged KV cache, followed by the steps alone: the books that a guarded batching
// policy is held against.
//
// How many blocks a request holds beyond those of its tokens is the policy's affair (for its next token, for
// all of its prompt, up to its end), so the books know bounds: those of the tokens that are there and that
// the step runs, without those that others may hold too, and those of its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "policies/batching/batching.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {

/// Throws what the guard says where a step or a count does not agree with the books.
class RequestBooks {
 public:
  explicit RequestBooks(const BatchingShape& shape) : shape_(shape) {}

  void resize(std::uint64_t gpu_blocks) { shape_.kv.gpu_blocks = gpu_blocks; }
  std::uint64_t gpu_blocks() const { return shape_.kv.gpu_blocks; }
  void arrive(const BatchRequest& request);
  /// A step was formed, and takes place.
  void form(const PolicyGuard& guard, const BatchStep& step);
  /// Before complete(): by share, how many of its last tokens were refused.
  void refuse(std::span<const std::uint32_t> refused);
  /// The step has run.
  void complete();
  /// What the policy says of blocks and requests. `formed`: while a step runs, so that all must fit.
  void check_use(const PolicyGuard& guard, const KvUse& use, bool formed) const;
  /// Calls `fits(request)` for those that are there; whether it said true of each, and there is one at least.
  template <class Fits>
  bool all_fit(const Fits& fits) const {
    for (const auto& [id, request] : requests_)
      if (!fits(request.ask)) return false;
    return !requests_.empty();
  }

 private:
  enum class Place : std::uint8_t { waiting, running, swapped };
  struct Request {
    BatchRequest ask;
    Place place = Place::waiting;
    bool admitted = false;    // once at least
    bool joins = false;       // admitted or restarted in this step: of its beginning some may be there
    bool prefills = true;     // what it runs is of a prompt, or computed again
    bool produces = false;    // in the step that runs
    std::uint64_t known = 0;  // tokens that must be in the cache for the next one to be produced
    std::uint64_t cached = 0, reached = 0;  // tokens that are there; the most that ever were
    std::uint64_t left = 0;                 // tokens still to be produced
    std::uint64_t rows = 0;                 // in the step that runs
  };
  struct Bounds {
    std::uint64_t least = 0, most = 0;  // blocks
  };

  Request& find(const PolicyGuard& guard, std::uint32_t id, Place place, const char* does);
  void set_place(Request& request, Place place);
  std::uint64_t least_blocks(const Request& request) const {
    const std::uint64_t tokens = request.cached + request.rows;
    const std::uint64_t of_parts = request.ask.parts.empty() ? 0 : request.ask.parts.back().end;
    return request_blocks(tokens, shape_.kv) - std::min(tokens, of_parts) / shape_.kv.block_tokens;
  }
  bool may_find(const Request& request, std::uint64_t tokens) const;
  void note_parts(const Request& request);
  Bounds blocks_of(const PolicyGuard& guard, const std::vector<std::uint32_t>& ids) const;
  void leave(const PolicyGuard& guard, const BatchStep& step);
  void enter(const PolicyGuard& guard, const BatchStep& step);
  void run(const PolicyGuard& guard, const StepShare& share);
  void check_share(const PolicyGuard& guard, const Request& request, const StepShare& share) const;
  void check_sums(const PolicyGuard& guard, const BatchStep& step) const;
  void check_finished(const PolicyGuard& guard, const BatchStep& step);

  BatchingShape shape_;
  std::unordered_map<std::uint32_t, Request> requests_;   // by id: those that are there
  std::vector<std::uint32_t> in_step_;                    // ids
  std::unordered_map<std::uint64_t, std::uint64_t> ran_;  // of a part, by id: the tokens that any request ran
  std::uint64_t waiting_ = 0, running_ = 0, swapped_ = 0;
  Bounds gpu_;                          // of all that run
  std::uint64_t host_ = 0;              // blocks, by what steps moved
  std::uint64_t leaving_ = 0;           // blocks of those that the last step finished
  std::uint64_t rows_ = 0, again_ = 0;  // of the step that is formed
  std::uint64_t finishing_ = 0;         // requests in it that get their last token
};

}  // namespace moelab
