#include "sim/results/timeline.hpp"

#include <algorithm>

#include "models/input_error.hpp"

namespace moelab {

void Timeline::Slices::add(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) {
  const engine::Graph& g = graph.graph;
  std::vector<std::uint32_t> number(g.size(), kNoSlice);
  for (engine::OpIndex op = 0; op < g.size(); ++op) {
    if (g.end(op) == engine::kNotYet) continue;
    number[op] = static_cast<std::uint32_t>(all.size());
    all.push_back({g.ready(op), g.start(op), g.end(op), graph.labels[op], g.resource(op), pass, layer,
                   graph.moved(op), kNoSlice});
  }
  for (engine::OpIndex op = 0; op < g.size(); ++op)
    if (const engine::OpIndex last = g.last_dependency(op); number[op] != kNoSlice && last != engine::kNoOp)
      all[number[op]].after = number[last];
  for (engine::OpIndex op = 0; op < g.size(); ++op)
    g.for_dependents(op, [&](engine::OpIndex after) {
      if (number[op] != kNoSlice && number[after] != kNoSlice) arrows.emplace_back(number[op], number[after]);
    });
}

void Timeline::Slices::append(const Slices& more) {
  const auto first = static_cast<std::uint32_t>(all.size());
  for (Slice slice : more.all) {
    if (slice.after != kNoSlice) slice.after += first;
    all.push_back(slice);
  }
  for (const auto& [from, to] : more.arrows) arrows.emplace_back(first + from, first + to);
}

void check_reaches(const TimelineWindow& window, std::uint64_t tokens, const std::string& asked) {
  if (window.first_token <= tokens) return;
  throw InputError(asked, "begins behind the run's last token: it makes " + std::to_string(tokens) +
                              "; expected FIRST of at most " + std::to_string(tokens));
}

// A pass may make many tokens, or, with a part of a prompt, none: then it goes on towards the next one.
bool Timeline::keeps(std::uint64_t pass, std::uint64_t tokens_before, std::uint64_t tokens_after) const {
  return pass >= window_.first_pass && pass <= window_.last_pass &&
         std::max(tokens_after, tokens_before + 1) >= window_.first_token &&
         tokens_before < window_.last_token;
}

void Timeline::Server::finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) {
  if (pass < decided_) {  // a fetch that one of the passes before began
    if (pass >= first_kept_ && pass < end_kept_) kept_.add(graph, pass, layer);
    return;
  }
  if (new_.all.empty()) tokens_then_ = timeline_.tokens_;
  if (pass <= timeline_.window_.last_pass && tokens_then_ < timeline_.window_.last_token)
    new_.add(graph, pass, layer);
}

bool Timeline::Server::wants_memory() const {
  const TimelineWindow& window = timeline_.window_;
  return decided_ >= window.first_pass && decided_ <= window.last_pass &&
         timeline_.tokens_ < window.last_token;
}

void Timeline::Server::pass_ended(double now, std::uint64_t pass, std::uint64_t tokens) {
  if (new_.all.empty()) tokens_then_ = timeline_.tokens_;
  timeline_.tokens_ += tokens - tokens_;
  tokens_ = tokens;
  if (tokens > 0 && timeline_.first_token_s_ == 0) timeline_.first_token_s_ = now;
  const std::uint64_t begin = decided_;
  decided_ = pass + 1;
  if (timeline_.keeps(pass, tokens_then_, timeline_.tokens_)) {
    if (end_kept_ == first_kept_) first_kept_ = begin;
    end_kept_ = decided_;
    window_end_s_ = now;
    kept_.append(new_);
    memory_.insert(memory_.end(), new_memory_.begin(), new_memory_.end());
  }
  for (const ServedSpan& span : new_spans_)
    if (end_kept_ > first_kept_ && span.arrival_s < window_end_s_) spans_.push_back(span);
  new_.all.clear();
  new_.arrows.clear();
  new_memory_.clear();
  new_spans_.clear();
}

// With several servers, experts that move between them: of no pass, kept while the run is at these tokens and
// no server is past its passes.
void Timeline::finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) {
  if (servers_.empty()) return all_.finished(graph, pass, layer);
  const auto in_window = [](const Server& server) { return server.wants_memory(); };
  if (tokens_ + 1 >= window_.first_token && std::all_of(servers_.begin(), servers_.end(), in_window))
    all_.keep(graph, pass, layer);
}

GraphObserver* Timeline::of_server(const std::string& prefix) {
  return &servers_.emplace_back(*this, prefix);
}

}  // namespace moelab
