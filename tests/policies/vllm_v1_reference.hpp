// The rules of vLLM's V1 scheduler once more, slowly and with real pages: blocks have numbers and wait in a
// queue when they are free, requests are lists of tokens and have block tables, and a full block remembers
// all tokens up to its end. Shares with the policy what a step looks like, and no code.
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "policies/batching/batching.hpp"

namespace moelab {

class V1Reference {
 public:
  V1Reference(const BatchingShape& shape, bool async, bool reserve, bool prefix_cache, bool priority)
      : shape_(shape),
        async_(async),
        reserve_(reserve),
        prefix_(prefix_cache && shape.kv.shares_beginnings),
        priority_(priority) {
    refill(shape.kv.gpu_blocks);
  }

  void arrive(const BatchRequest& request) {
    Sequence s;
    s.ask = request;
    s.tokens = request.prompt_tokens;
    if (request.prefilled) s.written = s.tokens++;
    s.most = s.written;
    s.text = text_of(request);
    s.number = ++arrived_;
    unseen_.push_back(std::make_shared<Sequence>(s));
    if (!async_) see();
  }

  // Free pages are made anew: what was readable in them is gone.
  void resize(std::uint64_t blocks) {
    pages_ = blocks;
    const std::uint64_t used = in_use();
    refill(blocks > used ? blocks - used : 0);
  }

  BatchStep form() {
    step_ = {};
    in_step_.clear();
    for (;;) {
      const bool preempted = turn();
      if (!in_step_.empty()) break;
      if (!learn() && !preempted) return step_;
    }
    learn();
    return step_;
  }

  void complete() {
    for (const auto& [s, rows] : in_step_) {
      s->written += rows;
      s->most = std::max(s->most, s->written);
      if (s->written < s->tokens) continue;
      s->again = false;
      ++s->tokens;
      if (++s->produced < s->ask.output_tokens) continue;
      running_.remove(s);
      ended_.push_back(s);
    }
    if (!async_) learn();
  }

  KvUse use() const {
    return {.gpu_blocks = in_use(), .running = running_.size(), .waiting = waiting_.size() + unseen_.size()};
  }
  std::uint64_t found = 0;         // blocks that requests found
  std::uint64_t found_in_use = 0;  // of these, that others held
  std::uint64_t copies = 0;        // blocks that were filled with what another one has
  std::uint64_t taken_back = 0;    // requests that were preempted in a step that had them

 private:
  using Text = std::vector<std::uint64_t>;  // tokens
  struct Sequence {
    BatchRequest ask;
    std::uint64_t tokens = 0, written = 0, produced = 0, most = 0, number = 0;
    bool started = false, again = false;
    Text text;                         // all tokens that it will ever have
    std::vector<std::uint64_t> table;  // pages
    std::uint64_t states = 0;          // pages for states, which have no place in the table
  };
  using Pointer = std::shared_ptr<Sequence>;
  /// What is in a full page: all tokens up to its end. The page that was filled earlier is found.
  struct Content {
    Text text;
    std::uint64_t filled = 0;
  };
  static constexpr std::uint64_t kOwn = std::uint64_t{1} << 40;  // tokens of one request alone

  /// A token is a number: of a part and its place, or of the request and its place.
  Text text_of(const BatchRequest& request) const {
    Text text;
    for (const TokenPart& part : request.parts)
      while (prefix_ && !request.prefilled && text.size() < part.end)
        text.push_back(part.id * 1000 + text.size());
    while (text.size() < request.prompt_tokens + std::uint64_t{request.output_tokens})
      text.push_back(kOwn * (1 + request.id) + text.size());
    return text;
  }
  Text beginning(const Sequence& s, std::uint64_t blocks) const {
    return {s.text.begin(), s.text.begin() + static_cast<std::ptrdiff_t>(blocks * shape_.kv.block_tokens)};
  }

  void refill(std::uint64_t blocks) {
    for (const std::uint64_t page : free_) content_.erase(page);
    free_.clear();
    for (std::uint64_t i = 0; i < blocks; ++i) free_.push_back(next_page_++);
  }
  /// Pages that are held, each counted once.
  std::set<std::uint64_t> held() const {
    std::set<std::uint64_t> pages;
    for (const auto* list : {&running_, &ended_})
      for (const Pointer& s : *list) pages.insert(s->table.begin(), s->table.end());
    return pages;
  }
  std::uint64_t in_use() const {
    std::uint64_t n = held().size();
    for (const auto* list : {&running_, &ended_})
      for (const Pointer& s : *list) n += s->states;
    return n;
  }

  /// Full pages can be found by what is in them, once the step that fills them is formed.
  void remember(const Sequence& s, std::uint64_t written) {
    for (std::uint64_t b = 0; b < s.table.size() && (b + 1) * shape_.kv.block_tokens <= written; ++b) {
      if (content_.contains(s.table[b])) continue;
      const Text text = beginning(s, b + 1);
      for (const auto& [page, other] : content_) copies += other.text == text ? 1 : 0;
      content_[s.table[b]] = {text, ++filled_};
    }
  }

  std::optional<std::uint64_t> find(const Text& wanted) const {
    std::optional<std::uint64_t> first;
    for (const auto& [page, content] : content_)
      if (content.text == wanted && (!first || content.filled < content_.at(*first).filled)) first = page;
    return first;
  }

  std::uint64_t take_oldest() {
    const std::uint64_t page = free_.front();
    free_.pop_front();
    content_.erase(page);
    return page;
  }

  /// `s` is in no list of those that hold pages.
  void release(Sequence& s) {
    const std::uint64_t used = in_use(), room = pages_ > used ? pages_ - used : 0;
    const std::set<std::uint64_t> others = held();
    for (; s.states > 0; --s.states) s.table.push_back(next_page_++);
    std::erase_if(s.table, [&](std::uint64_t page) { return others.contains(page); });
    // Where the cache has shrunk, the last ones are not there any more.
    for (; !s.table.empty() && free_.size() + s.table.size() > room; s.table.pop_back())
      content_.erase(s.table.back());
    for (; !s.table.empty(); s.table.pop_back()) free_.push_back(s.table.back());
  }

  std::uint64_t pages_for(std::uint64_t tokens) const {
    std::uint64_t n = 0;
    while (n * shape_.kv.block_tokens < tokens) ++n;
    return n;
  }
  void extend(Sequence& s, std::uint64_t tokens) {
    while (s.table.size() < pages_for(tokens)) s.table.push_back(take_oldest());
  }

  bool learn() {
    const bool any = !ended_.empty() || !unseen_.empty();
    while (!ended_.empty()) {
      const Pointer s = ended_.front();
      ended_.pop_front();
      forget(*s);
      release(*s);
    }
    see();
    return any;
  }
  void see() {
    waiting_.splice(waiting_.end(), unseen_);
    if (priority_) waiting_.sort(is_before);
  }
  static bool is_before(const Pointer& a, const Pointer& b) {
    return std::pair(a->ask.priority, a->number) < std::pair(b->ask.priority, b->number);
  }
  /// Nothing that is its own will be asked for again.
  void forget(const Sequence& s) {
    std::erase_if(content_, [&](const auto& entry) { return is_own(s, entry.second); });
  }
  static bool is_own(const Sequence& s, const Content& content) {
    return content.text.back() / kOwn == 1 + s.ask.id;
  }

  void preempt() {
    const Pointer s = priority_ ? *std::ranges::max_element(running_, is_before) : running_.back();
    running_.remove(s);
    take_back(s);
    step_.dropped.push_back(s->ask.id);
    release(*s);
    s->written = 0;
    s->again = true;
    waiting_.push_front(s);
    if (priority_) waiting_.sort(is_before);
  }
  /// What it was to run in the step is budget again.
  void take_back(const Pointer& s) {
    if (std::erase_if(in_step_, [&](const auto& share) { return share.first == s; }) > 0) ++taken_back;
    BatchStep step = std::exchange(step_, {});
    step_.dropped = step.dropped;
    const auto others = std::exchange(in_step_, {});
    for (const auto& [other, rows] : others) run(other, rows);
  }

  /// One call of the scheduler. Says whether it preempted a request.
  bool turn() {
    bool preempted = false;
    while (in_use() > pages_ && !running_.empty()) {
      preempt();
      preempted = true;
    }
    std::vector<Pointer> order(running_.begin(), running_.end());
    for (const Pointer& s : order) {
      if (std::find(running_.begin(), running_.end(), s) == running_.end()) continue;
      const std::uint64_t rows = std::min(s->tokens - s->written, budget());
      if (rows == 0) break;
      bool there = true;
      while (there && in_use() + missing(*s, s->written + rows) > pages_) {
        preempt();
        preempted = true;
        there = std::find(running_.begin(), running_.end(), s) != running_.end();
      }
      if (!there) break;
      extend(*s, s->written + rows);
      run(s, rows);
    }
    for (const auto& [s, written] : in_step_)
      if (prefix_) remember(*s, s->written + written);
    if (!preempted) admit();
    return preempted;
  }

  std::uint64_t missing(const Sequence& s, std::uint64_t tokens) const {
    const std::uint64_t wanted = pages_for(tokens);
    return wanted > s.table.size() ? wanted - s.table.size() : 0;
  }
  std::uint64_t budget() const { return shape_.max_tokens - step_.rows; }

  void admit() {
    while (!waiting_.empty() && budget() > 0 && running_.size() + ended_.size() < shape_.max_requests) {
      const Pointer s = waiting_.front();
      std::vector<std::uint64_t> again;
      const bool looks = prefix_ && (s->again || s->written == 0);
      if (looks)
        for (std::uint64_t b = 0; (b + 1) * shape_.kv.block_tokens < s->tokens; ++b) {
          const auto page = find(beginning(*s, b + 1));
          if (!page) break;
          again.push_back(*page);
        }
      const std::uint64_t have = looks ? again.size() * shape_.kv.block_tokens : s->written;
      const std::uint64_t rows = std::min(s->tokens - have, budget());
      const std::uint64_t wanted = shape_.kv.state_blocks + pages_for(reserve_ ? s->tokens : have + rows);
      const std::set<std::uint64_t> others = held();
      const auto held_too = static_cast<std::uint64_t>(
          std::ranges::count_if(again, [&](std::uint64_t page) { return others.contains(page); }));
      if (in_use() + wanted - held_too > pages_) return;
      waiting_.pop_front();
      (s->started ? step_.restarted : step_.admitted).push_back(s->ask.id);
      s->started = true;
      s->written = have;
      s->most = std::max(s->most, have);
      if (s->again && s->tokens > s->ask.prompt_tokens && have + 1 == s->tokens)
        s->again = false;  // nothing is missing
      for (const std::uint64_t page : again) {
        if (!others.contains(page)) free_.erase(std::find(free_.begin(), free_.end(), page));
        s->table.push_back(page);
      }
      found += again.size();
      found_in_use += held_too;
      for (; s->states < shape_.kv.state_blocks; ++s->states) take_oldest();
      extend(*s, have + rows);
      forget_free(*s);
      running_.push_back(s);
      run(s, rows);
      if (prefix_) remember(*s, have + rows);
    }
  }
  /// It writes what it lost anew, elsewhere: old copies are not asked for.
  void forget_free(const Sequence& s) {
    for (const std::uint64_t page : free_)
      if (const auto it = content_.find(page); it != content_.end() && is_own(s, it->second))
        content_.erase(it);
  }

  void run(const Pointer& s, std::uint64_t rows) {
    const bool produces = s->written + rows == s->tokens;
    const bool prompt = s->again || (s->produced == 0 && !s->ask.prefilled);
    step_.shares.push_back({.request = s->ask.id,
                            .tokens = static_cast<std::uint32_t>(rows),
                            .context = static_cast<std::uint32_t>(s->written),
                            .prompt = prompt,
                            .produces = produces});
    step_.rows += rows;
    for (std::uint64_t token = s->written; token < s->written + rows; ++token)
      step_.recomputed += token < s->most ? 1 : 0;
    if (produces && s->produced + 1 == s->ask.output_tokens) step_.finished.push_back(s->ask.id);
    in_step_.emplace_back(s, rows);
  }

  BatchingShape shape_;
  bool async_, reserve_, prefix_, priority_;
  std::uint64_t pages_ = shape_.kv.gpu_blocks, next_page_ = 0;
  std::list<Pointer> running_, waiting_, unseen_, ended_;
  std::deque<std::uint64_t> free_;            // free longest first
  std::map<std::uint64_t, Content> content_;  // of full pages
  std::uint64_t filled_ = 0, arrived_ = 0;    // pages and requests so far
  std::vector<std::pair<Pointer, std::uint64_t>> in_step_;
  BatchStep step_;
};

}  // namespace moelab
