// What batching policies share: the queue of requests that wait, a request that has been admitted, and its
// share of a step.
#pragma once

#include <algorithm>
#include <cassert>

#include "policies/batching/batching.hpp"

namespace moelab {

/// Throws InputError for a shape that no policy can work with. `each`: tokens of each request that must fit
/// into a step.
void check_shape(const BatchingShape& shape, std::uint32_t each = 1);

/// misfit() of a policy that must be able to run `at_once` tokens of `request` in a single step; `why` says
/// what for.
std::string misfit_of(const BatchRequest& request, const BatchingShape& shape, std::uint64_t at_once,
                      const char* why);

/// Empties `step`, keeps its memory.
void clear(BatchStep& step);

/// Requests that wait, the first to be admitted at the front. Its memory follows the longest queue there was,
/// not the number of requests that passed; at that size it allocates nothing.
template <class Request>
class RequestQueue {
 public:
  using Iterator = typename std::vector<Request>::iterator;
  bool empty() const { return head_ == queue_.size(); }
  std::size_t size() const { return queue_.size() - head_; }
  const Request& front() const { return queue_[head_]; }
  Iterator begin() { return queue_.begin() + static_cast<std::ptrdiff_t>(head_); }
  Iterator end() { return queue_.end(); }
  void push(const Request& request) {
    if (head_ >= size()) {  // moves no more requests than have left since the last time
      queue_.erase(queue_.begin(), begin());
      head_ = 0;
    }
    queue_.push_back(request);
  }
  void pop() { ++head_; }

 private:
  std::vector<Request> queue_;
  std::size_t head_ = 0;
};
/// Those that have arrived and were never admitted.
using ArrivalQueue = RequestQueue<BatchRequest>;

/// Sorts stably and allocates nothing; for few requests, or for nearly ordered ones.
template <class Iterator, class Before>
void insertion_sort(Iterator begin, Iterator end, const Before& before) {
  for (Iterator at = begin; at != end; ++at)
    std::rotate(std::upper_bound(begin, at, *at, before), at, at + 1);
}

/// A request that has been admitted.
struct BatchedRequest {
  BatchRequest ask;
  std::uint64_t place = 0;    // in the order of first admission, which is that of arrival
  std::uint32_t known = 0;    // tokens that must be in the cache for the next one to be produced
  std::uint32_t cached = 0;   // tokens that are
  std::uint32_t reached = 0;  // the most that ever were
  std::uint32_t left = 0;     // tokens still to be produced
  std::uint32_t rows = 0;     // in the step that was formed; 0: not in it
  std::uint32_t refused = 0;  // of these, its last ones
  std::uint32_t filled = 0;   // tokens that fill its blocks and were known when they ran: without drafts
  std::size_t share = 0;      // its place in that step
  bool prompt = false;        // what is missing is of the prompt, or computed again
  std::uint64_t blocks = 0;   // where the request is: on the GPU while it runs, on the host while swapped
  std::uint32_t table = kNoTable;  // of blocks that others may share (kv_pool.hpp)
  static constexpr std::uint32_t kNoTable = ~std::uint32_t{0};

  explicit BatchedRequest(const BatchRequest& request = {}, std::uint64_t arrival = 0)
      : ask(request),
        place(arrival),
        known(request.prompt_tokens + (request.prefilled ? 1 : 0)),
        cached(request.prefilled ? request.prompt_tokens : 0),
        reached(cached),
        left(request.output_tokens),
        prompt(!request.prefilled) {
    assert((request.prompt_tokens >= 1 || request.prefilled) && request.output_tokens >= 1);
  }
};

/// Tokens that `request` has to run, drafts included: those that are missing from its cache, and where it
/// decodes as many drafts as the shape has or it can use.
std::uint32_t rows_to_run(const BatchedRequest& request, const BatchingShape& shape);
/// Tokens that are in its cache once these have run. Does not fall from step to step, whatever is refused.
inline std::uint32_t tokens_to_hold(const BatchedRequest& request, const BatchingShape& shape) {
  return request.cached + rows_to_run(request, shape);
}
/// Adds the next `rows` tokens of `request` to the step, at most rows_to_run().
void add_share(BatchedRequest& request, std::uint32_t rows, BatchStep& step);
/// BatchingPolicy::refuse() of a policy whose step these requests, and no others, have shares in.
template <class Requests>
void refuse_drafts(Requests& requests, std::span<const std::uint32_t> refused) {
  for (BatchedRequest& request : requests)
    if (request.rows > 0) request.refused = refused[request.share];
}
/// Of the id, in `requests`; their end where there is none.
template <class Requests>
auto find_request(Requests& requests, std::uint32_t id) {
  return std::find_if(requests.begin(), requests.end(),
                      [id](const BatchedRequest& request) { return request.ask.id == id; });
}
/// Takes that request out of one list and puts it behind those of another; nothing where it is not there.
inline void move_request(std::uint32_t id, std::vector<BatchedRequest>& from,
                         std::vector<BatchedRequest>& to) {
  const auto found = find_request(from, id);
  if (found == from.end()) return;
  to.push_back(*found);
  from.erase(found);
}
/// The step has run. Says whether that was the request's last.
bool complete_share(BatchedRequest& request);

}  // namespace moelab
