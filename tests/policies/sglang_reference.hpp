// The rules of SGLang's scheduler once more, slowly and in its own terms: batches that run and were run last,
// of which requests are taken off when it hears that they have ended, a queue, and a cache of pages by all
// tokens up to their end. Shares with the policy what a step looks like, and no code.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "policies/batching/batching.hpp"

namespace moelab {

struct SglangOptions {
  int schedule_policy = 0;
  std::uint32_t chunked_prefill_size = 8192, max_prefill_tokens = 16384;
  bool mixed = false, radix = true, overlap = true;
  double conservativeness = 1;
};

class SglangReference {
 public:
  SglangReference(const BatchingShape& shape, const SglangOptions& options)
      : shape_(shape), o_(options), pages_(shape.kv.gpu_blocks) {
    for (std::uint64_t i = 0; i < pages_; ++i) plain_.push_back(next_page_++);
    init_ratio_ = std::min(0.7 * o_.conservativeness, 1.0);
    min_ratio_ = std::min(init_ratio_ * 0.14, 1.0);
    ratio_ = init_ratio_;
    o_.radix = o_.radix && shape.kv.shares_beginnings;
    lpm_ = options.radix && o_.schedule_policy == 1;
    o_.mixed = o_.mixed && o_.chunked_prefill_size > 0;
  }

  void arrive(const BatchRequest& request) {
    const auto req = std::make_shared<Req>();
    req->ask = request;
    req->kv = request.prefilled ? request.prompt_tokens : 0;
    req->most = req->kv;
    req->text = text_of(request);
    unseen_.push_back(req);
    if (!o_.overlap) take_in();
  }

  void resize(std::uint64_t pages) {
    pages_ = pages;
    for (const auto& [page, text] : idle_) tree_.erase(text);
    idle_.clear();
    plain_.clear();
    for (std::uint64_t i = in_use(); i < pages_; ++i) plain_.push_back(next_page_++);
    full_ = false;
  }

  BatchStep form() {
    step_ = {};
    for (;;) {
      const std::size_t before = running_.size() + last_.reqs.size(), dropped = step_.dropped.size();
      turn();
      if (!step_.shares.empty()) break;
      const bool filtered = running_.size() + last_.reqs.size() + step_.dropped.size() - dropped < before;
      last_ = {};
      if (!hear() && !filtered && step_.dropped.size() == dropped) {
        ratio_ = init_ratio_;
        return step_;
      }
    }
    hear();
    return step_;
  }

  void complete() {
    for (const auto& [req, rows, of_prompt] : ran_) {
      req->kv += rows;
      req->most = std::max(req->most, req->kv);
      const bool produces = req->kv == req->known();
      if (produces) {
        req->recomputes = false;
        ++req->output;
        req->done = req->output == req->ask.output_tokens;
      }
      unheard_.push_back({req, req->kv, of_prompt && produces});
    }
    ran_.clear();
    if (!o_.overlap) hear();
  }

  KvUse use() const {
    std::uint64_t running = 0;
    for (const Pointer& req : holders()) running += req->done ? 0 : 1;
    return {.gpu_blocks = in_use(), .running = running, .waiting = waiting_.size() + unseen_.size()};
  }
  std::uint64_t found = 0, found_in_use = 0, doubles = 0;  // pages

 private:
  using Text = std::vector<std::uint64_t>;
  struct Req {
    BatchRequest ask;
    std::uint64_t kv = 0, most = 0, output = 0, states = 0;
    bool done = false, heard_done = false, retracted = false, again = false, recomputes = false;
    Text text;
    std::vector<std::uint64_t> table;
    std::uint64_t known() const { return ask.prompt_tokens + (ask.prefilled ? 1 : 0) + output; }
    bool is_prefilled() const { return ask.prefilled && !again; }
  };
  using Pointer = std::shared_ptr<Req>;
  struct Ran {
    Pointer req;
    std::uint64_t rows = 0;
    bool of_prompt = false;
  };
  struct Result {
    Pointer req;
    std::uint64_t kv = 0;      // tokens in its cache then
    bool prompt_done = false;  // its prompt has run as a whole
  };
  struct Batch {
    std::vector<Pointer> reqs;
    bool extend = false;
    Pointer chunk;
  };
  static constexpr std::uint64_t kOwn = std::uint64_t{1} << 40;

  Text text_of(const BatchRequest& request) const {
    Text text;
    for (const TokenPart& part : request.parts)
      while (o_.radix && !request.prefilled && text.size() < part.end)
        text.push_back(part.id * 1000 + text.size());
    while (text.size() < request.prompt_tokens + std::uint64_t{request.output_tokens} + 1)
      text.push_back(kOwn * (1 + request.id) + text.size());
    return text;
  }
  std::uint64_t page_size() const { return shape_.kv.block_tokens; }
  std::uint64_t paged(std::uint64_t tokens) const {
    return (tokens + page_size() - 1) / page_size() * page_size();
  }

  // --- memory

  std::set<Pointer> holders() const {
    std::set<Pointer> all(running_.begin(), running_.end());
    all.insert(last_.reqs.begin(), last_.reqs.end());
    all.insert(prompts_.begin(), prompts_.end());
    if (chunk_) all.insert(chunk_);
    std::erase_if(all, [](const Pointer& req) { return req->heard_done || req->retracted; });
    return all;
  }
  std::set<std::uint64_t> held() const {
    std::set<std::uint64_t> pages;
    for (const Pointer& req : holders()) pages.insert(req->table.begin(), req->table.end());
    return pages;
  }
  std::uint64_t in_use() const {
    std::uint64_t n = held().size();
    for (const Pointer& req : holders()) n += req->states;
    return n;
  }
  std::int64_t available() const {
    return (static_cast<std::int64_t>(pages_) - static_cast<std::int64_t>(in_use())) *
           static_cast<std::int64_t>(page_size());
  }
  Text beginning(const Req& req, std::uint64_t pages) const {
    return {req.text.begin(), req.text.begin() + static_cast<std::ptrdiff_t>(pages * page_size())};
  }
  std::vector<std::uint64_t> match(const Req& req, std::uint64_t tokens) const {
    std::vector<std::uint64_t> pages;
    if (!o_.radix || req.is_prefilled()) return pages;
    while ((pages.size() + 1) * page_size() <= tokens) {
      const auto at = tree_.find(beginning(req, pages.size() + 1));
      if (at == tree_.end()) break;
      pages.push_back(at->second);
    }
    return pages;
  }
  std::uint64_t take() {
    if (plain_.empty()) {
      tree_.erase(idle_.front().second);
      plain_.push_back(idle_.front().first);
      idle_.pop_front();
    }
    const std::uint64_t page = plain_.front();
    plain_.pop_front();
    return page;
  }
  void grow(Req& req, std::uint64_t tokens) {
    for (; req.states < shape_.kv.state_blocks; ++req.states) take();
    while (req.table.size() * page_size() < tokens) req.table.push_back(take());
  }
  void revive(std::uint64_t page) {
    std::erase_if(idle_, [&](const auto& one) { return one.first == page; });
  }
  /// What it has up to `tokens` is in the tree, of each text one page.
  void insert(Req& req, std::uint64_t tokens) {
    if (!o_.radix) return;
    for (std::uint64_t b = 0; (b + 1) * page_size() <= tokens; ++b) {
      const auto [at, is_new] = tree_.emplace(beginning(req, b + 1), req.table[b]);
      if (is_new || at->second == req.table[b]) continue;
      ++doubles;
      revive(at->second);
      req.table[b] = at->second;
      if (in_use() + plain_.size() + idle_.size() < pages_) plain_.push_back(next_page_++);
    }
  }
  /// It is not among the holders any more.
  void release(Req& req) {
    const std::set<std::uint64_t> others = held();
    const std::uint64_t used = in_use();
    std::uint64_t room = pages_ > used ? pages_ - used - plain_.size() - idle_.size() : 0;
    std::vector<std::pair<std::uint64_t, std::optional<Text>>> mine;  // in the order in which they go
    for (std::uint64_t i = 0; i < req.states; ++i) mine.emplace_back(next_page_++, std::nullopt);
    for (std::uint64_t b = 0; b < req.table.size(); ++b) {
      if (others.contains(req.table[b])) continue;
      const bool full = (b + 1) * page_size() <= req.text.size();
      const auto at = full ? tree_.find(beginning(req, b + 1)) : tree_.end();
      const bool readable = at != tree_.end() && at->second == req.table[b];
      mine.emplace_back(req.table[b], readable ? std::optional(at->first) : std::nullopt);
    }
    for (; mine.size() > room; mine.pop_back())
      if (mine.back().second) tree_.erase(*mine.back().second);
    for (; !mine.empty(); mine.pop_back()) {
      if (mine.back().second)
        idle_.emplace_back(mine.back().first, *mine.back().second);
      else
        plain_.push_back(mine.back().first);
    }
    req.table.clear();
    req.states = 0;
  }

  // --- results

  /// Processes results and takes requests in. Says whether any ended or came.
  bool hear() {
    bool any = !unseen_.empty();
    const std::vector<Result> results = std::exchange(unheard_, {});
    // All prompts first: who ends in the same step would only lend its pages.
    for (const auto& [req, kv, prompt_done] : results)
      if (prompt_done && !req->done && !req->retracted) insert(*req, kv);
    for (const auto& [req, kv, prompt_done] : results) {
      if (!req->done || req->retracted) continue;
      insert(*req, kv);
      req->heard_done = true;
      release(*req);
      any = true;
    }
    take_in();
    return any;
  }
  void take_in() {
    waiting_.insert(waiting_.end(), unseen_.begin(), unseen_.end());
    unseen_.clear();
  }

  // --- get_next_batch_to_run

  void turn() {
    merge_last();
    make_room();
    if (chunk_) insert(*chunk_, chunk_->kv);
    if (!prefill()) decode();
  }

  void merge_last() {
    if (!last_.extend) {
      last_ = {};
      return;
    }
    const std::size_t size = last_.reqs.size();
    std::erase_if(last_.reqs,
                  [&](const Pointer& req) { return req->heard_done || req == chunk_ || req == last_.chunk; });
    if (last_.reqs.size() < size) full_ = false;
    running_.insert(running_.end(), last_.reqs.begin(), last_.reqs.end());
    last_ = {};
  }

  std::vector<Pointer> decoding() const {
    std::vector<Pointer> all;
    for (const Pointer& req : running_)
      if (!req->done) all.push_back(req);
    return all;
  }
  bool unheard_ends() const {
    return std::ranges::any_of(running_, [](const Pointer& req) { return req->done && !req->heard_done; });
  }
  std::uint64_t pages_to_decode() const {
    std::uint64_t n = 0;
    for (const Pointer& req : decoding()) {
      const std::uint64_t wanted = paged(req->known()) / page_size();
      n += wanted > req->table.size() ? wanted - req->table.size() : 0;
    }
    return n;
  }
  bool has_pages(std::uint64_t more) const { return in_use() + more <= pages_; }

  void retract(Pointer req) {
    std::erase(running_, req);
    if (req == chunk_) chunk_ = nullptr;
    req->retracted = req->again = req->recomputes = true;
    release(*req);
    req->kv = 0;
    step_.dropped.push_back(req->ask.id);
    waiting_.push_back(req);
  }
  /// Those that decode, the first to be kept at the front; the running batch has that order from now on.
  void sort_for_retraction() {
    std::stable_sort(running_.begin(), running_.end(), [](const Pointer& a, const Pointer& b) {
      const auto key = [](const Pointer& r) {
        return std::pair(static_cast<std::int64_t>(r->output), -std::int64_t{r->ask.prompt_tokens});
      };
      return key(a) > key(b);
    });
  }
  void make_room() {
    if (has_pages(0)) return;
    sort_for_retraction();
    while (!has_pages(0) && !decoding().empty()) retract(decoding().back());
    if (!has_pages(0) && chunk_) retract(chunk_);
  }

  // --- prompts

  bool prefill() {
    if ((full_ || waiting_.empty()) && !chunk_) return false;
    const std::size_t running_bs = running_.size();
    if (shape_.max_requests <= running_bs && !chunk_) {
      full_ = true;
      return false;
    }
    if (o_.mixed && !has_pages(pages_to_decode())) return false;
    calc_priority();
    const std::size_t mixed = o_.mixed ? running_bs : 0;
    rem_input_ = static_cast<std::int64_t>(std::min(o_.max_prefill_tokens, shape_.max_tokens)) -
                 static_cast<std::int64_t>(mixed);
    rem_chunk_.reset();
    if (o_.chunked_prefill_size > 0)
      rem_chunk_ = static_cast<std::int64_t>(std::min(o_.chunked_prefill_size, shape_.max_tokens)) -
                   static_cast<std::int64_t>(mixed);
    total_offset_ = 0;
    for (const Pointer& req : decoding())
      total_offset_ +=
          static_cast<double>(std::min<std::uint64_t>(req->ask.output_tokens - req->output, 4096)) * ratio_;
    const std::uint64_t kept = o_.mixed ? std::max<std::uint64_t>(mixed, pages_to_decode() * page_size()) : 0;
    total_offset_ += static_cast<double>(kept);
    cur_offset_ = static_cast<std::int64_t>(kept);
    memory_ = available();
    new_chunk_ = nullptr;
    if (chunk_ && !add_chunked()) return false;
    for (;;) {
      if (waiting_.empty() || full_) break;
      if (prompts_.size() + running_.size() >= shape_.max_requests) {
        full_ = true;
        break;
      }
      const Pointer req = waiting_.front();
      if (req->is_prefilled() || !add_one(req)) break;
    }
    if (prompts_.empty()) return false;
    chunk_ = new_chunk_;
    last_ = {prompts_, true, chunk_};
    prompts_.clear();
    if (o_.mixed) {
      std::erase_if(running_, [](const Pointer& req) { return req->heard_done; });
      for (const Pointer& req : decoding()) run_decode(req);
      last_.reqs.insert(last_.reqs.end(), running_.begin(), running_.end());
      running_.clear();
    }
    return true;
  }

  double rem_total() const { return static_cast<double>(memory_) - total_offset_; }
  void update_budget(std::uint64_t extend, std::uint64_t max_new) {
    const auto tokens = static_cast<std::int64_t>(paged(extend));
    total_offset_ += static_cast<double>(tokens) + static_cast<double>(max_new);
    cur_offset_ += tokens;
    rem_input_ -= tokens;
    if (rem_chunk_) *rem_chunk_ -= tokens;
  }
  std::uint64_t most_new(const Req& req) const {
    return std::min<std::uint64_t>(req.ask.output_tokens, 4096);
  }
  bool nothing_else() const { return prompts_.empty() && decoding().empty() && !unheard_ends(); }

  bool add_chunked() {
    const Pointer req = chunk_;
    double memory = rem_total();
    if (nothing_else())
      memory =
          static_cast<double>(available()) + static_cast<double>(req->table.size() * page_size() - req->kv);
    const auto rem = std::min(static_cast<std::int64_t>(std::floor(memory)), rem_chunk_.value_or(1 << 30));
    if (rem <= 0) return false;
    const std::uint64_t missing = req->known() - req->kv;
    const std::uint64_t extend = std::min<std::uint64_t>(missing, static_cast<std::uint64_t>(rem));
    const bool truncated = extend < missing;
    update_budget(extend, truncated ? 0 : most_new(*req));
    if (truncated) new_chunk_ = req;
    prompts_.push_back(req);
    run_prompt(req, extend);
    return true;
  }

  bool add_one(const Pointer& req) {
    const std::vector<std::uint64_t> pages = match(*req, req->known() - 1);
    const std::uint64_t extend = req->known() - pages.size() * page_size();
    const std::set<std::uint64_t> others = held();
    const auto in_use_too = static_cast<std::uint64_t>(
        std::ranges::count_if(pages, [&](std::uint64_t page) { return others.contains(page); }));
    const auto locked = static_cast<std::int64_t>((pages.size() - in_use_too) * page_size());
    const auto states = static_cast<std::int64_t>(shape_.kv.state_blocks * page_size());
    const double total = static_cast<double>(extend) + static_cast<double>(std::min<std::uint64_t>(
                                                           req->ask.output_tokens - req->output, 4096));
    const bool alone = nothing_else();
    const std::uint64_t last_pages = paged(final_tokens(req->ask)) / page_size() + shape_.kv.state_blocks;
    if (alone ? last_pages > pages_
              : total + static_cast<double>(states) + static_cast<double>(locked) >= rem_total()) {
      full_ = true;
      return false;
    }
    const auto input = static_cast<std::int64_t>(paged(extend));
    if (input >= rem_input_ && !prompts_.empty()) return false;
    std::uint64_t rows = extend;
    if (rem_chunk_ && input > *rem_chunk_) {
      std::int64_t cut = *rem_chunk_ <= 0 ? 0
                                          : *rem_chunk_ / static_cast<std::int64_t>(page_size()) *
                                                static_cast<std::int64_t>(page_size());
      if (cut == 0 && alone) cut = std::max<std::int64_t>(0, *rem_chunk_);
      if (cut == 0) return false;
      rows = std::min(extend, static_cast<std::uint64_t>(cut));
    }
    memory_ -= locked + states;
    update_budget(rows, rows < extend ? 0 : most_new(*req));
    start(req, pages, in_use_too);
    if (rows < extend) new_chunk_ = req;
    run_prompt(req, rows);
    if (rem_total() <= 0 || memory_ - cur_offset_ <= 0) {
      full_ = true;
      return false;
    }
    return rem_input_ > 0 && (!rem_chunk_ || *rem_chunk_ > 0);
  }

  void start(const Pointer& req, const std::vector<std::uint64_t>& pages, std::uint64_t in_use_too) {
    waiting_.pop_front();
    (req->again ? step_.restarted : step_.admitted).push_back(req->ask.id);
    req->retracted = false;
    for (const std::uint64_t page : pages) revive(page);
    req->table = pages;
    req->kv = pages.size() * page_size();
    req->most = std::max(req->most, req->kv);
    found += pages.size();
    found_in_use += in_use_too;
    // With one token missing it goes on where it was.
    if (req->output > 0 && req->kv + 1 == req->known()) req->recomputes = false;
    prompts_.push_back(req);
  }

  void run_prompt(const Pointer& req, std::uint64_t rows) {
    grow(*req, req->kv + rows);
    run(req, rows, req->recomputes || req->output == 0);
    ran_.back().of_prompt = true;
  }
  void run(const Pointer& req, std::uint64_t rows, bool prompt) {
    const bool produces = req->kv + rows == req->known();
    step_.shares.push_back({.request = req->ask.id,
                            .tokens = static_cast<std::uint32_t>(rows),
                            .context = static_cast<std::uint32_t>(req->kv),
                            .prompt = prompt,
                            .produces = produces});
    step_.rows += rows;
    for (std::uint64_t token = req->kv; token < req->kv + rows; ++token)
      step_.recomputed += token < req->most ? 1 : 0;
    if (produces && req->output + 1 == req->ask.output_tokens) step_.finished.push_back(req->ask.id);
    ran_.push_back({req, rows, false});
  }

  void calc_priority() {
    if (o_.schedule_policy == 2)
      std::stable_sort(waiting_.begin(), waiting_.end(), [](const Pointer& a, const Pointer& b) {
        return a->ask.output_tokens > b->ask.output_tokens;
      });
    if (!lpm_ || waiting_.size() > 128) return;
    std::map<Pointer, double> key;
    std::vector<Text> in_queue;
    for (const Pointer& req : waiting_) {
      const std::uint64_t matched = match(*req, req->known()).size() * page_size();
      key[req] = -static_cast<double>(matched);
      if (matched > 32) continue;
      const Text so_far(req->text.begin(), req->text.begin() + static_cast<std::ptrdiff_t>(req->known()));
      const bool shares = std::ranges::any_of(in_queue, [&](const Text& other) {
        const auto [at, end] = std::mismatch(so_far.begin(), so_far.end(), other.begin(), other.end());
        return at - so_far.begin() >= 32;
      });
      if (shares)
        key[req] = 1e18;
      else
        in_queue.push_back(so_far);
    }
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [&](const Pointer& a, const Pointer& b) { return key[a] < key[b]; });
  }

  // --- update_running_batch

  void decode() {
    const std::size_t size = running_.size(), dropped = step_.dropped.size();
    std::erase_if(running_, [](const Pointer& req) { return req->heard_done; });
    const bool filtered = running_.size() < size;
    if (filtered || running_.empty()) full_ = false;
    if (running_.empty() && chunk_ && !filtered) retract(chunk_);
    if (!decoding().empty()) {
      if (has_pages(pages_to_decode())) {
        ratio_ = std::max(ratio_ - (init_ratio_ - min_ratio_) / 600, min_ratio_);
      } else {
        full_ = false;
        if (!retract_decode()) return;
      }
    }
    if (step_.dropped.size() == dropped) admit_prefilled();
    for (const Pointer& req : decoding()) run_decode(req);
  }

  void run_decode(const Pointer& req) {
    grow(*req, req->kv + 1);
    run(req, 1, false);
  }

  bool retract_decode() {
    sort_for_retraction();
    while (decoding().size() > 1 && !has_pages(pages_to_decode())) retract(decoding().back());
    if (!has_pages(pages_to_decode())) {
      if (unheard_ends()) return false;
      if (chunk_) retract(chunk_);
      if (!has_pages(pages_to_decode())) retract(decoding().back());
      if (decoding().empty()) return false;
    }
    double made = 0, all = 0;
    for (const Pointer& req : decoding()) {
      made += static_cast<double>(req->output);
      all += req->ask.output_tokens;
    }
    ratio_ = std::min(1.0, (made + 20 * static_cast<double>(decoding().size())) / (all + 1));
    return true;
  }

  void admit_prefilled() {
    while (!waiting_.empty() && waiting_.front()->is_prefilled()) {
      const Pointer req = waiting_.front();
      const std::uint64_t wanted = paged(req->known()) / page_size() + shape_.kv.state_blocks;
      if (running_.size() + (chunk_ ? 1 : 0) >= shape_.max_requests) return;
      if (!has_pages(wanted + pages_to_decode())) return;
      double expected = 0;
      for (const Pointer& other : decoding())
        expected +=
            static_cast<double>(std::min<std::uint64_t>(other->ask.output_tokens - other->output, 4096)) *
            ratio_;
      if (o_.mixed)
        expected +=
            static_cast<double>(std::max<std::uint64_t>(running_.size(), pages_to_decode() * page_size()));
      const double needs = static_cast<double>(req->known()) + static_cast<double>(most_new(*req)) +
                           static_cast<double>(shape_.kv.state_blocks * page_size());
      const bool alone = decoding().empty() && !unheard_ends() && !chunk_;
      if (!alone && needs >= static_cast<double>(available()) - expected) return;
      waiting_.pop_front();
      step_.admitted.push_back(req->ask.id);
      running_.push_back(req);
      grow(*req, req->known());
    }
  }

  BatchingShape shape_;
  SglangOptions o_;
  bool lpm_ = false;
  std::uint64_t pages_, next_page_ = 0;
  double init_ratio_ = 0, min_ratio_ = 0, ratio_ = 0;
  bool full_ = false;
  std::deque<Pointer> waiting_;
  std::vector<Pointer> unseen_, running_, prompts_;
  Batch last_;
  Pointer chunk_, new_chunk_;
  std::map<Text, std::uint64_t> tree_;
  std::deque<std::uint64_t> plain_;
  std::deque<std::pair<std::uint64_t, Text>> idle_;  // in the tree and of no request, released first first
  std::vector<Ran> ran_;                             // in the step that is formed
  std::vector<Result> unheard_;                      // that the scheduler has not processed
  std::int64_t memory_ = 0, cur_offset_ = 0, rem_input_ = 0;
  std::optional<std::int64_t> rem_chunk_;
  double total_offset_ = 0;
  BatchStep step_;
};

}  // namespace moelab
