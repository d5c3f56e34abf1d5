// The serving loop with cached experts, written down a second time: requests, batches, caches and what waits
// for what, a layer at a time, without graphs, engine or policies. It shares with the simulator what a kernel
// or a transfer takes (the timing model) and how much memory there is (the plan).
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <limits>
#include <vector>

#include "sim/serving/memory_plan.hpp"
#include "sim/serving/served_request.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/discrete_cases.hpp"
#include "tests/sim/paged_reference.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::naive_loop_test {

using namespace moelab::test;

namespace {

constexpr std::uint32_t kMostRows = 64;  // of a step of requests that come and go

/// Random systems that store whole tensors and load on demand what `cache` lacks.
/// `drafts`: with speculative decoding.
SmallRun random_loop(std::uint64_t seed, bool drafts) {
  Random random(seed);
  SmallRun run;
  Scenario& s = run.scenario;
  ModelShape shape;
  shape.moe_layers = static_cast<int>(from(random, 1, 3));
  shape.dense_layers = static_cast<int>(from(random, 0, 1));
  shape.experts = static_cast<int>(from(random, 2, 10));
  shape.top_k = static_cast<int>(from(random, 1, static_cast<std::uint32_t>(std::min(shape.experts, 3))));
  shape.matrices = static_cast<int>(from(random, 2, 3));
  shape.shared_width = coin(random) ? 48 : 0;
  s.name = "random";
  s.seed = seed;
  s.model = small_model(shape);
  s.device = coin(random) ? small_device() : small_discrete_device();
  if (coin(random)) s.device.cpu.dispatch.value = Seconds(1e-6);
  if (coin(random)) s.device.gpu->launch.value = Seconds(1e-5 * random.uniform());
  s.workload.batch = from(random, 1, 3);
  s.workload.trace_file = "made up";
  if (coin(random)) s.workload.arrivals_per_s = 200 * random.uniform() + 1;
  SystemConfig system = plain_system();
  constexpr std::array<const char*, 3> kCaches{"none", "lru", "fifo"};
  system.cache.name = kCaches[random.below(kCaches.size())];
  if (coin(random)) system.host_per_layer = Seconds(1e-5 * from(random, 0, 3));
  if (coin(random)) system.host_per_pass = Seconds(1e-5 * from(random, 0, 3));
  if (coin(random)) system.host_per_expert = Seconds(1e-6 * from(random, 0, 3));
  if (coin(random))
    system.batching = BatchingConfig{{"continuous", {{"chunked", 0}, {"watermark", 0}}}, kMostRows};
  system.kv.block_tokens = 1;
  s.systems.push_back(system);
  std::vector<Lengths> lengths;
  for (std::uint32_t i = from(random, 1, 6); i > 0; --i)
    lengths.push_back({from(random, 1, 6), from(random, 1, 10)});
  run.trace = random_trace(random, s.model, lengths, false, coin(random));
  if (drafts) s.speculation = random_speculation(random);
  give_room(run, random.uniform() * 1.2 * shape.experts);
  return run;
}

class NaiveLoop {
 public:
  explicit NaiveLoop(const SmallRun& run)
      : run_(run),
        system_(run.system()),
        times_(run),
        requests_(served_requests(run.scenario, run.trace)),
        memory_(plan_memory(run.scenario, system_, run.costs(), run.trace)),
        held_(run.trace.layers()) {
    const double of_layer = memory_.expert_cache.value() / run.trace.layers();
    places_ = static_cast<std::size_t>(of_layer / expert_bytes(run.scenario.model).value() * (1 + 1e-12));
    if (system_.cache.name == "none") places_ = 0;
    room_ = std::min<std::size_t>(run.scenario.model.moe().experts,
                                  std::size_t{1} * run.scenario.model.moe().top_k *
                                      run.scenario.workload.batch * (1 + run.scenario.speculation.tokens));
    rows_run_.assign(requests_.size(), 0);
  }

  void serve() {
    for (std::size_t answered = 0; answered < requests_.size();) {
      const std::vector<std::size_t> ids = next_step();
      if (ids.empty()) {
        now_ = requests_[came_].arrival_s;
        continue;
      }
      run_step(ids);
      for (const std::size_t id : ids) answered += count_token(id) ? 1 : 0;
    }
  }

  std::vector<double> ttft_s, gaps_s, end_to_end_s;
  double wall_s() const { return now_; }
  std::uint64_t loaded = 0;

 private:
  struct Running {
    std::size_t id;
    bool prompt = true;  // has not run
  };

  /// Requests whose prompts run, or else one row each of those that decode. Batches that come in turn come
  /// when they are taken.
  std::vector<std::size_t> next_step() {
    while (came_ < requests_.size() && requests_[came_].arrival_s <= now_) waiting_.push_back(came_++);
    const bool joins = system_.batching.has_value();  // else a batch is taken when the last one is done
    std::uint64_t rows = 0;
    if (joins || running_.empty())
      while (!waiting_.empty() && running_.size() < run_.scenario.workload.batch) {
        rows += requests_[waiting_.front()].prompt_tokens;
        if (joins && rows > kMostRows) break;
        if (come_in_turn(run_.scenario, system_)) requests_[waiting_.front()].arrival_s = now_;
        running_.push_back({waiting_.front()});
        waiting_.pop_front();
      }
    const bool prompts =
        std::any_of(running_.begin(), running_.end(), [](const Running& r) { return r.prompt; });
    std::vector<std::size_t> ids;
    for (Running& r : running_)
      if (r.prompt == prompts) ids.push_back(r.id);
    if (prompts)
      for (Running& r : running_) r.prompt = false;
    return ids;
  }

  /// As many as there are tokens left behind the one that is known.
  std::uint32_t drafts_of_step(const ServedRequest& q, std::uint64_t rows) const {
    const std::uint64_t produced = rows - q.prompt_tokens + 1;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(run_.scenario.speculation.tokens, q.output_tokens - produced - 1));
  }
  bool is_accepted(std::size_t id, std::uint64_t context) const {
    return drafts_of(run_.scenario)
               .accepted(static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(context), 1) == 1;
  }

  void run_step(const std::vector<std::size_t>& ids) {
    NaiveStep step;
    for (const std::size_t id : ids) {
      const ServedRequest& q = requests_[id];
      const bool prompt = rows_run_[id] == 0;
      const std::uint64_t begin = rows_run_[id];
      const auto drafted = prompt ? 0 : drafts_of_step(q, begin);
      for (std::uint32_t left = prompt ? q.prompt_tokens : 1 + drafted; left > 0; --left) {
        const auto row = rows_run_[id]++;
        (prompt ? step.prompt : step.decoding) += 1;
        (prompt ? step.prompt_context : step.context).push_back(static_cast<double>(row) + 1);
        step.trace_rows.push_back(q.first_row + row);
      }
      step.produces += 1;
      for (std::uint32_t i = 1; i <= drafted; ++i) draft_after(step, i, static_cast<double>(begin) + i);
      std::uint32_t accepted = 0;
      while (accepted < drafted && is_accepted(id, begin + accepted)) ++accepted;
      rows_run_[id] -= drafted - accepted;  // what was refused is not there
    }
    step.rows = step.prompt + step.decoding;
    now_ += naive_drafting(run_, step).seconds;
    std::uint32_t moe_layer = 0;
    for (const Layer& layer : run_.scenario.model.layers) {
      now_ += system_.host_per_layer.value() + times_.dense(layer, step).seconds;
      if (layer.feed_forward.kind == FeedForward::Kind::moe) run_experts(layer, moe_layer++, step);
    }
    now_ += system_.host_per_pass.value() + times_.head(step).seconds;
  }

  void run_experts(const Layer& layer, std::uint32_t moe_layer, const NaiveStep& step) {
    std::map<std::uint32_t, std::uint32_t> uses;  // rows by expert
    for (const std::uint64_t row : step.trace_rows)
      for (const std::uint16_t e : run_.trace.experts_of(row, moe_layer))
        if (e != kNoExpert) ++uses[e];
    const double shared = layer.feed_forward.shared_width > 0
                              ? times_.kernel(dense_work(run_.scenario.model, layer, step.rows)).seconds
                              : 0;
    now_ += seconds_of(moe_layer, uses, shared, step.rows == 1) +
            static_cast<double>(uses.size()) * system_.host_per_expert.value();
    for (const auto& [expert, rows] : uses) keep(moe_layer, expert);
  }

  struct Expert {
    double executes = 0;
    bool read = false;  // first
    double ready = 0, end = kNever;
  };
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Of a layer's experts: in their order, but on a discrete GPU those that are there first.
  double seconds_of(std::uint32_t moe_layer, const std::map<std::uint32_t, std::uint32_t>& uses,
                    double shared, bool single) {
    const TimingModel& timing = times_.timing();
    const std::deque<std::uint32_t>& kept = held_[moe_layer];
    std::vector<Expert> experts;
    for (const auto& [id, rows] : uses) {
      const Seconds executes =
          timing.expert(run_.scenario.model, run_.scenario.model.moe(), rows, single) + timing.dispatch();
      const bool here = std::find(kept.begin(), kept.end(), id) != kept.end();
      experts.push_back({executes.value(), !here});
      loaded += here ? 0 : 1;
    }
    if (run_.scenario.device.is_discrete())
      std::stable_sort(experts.begin(), experts.end(),
                       [](const Expert& a, const Expert& b) { return a.read < b.read; });
    const double tensor = run_.costs().timing.sm_read_s + timing.dispatch().value();
    return end_of_layer(experts, tensor * run_.scenario.model.moe().matrices, shared);
  }

  /// The stream executes the first expert that is ready, or waits for the one that is so next. One read
  /// follows the other, each for an expert that there is room for: the one `room_` reads before it has been
  /// executed.
  double end_of_layer(std::vector<Expert>& experts, double read, double shared) const {
    std::vector<Expert*> reads;
    for (Expert& e : experts)
      if (e.read) reads.push_back(&e), e.ready = kNever;
    double stream = shared, reader = 0;
    std::size_t begun = 0;
    for (std::size_t executed = 0; executed < experts.size(); ++executed) {
      for (; begun < reads.size() && (begun < room_ || reads[begun - room_]->end < kNever); ++begun) {
        if (begun >= room_) reader = std::max(reader, reads[begun - room_]->end);
        reads[begun]->ready = reader += read;
      }
      Expert* next = nullptr;
      for (Expert& e : experts)
        if (e.end == kNever && (next == nullptr || std::max(e.ready, stream) < std::max(next->ready, stream)))
          next = &e;
      stream = next->end = std::max(stream, next->ready) + next->executes;
    }
    return stream;
  }

  void keep(std::uint32_t moe_layer, std::uint32_t expert) {
    std::deque<std::uint32_t>& kept = held_[moe_layer];
    const auto at = std::find(kept.begin(), kept.end(), expert);
    if (at != kept.end()) {
      if (system_.cache.name == "fifo") return;
      kept.erase(at);
    }
    if (places_ == 0) return;
    if (kept.size() == places_) kept.pop_front();
    kept.push_back(expert);
  }

  /// Whether it is answered.
  bool count_token(std::size_t id) {
    const ServedRequest& q = requests_[id];
    const bool first = rows_run_[id] == q.prompt_tokens;
    if (first)
      ttft_s.push_back(now_ - q.arrival_s);
    else
      gaps_s.push_back(now_ - last_token_[id]);
    last_token_[id] = now_;
    if (rows_run_[id] + 1 < std::uint64_t{q.prompt_tokens} + q.output_tokens) return false;
    end_to_end_s.push_back(now_ - q.arrival_s);
    std::erase_if(running_, [&](const Running& r) { return r.id == id; });
    return true;
  }

  const SmallRun& run_;
  const SystemConfig& system_;
  NaiveTimes times_;
  std::vector<ServedRequest> requests_;
  MemoryPlan memory_;
  std::vector<std::deque<std::uint32_t>> held_;  // by layer, who leaves next first
  std::size_t places_ = 0, room_ = 0, came_ = 0;
  std::deque<std::size_t> waiting_;
  std::vector<Running> running_;
  std::vector<std::uint64_t> rows_run_;
  std::map<std::size_t, double> last_token_;
  double now_ = 0;
};

void check_equal(std::vector<double> simulated, std::vector<double> naive) {
  std::sort(simulated.begin(), simulated.end());
  std::sort(naive.begin(), naive.end());
  REQUIRE(simulated.size() == naive.size());
  for (std::size_t i = 0; i < naive.size(); ++i)
    CHECK(simulated[i] == Approx(naive[i]).epsilon(1e-9).margin(1e-12));
}

}  // namespace

TEST_CASE("naive loop: every run with cached experts takes as long as a second simulation says") {
  const bool drafts = GENERATE(false, true);
  std::uint64_t loaded = 0;
  int met = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(3000u); ++seed) {
    const SmallRun run = random_loop(seed, drafts);
    INFO("seed " << seed << (drafts ? " with drafts" : ""));
    const RunResult r = run.run();
    if (r.memory.shortfall > Bytes(0)) continue;  // its KV cache in blocks takes more than the budget has
    NaiveLoop naive(run);
    naive.serve();
    CHECK(r.metrics.wall_s == Approx(naive.wall_s()).epsilon(1e-9));
    check_equal(r.metrics.ttft_s, naive.ttft_s);
    check_equal(r.metrics.token_gaps_s, naive.gaps_s);
    check_equal(r.metrics.end_to_end_s, naive.end_to_end_s);
    CHECK(r.metrics.hits[index(State::M)] == naive.loaded);
    loaded += naive.loaded;
    met += run.system().batching && run.scenario.workload.arrivals_per_s > 0 ? 1 : 0;
  }
  CHECK(loaded > 0);
  CHECK(met > moelab::test::random_runs(300));
}

}  // namespace moelab::naive_loop_test
