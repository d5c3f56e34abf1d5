// The continuous policy's rules once more, slowly and with real pages: every block has a number, requests
// have block tables, tokens are written one by one, queues are looked up anew each time. Shares with the
// policy what a step looks like, and no code.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <set>
#include <vector>

#include "policies/batching/batching.hpp"

namespace moelab {

class PagedReference {
 public:
  PagedReference(const BatchingShape& shape, bool swap, double watermark, bool chunked)
      : shape_(shape), swap_(swap), chunked_(chunked), watermark_(watermark) {}

  void arrive(const BatchRequest& request) {
    const std::uint64_t given = request.prompt_tokens + (request.prefilled ? 1U : 0U);
    all_.push_back({.ask = request, .tokens = given, .written = request.prefilled ? given - 1 : 0});
    all_.back().most = all_.back().written;
  }
  void resize(std::uint64_t blocks) { shape_.kv.gpu_blocks = blocks; }

  BatchStep form() {
    step_ = {};
    in_step_.clear();
    while (gpu_.size() > shape_.kv.gpu_blocks) preempt(latest_running());
    if (!chunked_) admit([](const Sequence& s) { return s.written == 0; });
    if (!step_.shares.empty()) return step_;
    for (Sequence& s : all_) {
      while (s.state == State::running && !s.prefilling && !room_for_next_token(s)) preempt(latest_running());
      if (s.state == State::running && !s.prefilling) run(s, 1);
    }
    for (Sequence& s : all_)
      if (s.state == State::running && s.prefilling) run(s, std::min(s.tokens - s.written, tokens_left()));
    while (Sequence* s = may_resume() ? first(State::swapped) : nullptr) {
      if (!can_join(*s)) break;
      step_.blocks_in += s->table.size();
      for (const std::uint64_t block : s->table) host_.erase(block);
      const std::size_t full = s->table.size();
      s->table.clear();
      while (s->table.size() < full) take(gpu_, s->table);
      step_.resumed.push_back(s->ask.id);
      join(*s);
    }
    admit([this](const Sequence& s) { return chunked_ || s.written > 0; });
    return step_;
  }

  void complete() {
    for (const auto& [s, rows] : in_step_) {
      s->written += rows;
      s->most = std::max(s->most, s->written);
      if (s->written < s->tokens) continue;
      ++s->tokens;
      s->prefilling = false;
      if (++s->produced < s->ask.output_tokens) continue;
      for (const std::uint64_t block : s->table) gpu_.erase(block);
      s->state = State::gone;
    }
  }

  KvUse use() {
    return {.gpu_blocks = gpu_.size(),
            .gpu_floor = 0,
            .host_blocks = host_.size(),
            .running = count(State::running),
            .waiting = count(State::waiting),
            .swapped = count(State::swapped)};
  }

 private:
  enum class State { waiting, running, swapped, gone };
  struct Sequence {
    BatchRequest ask;
    std::uint64_t tokens = 0, written = 0, most = 0, produced = 0;
    State state = State::waiting;
    bool prefilling = false, seen = false;
    std::vector<std::uint64_t> table = {};
  };

  static void take(std::set<std::uint64_t>& used, std::vector<std::uint64_t>& table) {
    std::uint64_t block = 0;
    while (used.count(block) > 0) ++block;
    used.insert(block);
    table.push_back(block);
  }
  std::uint64_t count(State state) {
    std::uint64_t n = 0;
    for (const Sequence& s : all_) n += s.state == state ? 1 : 0;
    return n;
  }
  Sequence* first(State state) {  // in order of arrival
    for (Sequence& s : all_)
      if (s.state == state) return &s;
    return nullptr;
  }
  Sequence& latest_running() {
    Sequence* latest = nullptr;
    for (Sequence& s : all_)
      if (s.state == State::running) latest = &s;
    REQUIRE(latest != nullptr);
    for (const auto& [s, rows] : in_step_) REQUIRE(s != latest);
    return *latest;
  }
  std::uint64_t tokens_left() const {
    std::uint64_t left = shape_.max_tokens;
    for (const auto& [s, rows] : in_step_) left -= rows;
    return left;
  }
  bool may_resume() {
    return step_.dropped.size() + step_.swapped_out.size() == 0 || count(State::running) == 0;
  }
  std::uint64_t blocks_of(std::uint64_t tokens) const {
    std::uint64_t blocks = 0;
    while (blocks * shape_.kv.block_tokens < tokens) ++blocks;
    for (std::uint64_t state = 0; state < shape_.kv.state_blocks; ++state) ++blocks;
    return blocks;
  }
  bool room_for_next_token(const Sequence& s) const {
    return s.table.size() == blocks_of(s.tokens) ? gpu_.size() <= shape_.kv.gpu_blocks
                                                 : gpu_.size() < shape_.kv.gpu_blocks;
  }
  bool can_join(const Sequence& s) {
    if (count(State::running) == shape_.max_requests || tokens_left() == 0) return false;
    if (!chunked_ && s.tokens - s.written > tokens_left()) return false;
    const auto spare = count(State::running) == 0
                           ? 0
                           : static_cast<std::uint64_t>(watermark_ * double(shape_.kv.gpu_blocks));
    return gpu_.size() + blocks_of(s.tokens) + spare <= shape_.kv.gpu_blocks;
  }
  void join(Sequence& s) {
    s.state = State::running;
    run(s, std::min(s.tokens - s.written, tokens_left()));
  }
  void run(Sequence& s, std::uint64_t rows) {
    if (rows == 0) return;
    while (s.table.size() < blocks_of(s.tokens)) take(gpu_, s.table);
    in_step_.emplace_back(&s, rows);
    const bool produces = s.written + rows == s.tokens;
    step_.shares.push_back({s.ask.id, std::uint32_t(rows), std::uint32_t(s.written), s.prefilling, produces});
    for (std::uint64_t token = s.written; token < s.written + rows; ++token) {
      ++step_.rows;
      if (token < s.most) ++step_.recomputed;
    }
    if (produces && s.produced + 1 == s.ask.output_tokens) step_.finished.push_back(s.ask.id);
  }
  void preempt(Sequence& s) {
    for (const std::uint64_t block : s.table) gpu_.erase(block);
    const std::size_t blocks = s.table.size();
    s.table.clear();
    if (swap_ && host_.size() + blocks <= shape_.kv.host_blocks) {
      while (s.table.size() < blocks) take(host_, s.table);
      s.state = State::swapped;
      step_.blocks_out += blocks;
      step_.swapped_out.push_back(s.ask.id);
    } else {
      s.state = State::waiting;
      s.written = 0;
      step_.dropped.push_back(s.ask.id);
    }
  }
  template <class Allowed>
  void admit(const Allowed& allowed) {
    while (may_resume() && count(State::swapped) == 0) {
      Sequence* const s = first(State::waiting);
      if (s == nullptr || !allowed(*s) || !can_join(*s)) return;
      (s->seen ? step_.restarted : step_.admitted).push_back(s->ask.id);
      s->seen = true;
      s->prefilling = s->written == 0;
      join(*s);
    }
  }

  BatchingShape shape_;
  const bool swap_, chunked_;
  const double watermark_;
  std::deque<Sequence> all_;  // in order of arrival
  std::set<std::uint64_t> gpu_, host_;
  BatchStep step_;
  std::vector<std::pair<Sequence*, std::uint64_t>> in_step_;
};

}  // namespace moelab
