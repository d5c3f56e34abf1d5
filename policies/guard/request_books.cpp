#include "policies/guard/request_books.hpp"

#include <algorithm>
#include <array>

namespace moelab {
namespace {

std::string request_name(std::uint32_t id) {
  return "request " + std::to_string(id);
}

void check_moved(const PolicyGuard& guard, std::uint64_t blocks, std::uint64_t least, std::uint64_t most,
                 const char* where) {
  if (blocks < least || blocks > most)
    guard.broken("moves " + counted(blocks, "block") + " " + where + ", its requests have " +
                 std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

void RequestBooks::arrive(const BatchRequest& request) {
  Request& r = requests_[request.id];
  r = {};
  r.ask = request;
  r.known = request.prompt_tokens + (request.prefilled ? 1U : 0U);
  r.cached = r.reached = request.prefilled ? request.prompt_tokens : 0;
  r.left = request.output_tokens;
  r.prefills = !request.prefilled;
  ++waiting_;
}

RequestBooks::Request& RequestBooks::find(const PolicyGuard& guard, std::uint32_t id, Place place,
                                          const char* does) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) guard.broken(does + request_name(id) + ", which is not there");
  if (found->second.place != place) {
    constexpr std::array<const char*, 3> kPlaces = {"waits", "runs", "is swapped out"};
    guard.broken(does + request_name(id) + ", which " +
                 kPlaces[static_cast<std::size_t>(found->second.place)]);
  }
  return found->second;
}

void RequestBooks::set_place(Request& request, Place place) {
  const auto count = [this](Place of) -> std::uint64_t& {
    return of == Place::waiting ? waiting_ : of == Place::running ? running_ : swapped_;
  };
  const std::uint64_t most = request_blocks(final_tokens(request.ask), shape_.kv);
  if (request.place == Place::running) {
    gpu_.least -= least_blocks(request);
    gpu_.most -= most;
  }
  --count(request.place);
  request.place = place;
  ++count(place);
  if (place != Place::running) return;
  gpu_.least += least_blocks(request);
  gpu_.most += most;
}

RequestBooks::Bounds RequestBooks::blocks_of(const PolicyGuard& guard,
                                             const std::vector<std::uint32_t>& ids) const {
  Bounds blocks;
  for (const std::uint32_t id : ids) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) guard.broken("swaps " + request_name(id) + ", which is not there");
    blocks.least += least_blocks(found->second);
    blocks.most += request_blocks(final_tokens(found->second.ask), shape_.kv);
  }
  return blocks;
}

// Who gives way does so before any other joins.
void RequestBooks::leave(const PolicyGuard& guard, const BatchStep& step) {
  const Bounds out = blocks_of(guard, step.swapped_out);
  check_moved(guard, step.blocks_out, out.least, out.most, "to the host");
  host_ += step.blocks_out;
  for (const std::uint32_t id : step.swapped_out)
    set_place(find(guard, id, Place::running, "swaps out "), Place::swapped);
  for (const std::uint32_t id : step.dropped) {
    Request& request = find(guard, id, Place::running, "drops ");
    set_place(request, Place::waiting);
    request.cached = 0;
    request.prefills = true;
  }
}

void RequestBooks::enter(const PolicyGuard& guard, const BatchStep& step) {
  const Bounds in = blocks_of(guard, step.resumed);
  check_moved(guard, step.blocks_in, in.least, in.most, "to the GPU");
  if (step.blocks_in > host_)
    guard.broken("moves " + counted(step.blocks_in, "block") + " to the GPU, the host has " +
                 std::to_string(host_));
  host_ -= step.blocks_in;
  for (const std::uint32_t id : step.resumed)
    set_place(find(guard, id, Place::swapped, "resumes "), Place::running);
  for (const bool again : {true, false})
    for (const std::uint32_t id : again ? step.restarted : step.admitted) {
      Request& request = find(guard, id, Place::waiting, again ? "restarts " : "admits ");
      if (request.admitted != again)
        guard.broken(again ? "restarts " + request_name(id) + ", which was never admitted"
                           : "admits " + request_name(id) + ", which was admitted before");
      request.admitted = true;
      request.joins = true;
      set_place(request, Place::running);
    }
}

/// Whole blocks, of what it had itself or of parts that some request ran.
bool RequestBooks::may_find(const Request& r, std::uint64_t tokens) const {
  if (!r.joins || r.cached > 0 || tokens % shape_.kv.block_tokens != 0) return false;
  if (tokens <= r.reached) return true;
  std::uint64_t begin = 0;
  for (const TokenPart& part : r.ask.parts) {
    const auto ran = ran_.find(part.id);
    if (begin < tokens && (ran == ran_.end() || ran->second < std::min<std::uint64_t>(part.end, tokens)))
      return false;
    begin = part.end;
  }
  return tokens <= begin;
}

void RequestBooks::note_parts(const Request& r) {
  std::uint64_t begin = 0;
  for (const TokenPart& part : r.ask.parts) {
    const std::uint64_t end = std::min<std::uint64_t>(part.end, r.cached + r.rows);
    if (end > begin) ran_[part.id] = std::max(ran_[part.id], end);
    begin = part.end;
  }
}

void RequestBooks::check_share(const PolicyGuard& guard, const Request& r, const StepShare& share) const {
  const std::string name = request_name(share.request);
  const std::uint64_t end = std::uint64_t{share.context} + share.tokens;
  const std::uint64_t most =
      r.known + (share.prompt ? 0 : std::min<std::uint64_t>(shape_.drafts, r.left - 1));
  if (share.context != r.cached && !may_find(r, share.context))
    guard.broken("runs " + name + " after " + counted(share.context, "token") + " in its cache, it has " +
                 std::to_string(r.cached));
  if (share.tokens == 0 || end > most)
    guard.broken("runs " + counted(share.tokens, "token") + " of " + name + ", expected 1 to " +
                 std::to_string(most - std::min<std::uint64_t>(share.context, most)));
  if (share.prompt && !r.prefills)
    guard.broken("takes the token that " + name + " decodes for one of a prompt");
  if (!share.prompt && (share.context + std::uint64_t{1} != r.known || r.known <= r.ask.prompt_tokens))
    guard.broken("takes what " + name + " runs of its prompt for a decoded token");
  if (share.produces != (end >= r.known && !(share.prompt && r.ask.encoded)))
    guard.broken(share.produces ? "has " + name + " produce a token before all others are in its cache"
                                : "has " + name + " produce no token, though all others are in its cache");
  if (share.rank != 0) guard.broken("gives " + name + " to rank " + std::to_string(share.rank));
}

void RequestBooks::run(const PolicyGuard& guard, const StepShare& share) {
  Request& r = find(guard, share.request, Place::running, "runs ");
  if (r.rows > 0) guard.broken("has " + request_name(share.request) + " twice in the step");
  check_share(guard, r, share);
  gpu_.least -= least_blocks(r);
  r.cached = share.context;
  r.rows = share.tokens;
  gpu_.least += least_blocks(r);
  r.joins = false;
  r.reached = std::max(r.reached, r.cached);
  note_parts(r);
  r.produces = share.produces;
  in_step_.push_back(share.request);
  rows_ += share.tokens;
  if (r.reached > r.cached) again_ += std::min<std::uint64_t>(share.tokens, r.reached - r.cached);
  finishing_ += r.produces && r.left == 1 ? 1 : 0;
}

void RequestBooks::check_sums(const PolicyGuard& guard, const BatchStep& step) const {
  if (step.rows != rows_)
    guard.broken("says that the step runs " + counted(step.rows, "row") + ", its shares have " +
                 std::to_string(rows_));
  if (rows_ > shape_.max_tokens)
    guard.broken("runs " + counted(rows_, "row") + ", a step has at most " +
                 std::to_string(shape_.max_tokens));
  if (step.recomputed != again_)
    guard.broken("says that the step computes " + counted(step.recomputed, "token") + " again, it does " +
                 std::to_string(again_));
  if (running_ > shape_.max_requests)
    guard.broken("has " + counted(running_, "request") + " run at once, expected at most " +
                 std::to_string(shape_.max_requests));
  if (gpu_.least > shape_.kv.gpu_blocks)
    guard.broken("runs requests whose tokens need " + counted(gpu_.least, "block") + ", there are " +
                 std::to_string(shape_.kv.gpu_blocks));
  if (host_ > shape_.kv.host_blocks)
    guard.broken("has " + counted(host_, "block") + " on the host, which has room for " +
                 std::to_string(shape_.kv.host_blocks));
  if (!step.of_ranks.empty()) guard.broken("forms a step of several ranks");
}

void RequestBooks::check_finished(const PolicyGuard& guard, const BatchStep& step) {
  for (const std::uint32_t id : step.finished) {
    const auto found = requests_.find(id);
    if (found == requests_.end() || !found->second.produces || found->second.left != 1)
      guard.broken("says that " + request_name(id) + " gets its last token, and it does not");
  }
  if (step.finished.size() != finishing_)
    guard.broken("names " + counted(step.finished.size(), "request") + " that " +
                 (step.finished.size() == 1 ? "gets its" : "get their") + " last token, there are " +
                 std::to_string(finishing_));
}

void RequestBooks::form(const PolicyGuard& guard, const BatchStep& step) {
  in_step_.clear();
  rows_ = again_ = finishing_ = leaving_ = 0;
  leave(guard, step);
  enter(guard, step);
  for (const StepShare& share : step.shares) run(guard, share);
  check_sums(guard, step);
  check_finished(guard, step);
}

void RequestBooks::refuse(std::span<const std::uint32_t> refused) {
  for (std::size_t share = 0; share < in_step_.size(); ++share) {
    Request& r = requests_.at(in_step_[share]);
    gpu_.least -= least_blocks(r);
    r.rows -= refused[share];
    gpu_.least += least_blocks(r);
  }
}

void RequestBooks::complete() {
  for (const std::uint32_t id : in_step_) {
    const auto found = requests_.find(id);
    Request& r = found->second;
    r.cached += r.rows;
    r.rows = 0;
    r.reached = std::max(r.reached, r.cached);
    const std::uint64_t produced = r.cached < r.known ? 0 : r.cached + 1 - r.known;
    r.known += produced;
    if (produced > 0) r.prefills = false;
    if (!r.produces) continue;
    r.produces = false;
    r.left -= produced;
    if (r.left > 0) continue;
    leaving_ += request_blocks(final_tokens(r.ask), shape_.kv);
    set_place(r, Place::waiting);
    --waiting_;
    requests_.erase(found);
  }
  in_step_.clear();
}

void RequestBooks::check_use(const PolicyGuard& guard, const KvUse& use, bool formed) const {
  const auto check = [&](std::uint64_t said, std::uint64_t counted_here, const char* what) {
    if (said != counted_here)
      guard.broken("says that " + std::to_string(said) + " " + what + ", there are " +
                   std::to_string(counted_here));
  };
  check(use.running, running_, "requests run");
  check(use.waiting, waiting_, "requests wait");
  check(use.swapped, swapped_, "requests are swapped out");
  check(use.host_blocks, host_, "blocks are in use on the host");
  if (use.gpu_blocks < gpu_.least || use.gpu_blocks > gpu_.most + leaving_)
    guard.broken("says that " + counted(use.gpu_blocks, "block") +
                 " of the GPU are in use, its requests have " + std::to_string(gpu_.least) + " to " +
                 std::to_string(gpu_.most + leaving_));
  if (formed && use.gpu_blocks > shape_.kv.gpu_blocks)
    guard.broken("uses " + counted(use.gpu_blocks, "block") + " of the GPU, there are " +
                 std::to_string(shape_.kv.gpu_blocks));
  if (formed && use.gpu_floor > shape_.kv.gpu_blocks)
    guard.broken("has promised " + counted(use.gpu_floor, "block") + ", there are " +
                 std::to_string(shape_.kv.gpu_blocks));
}

}  // namespace moelab
