// Windows with pinned experts, substitution and an SSD behind them, written down a second time: as
// paged_reference.hpp a list of tasks, and beside it plain lists of what is pinned, of what the page cache
// has and of what has come. Shares with the simulator, besides what that file says, the routing policy and
// the profile of experts.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "policies/routing/routing.hpp"
#include "sim/scenario_trace.hpp"
#include "tests/sim/paged_reference.hpp"

namespace moelab::test {

struct NaiveWindowCounts {
  double ssd = 0, cached = 0;  // bytes
  std::uint64_t kept = 0, through_window = 0, substituted = 0;
  PrefetchCounts prefetch;
};

class NaiveWindow final : public NaiveServing {
 public:
  using Fetch = PagingConfig::Fetch;

  explicit NaiveWindow(const SmallRun& run)
      : NaiveServing(run),
        paging_(*run.system().paging),
        shape_(plan_.split.shape()),
        all_(static_cast<std::uint32_t>(run.scenario.model.moe().experts)),
        pins_(shape_.layers),
        used_(shape_.layers, std::vector<int>(all_, 0)) {
    if (run.system().routing.name != "model")
      routing_ = find_routing_policy(run.system().routing.name)->make(run.system().routing.parameters);
    pin_for_good();
  }
  NaiveWindowCounts counts;

  NaiveResult serve_all() {
    serve();
    const std::set<std::uint32_t> none;
    std::vector<std::size_t> needs;
    for (Half& half : halves_)  // what comes for a step that never is
      if (half.layer >= 0) settle(half, none, needs);
    return result_;
  }

 private:
  struct Coming {
    std::uint32_t expert;
    std::vector<std::size_t> tasks;
    std::size_t read = ~std::size_t{0};  // of the SSD
    double decoded = 0, loaded = 0;      // bytes, if it comes
    bool cached = false;                 // by the page cache
  };
  struct Half {
    int layer = -1;
    std::vector<Coming> coming;
    std::vector<std::size_t> before;  // tasks left over by layers before
  };

  void pin_for_good() {
    const std::string& policy = run_.system().cache.name;
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) {
      std::vector<std::uint32_t> order(all_);
      std::iota(order.begin(), order.end(), 0U);
      if (policy == "fixed-popular") {
        const std::vector<double> uses = expert_profile(run_.scenario, run_.trace);
        std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
          return uses[layer * all_ + a] > uses[layer * all_ + b];
        });
      }
      if (policy.starts_with("fixed")) pins_[layer].assign(order.begin(), order.begin() + paging_.pinned);
    }
  }
  bool pinned(std::uint32_t layer, std::uint32_t expert) const {
    return std::find(pins_[layer].begin(), pins_[layer].end(), expert) != pins_[layer].end();
  }
  /// Backend by number, those that are pinned for good not counted.
  std::size_t stored_on(std::uint32_t layer, std::uint32_t expert) const {
    const bool for_good = run_.system().cache.name.starts_with("fixed");
    std::uint32_t place = 0;
    for (std::uint32_t e = 0; e < expert; ++e) place += for_good && pinned(layer, e) ? 0 : 1;
    std::uint32_t end = 0;
    for (std::size_t k = 0;; ++k)
      if (place < (end += plan_.split.experts(layer, k))) return k;
  }
  bool is_on(std::uint32_t layer, std::uint32_t expert, const char* backend) const {
    return shape_.backends[stored_on(layer, expert)].name == backend;
  }
  bool kept(std::uint32_t layer, std::uint32_t expert) const {
    return pinned(layer, expert) || is_on(layer, expert, "resident");
  }

  /// Whether the page cache has it; afterwards it does, the one that was read first of all leaving.
  bool read_finds(std::uint32_t layer, std::uint32_t expert) {
    if (!run_.system().page_cache) return false;
    const std::pair<std::uint32_t, std::uint32_t> id{layer, expert};
    const auto at = std::find(pages_.begin(), pages_.end(), id);
    const bool found = at != pages_.end();
    if (found) pages_.erase(at);
    const auto room = static_cast<std::size_t>(plan_.memory.page_cache.value() / shape_.expert_bytes + 1e-9);
    if (room == 0) return false;
    if (pages_.size() == room) pages_.pop_front();
    pages_.push_back(id);
    return found;
  }

  std::size_t remap(double bytes, int urgency, std::vector<std::size_t>& needs) {
    if (!run_.scenario.device.gpu->remap) return ~std::size_t{0};
    const std::size_t task = add(kRemaps, times_.timing().remap(Bytes(bytes)).value(), needs, urgency);
    needs = {task};
    return task;
  }
  double reads_s(double bytes) const {
    return times_.timing().ssd_read(Bytes(bytes * run_.scenario.tensor_parallel)).value();
  }
  double crosses_s(double bytes) const { return times_.timing().load(Bytes(bytes)).value(); }

  // A layer at once, each tensor type of it: what is on the SSD in eighths, of which one crosses the link
  // while the next is read.
  void load(std::uint32_t layer) override {
    if (paging_.fetch == Fetch::used) return;
    if (paging_.fetch == Fetch::ahead) return load_one_by_one(layer);
    if (window_.count(layer) > 0) return;
    std::vector<double> experts(shape_.backends.size(), 0);
    double found = 0, streamed = 0;
    for (std::uint32_t e = 0; e < all_; ++e) {
      if (kept(layer, e)) continue;
      experts[stored_on(layer, e)] += 1;
      streamed += 1;
      if (is_on(layer, e, "ssd") && read_finds(layer, e)) found += 1;
    }
    if (streamed == 0) return;
    ++group_;
    std::vector<std::size_t>& tasks = window_[layer];
    const int matrices = run_.scenario.model.moe().matrices;
    for (const int of_type : {matrices - 1, 1}) {
      const double part = shape_.expert_bytes * of_type / matrices;
      std::vector<std::size_t> mapped;
      if (const std::size_t task = remap(streamed * part, 1, mapped); task != ~std::size_t{0})
        tasks.push_back(task);
      for (std::size_t k = 0; k < experts.size(); ++k) {
        if (experts[k] == 0) continue;
        const double bytes = experts[k] * part;
        if (plan_.codecs[k] != nullptr) {
          const double seconds = bytes / plan_.codecs[k]->rate.value.value();
          tasks.push_back(add(kDecodes, seconds, mapped, 1, seconds));
          result_.decoded += bytes;
          continue;
        }
        result_.loaded += bytes;
        const bool ssd = shape_.backends[k].name == "ssd";
        const double from_host = ssd ? found * part : bytes, read = bytes - from_host;
        if (from_host > 0) tasks.push_back(add(kLinkIn, crosses_s(from_host), mapped, 1));
        for (int piece = 0; piece < 8 && ssd && experts[k] > found; ++piece) {
          const std::size_t done = add(kReads, reads_s(read / 8), mapped, 1);
          tasks.push_back(done);
          tasks.push_back(add(kLinkIn, crosses_s(read / 8), {done}, 1));
        }
        if (ssd) counts.ssd += read, counts.cached += from_host;
      }
    }
  }

  Coming bring(std::uint32_t layer, std::uint32_t expert, int urgency, std::vector<std::size_t> needs) {
    Coming c{expert, {}};
    if (const std::size_t task = remap(shape_.expert_bytes, urgency, needs); task != ~std::size_t{0})
      c.tasks.push_back(task);
    const std::size_t k = stored_on(layer, expert);
    if (plan_.codecs[k] != nullptr) {
      const double seconds = shape_.expert_bytes / plan_.codecs[k]->rate.value.value();
      c.tasks.push_back(add(kDecodes, seconds, needs, urgency, seconds));
      c.decoded = shape_.expert_bytes;
      return c;
    }
    c.loaded = shape_.expert_bytes;
    if (shape_.backends[k].name == "ssd" && !read_finds(layer, expert)) {
      c.read = add(kReads, reads_s(shape_.expert_bytes), needs, urgency);
      c.tasks.push_back(c.read);
      needs = {c.read};
    } else {
      c.cached = shape_.backends[k].name == "ssd";
    }
    c.tasks.push_back(add(kLinkIn, crosses_s(shape_.expert_bytes), needs, urgency));
    return c;
  }

  // Those used in most steps first.
  void load_one_by_one(std::uint32_t layer) {
    if (half_of(layer) != nullptr) return;
    Half& half = halves_[0].layer < 0 ? halves_[0] : halves_[1];
    REQUIRE(half.layer < 0);
    half.layer = static_cast<int>(layer);
    half.coming.clear();
    std::vector<std::uint32_t> order;
    for (std::uint32_t e = 0; e < all_; ++e)
      if (!kept(layer, e)) order.push_back(e);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return used_[layer][a] > used_[layer][b]; });
    for (const std::uint32_t e : order) {
      ++group_;
      half.coming.push_back(bring(layer, e, 1, half.before));
    }
  }
  Half* half_of(std::uint32_t layer) {
    for (Half& half : halves_)
      if (half.layer == static_cast<int>(layer)) return &half;
    return nullptr;
  }
  bool has_come(const Coming& c) const {
    return std::all_of(c.tasks.begin(), c.tasks.end(), [&](std::size_t t) { return machine_.done(t); });
  }
  bool has_begun(const Coming& c) const {
    return std::any_of(c.tasks.begin(), c.tasks.end(),
                       [&](std::size_t t) { return machine_.tasks[t].start >= 0; });
  }

  /// Experts that the rows use, as the model or the routing policy has it.
  std::set<std::uint32_t> uses(std::uint32_t layer, const NaiveStep& n) {
    std::set<std::uint32_t> used;
    if (!routing_) {
      for (const std::uint64_t row : n.trace_rows)
        for (const std::uint16_t e : run_.trace.experts_of(row, layer))
          if (e != kNoExpert) used.insert(e);
      return used;
    }
    std::vector<std::uint8_t> at_hand(all_, 0);
    for (std::uint32_t e = 0; e < all_; ++e) at_hand[e] = kept(layer, e) ? 1 : 0;
    if (const Half* half = half_of(layer); half != nullptr)
      for (const Coming& c : half->coming)
        if (has_come(c)) at_hand[c.expert] = 1;
    std::vector<std::vector<float>> scores;
    std::vector<TokenGate> tokens;
    scores.reserve(n.trace_rows.size());
    for (const std::uint64_t row : n.trace_rows) {
      if (run_.trace.experts_of(row, layer)[0] == kNoExpert) continue;
      run_.trace.router_scores_of(row, layer, scores.emplace_back(all_));
      tokens.push_back({run_.trace.experts_of(row, layer), scores.back()});
    }
    StepRouting routed;
    routing_->route(tokens, at_hand, routed);
    for (const std::uint16_t e : routed.experts) used.insert(e);
    if (n.prompt < n.rows)  // not of prompts alone
      for (const TokenRouting& token : routed.tokens) counts.substituted += token.substituted;
    return used;
  }

  /// What the gate did not choose goes, but for what is under way; the rest first.
  void settle(Half& half, const std::set<std::uint32_t>& used, std::vector<std::size_t>& needs) {
    for (Coming& c : half.coming) {
      const bool wanted = used.count(c.expert) > 0, come = has_come(c);
      PrefetchCounts& p = counts.prefetch;
      if (wanted || has_begun(c)) ++p.fetched;
      if (wanted) ++(come ? p.used : p.late);
      if (!wanted) ++(has_begun(c) ? p.unused : p.cancelled);
      for (const std::size_t t : c.tasks)
        if (wanted)
          machine_.tasks[t].urgency = 0, needs.push_back(t);
        else
          machine_.cancel(t);
      if (!wanted && c.read != ~std::size_t{0} && machine_.tasks[c.read].end == 0 && run_.system().page_cache)
        std::erase(pages_, std::pair{static_cast<std::uint32_t>(half.layer), c.expert});
      count(c);
    }
  }
  void count(const Coming& c) {
    const auto ran = [&](std::size_t t) { return machine_.tasks[t].end != 0; };
    const std::size_t last = c.tasks.back();
    result_.decoded += ran(last) ? c.decoded : 0;
    const bool read = c.read != ~std::size_t{0} && ran(c.read);
    result_.loaded += read || ran(last) ? c.loaded : 0;
    counts.ssd += read ? shape_.expert_bytes : 0;
    counts.cached += c.cached && ran(last) ? shape_.expert_bytes : 0;
  }

  void keep(std::uint32_t layer, const std::set<std::uint32_t>& used) {
    const std::string& policy = run_.system().cache.name;
    std::vector<std::uint32_t>& pins = pins_[layer];
    for (const std::uint32_t e : used) {
      ++used_[layer][e];
      if (paging_.pinned == 0 || policy.starts_with("fixed") || is_on(layer, e, "resident")) continue;
      const auto at = std::find(pins.begin(), pins.end(), e);
      if (at != pins.end() && policy == "fifo") continue;
      if (at != pins.end())
        pins.erase(at);
      else if (pins.size() == paging_.pinned)
        pins.erase(pins.begin());
      pins.push_back(e);
    }
  }

  void run_layer(std::size_t i, const NaiveStep& n, const std::vector<int>& moe_number) override {
    const Layer& layer = run_.scenario.model.layers[i];
    if (moe_number[i] >= 0) load(static_cast<std::uint32_t>(moe_number[i]));
    for (std::size_t ahead = 1; ahead < moe_number.size(); ++ahead)
      if (const int next = moe_number[(i + ahead) % moe_number.size()]; next >= 0) {
        load(static_cast<std::uint32_t>(next));
        break;
      }
    ++group_;
    std::vector<std::size_t> before;
    if (run_.system().host_per_layer > Seconds(0))
      before = {add(kHostRuns, run_.system().host_per_layer.value(), {})};
    before = {add_kernel(times_.dense(layer, n), before)};
    const double reduce = times_.all_reduce(n);
    if (reduce > 0) before = {add(kReduces, reduce, before)};
    if (moe_number[i] >= 0)
      if (const auto loading = window_.find(static_cast<std::uint32_t>(moe_number[i]));
          loading != window_.end())
        for (const std::size_t task : loading->second) machine_.tasks[task].urgency = 0;
    machine_.run(before);
    if (moe_number[i] < 0) {
      if (reduce > 0) machine_.run({add(kReduces, reduce, before)});
      return;
    }
    run_experts(layer, static_cast<std::uint32_t>(moe_number[i]), n, reduce, before);
  }

  void run_experts(const Layer& layer, std::uint32_t number, const NaiveStep& n, double reduce,
                   std::vector<std::size_t> before) {
    const std::set<std::uint32_t> used = uses(number, n);
    for (const std::uint32_t e : used) ++(kept(number, e) ? counts.kept : counts.through_window);
    if (paging_.fetch != Fetch::layer) ++group_;
    std::vector<std::size_t>& needs = before;
    if (const auto loading = window_.find(number); loading != window_.end())
      needs.insert(needs.end(), loading->second.begin(), loading->second.end());
    Half* const half = half_of(number);
    if (half != nullptr) settle(*half, used, needs);
    for (const std::uint32_t e : used) {
      if (paging_.fetch != Fetch::used || kept(number, e)) continue;
      const Coming c = bring(number, e, 0, {});
      needs.insert(needs.end(), c.tasks.begin(), c.tasks.end());
      count(c);
    }
    before = {add_kernel(times_.experts(layer, static_cast<double>(used.size()), n), needs)};
    window_.erase(number);
    if (reduce > 0) before = {add(kReduces, reduce, before)};
    machine_.run(before);
    keep(number, used);
    if (half == nullptr) return;
    half->layer = -1;
    std::erase_if(half->before, [&](std::size_t t) { return machine_.done(t); });
    for (const Coming& c : half->coming)
      for (const std::size_t t : c.tasks)
        if (!machine_.done(t)) half->before.push_back(t);
  }

  const PagingConfig& paging_;
  const StorageShape& shape_;
  std::uint32_t all_;
  std::unique_ptr<RoutingPolicy> routing_;
  std::vector<std::vector<std::uint32_t>> pins_;  // by layer; of policies that learn, who leaves first
  std::vector<std::vector<int>> used_;            // by layer and expert: steps
  std::deque<std::pair<std::uint32_t, std::uint32_t>> pages_;  // read last at the end
  std::array<Half, 2> halves_;
};

}  // namespace moelab::test
