#include "policies/execution/execution.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "models/input_error.hpp"
#include "tests/policies/random_numbers.hpp"
#include "tests/random_runs.hpp"

namespace moelab::execution_test {

using namespace moelab::test;

namespace {

using Missing = std::vector<MissingExpert>;
using Positions = std::vector<std::uint32_t>;
constexpr Assignment kLoad = Assignment::load, kCpu = Assignment::cpu;

std::unique_ptr<ExecutionPolicy> make(std::string_view name, const PolicyParameters& parameters = {}) {
  const ExecutionPolicyEntry* const entry = find_execution_policy(name);
  REQUIRE(entry != nullptr);
  return entry->make(parameters);
}

struct Layer {
  Missing missing;
  double load_s = 1;
  std::vector<double> cpu_s;
  double gpu_s = 0;
  std::uint32_t step_tokens = 1, on_gpu = 0;

  ExecutionCosts costs() const { return {load_s, cpu_s, gpu_s, step_tokens, on_gpu}; }
  ExecutionPlan plan(ExecutionPolicy& policy) const {
    ExecutionPlan plan;
    policy.plan(missing, costs(), plan);
    return plan;
  }
  ExecutionPlan plan(std::string_view policy) const { return plan(*make(policy)); }
};

/// 0 to `most` experts of 1 to 6 tokens, few distinct scores, small whole times: ties are common.
Layer random_layer(Random& random, std::uint32_t most) {
  Layer layer;
  const std::uint32_t experts = below(random, most + 1), alike = below(random, 3);
  for (std::uint32_t i = 0, expert = 0; i < experts; ++i, expert += 1 + below(random, 3))
    layer.missing.push_back({.expert = expert,
                             .score = static_cast<float>(below(random, 8)) / 8,
                             .tokens = alike == 0 ? 1 : 1 + below(random, 6)});
  layer.load_s = 1 + below(random, 12);
  layer.cpu_s = {0};
  const bool flat = below(random, 3) == 0;  // "stable CPU times across low-batch sizes"
  const double first = 1 + below(random, 12), slope = flat ? 0 : below(random, 4);
  for (std::uint32_t tokens = 1; tokens <= 6; ++tokens) layer.cpu_s.push_back(first + slope * (tokens - 1));
  layer.gpu_s = below(random, 3);
  return layer;
}

/// When link and CPU are done, with each expert's own CPU time.
double finish(const Layer& layer, const std::vector<Assignment>& places) {
  double link = 0, cpu = 0;
  for (std::size_t i = 0; i < places.size(); ++i)
    (places[i] == kLoad ? link : cpu) +=
        places[i] == kLoad ? layer.load_s : layer.cpu_s[layer.missing[i].tokens];
  return std::max(link, cpu);
}

/// The least finish of all 2^n assignments.
double least_finish(const Layer& layer) {
  const std::size_t n = layer.missing.size();
  double least = std::numeric_limits<double>::infinity();
  std::vector<Assignment> places(n);
  for (std::uint32_t set = 0; set < 1U << n; ++set) {
    for (std::size_t i = 0; i < n; ++i) places[i] = (set >> i & 1) != 0 ? kLoad : kCpu;
    least = std::min(least, finish(layer, places));
  }
  return least;
}

bool lists_everything_once(const Layer& layer, const ExecutionPlan& plan) {
  Positions all = plan.loads;
  all.insert(all.end(), plan.cpu.begin(), plan.cpu.end());
  std::sort(all.begin(), all.end());
  Positions expected(layer.missing.size());
  std::iota(expected.begin(), expected.end(), 0U);
  const auto is = [&](Assignment place) {
    return [&plan, place](std::uint32_t i) { return plan.places[i] == place; };
  };
  return all == expected && plan.places.size() == all.size() &&
         std::all_of(plan.loads.begin(), plan.loads.end(), is(kLoad)) &&
         std::all_of(plan.cpu.begin(), plan.cpu.end(), is(kCpu));
}

/// The best of those left, by linear search: the first of equals.
template <class Better>
std::uint32_t best_of(const Positions& left, Better better) {
  std::uint32_t best = left.front();
  for (const std::uint32_t position : left)
    if (better(position, best)) best = position;
  return best;
}

void move_to(Positions& order, std::uint32_t position, Positions& left) {
  order.push_back(position);
  left.erase(std::find(left.begin(), left.end(), position));
}

struct Ratios {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double ratio) {
    sum += ratio;
    worst = std::max(worst, ratio);
    ++count;
  }
  double mean() const { return sum / count; }
};

}  // namespace

TEST_CASE("execution table: names are unique and found, the null member is there") {
  std::set<std::string_view> names;
  for (const ExecutionPolicyEntry& entry : execution_policies()) {
    CHECK(names.insert(entry.info.name).second);
    CHECK(find_execution_policy(entry.info.name) == &entry);
    CHECK_FALSE(entry.info.help.empty());
    CHECK_FALSE(entry.info.source.empty());
    CHECK(entry.needs_scores == (entry.info.name == "cpu-assisted" || entry.info.name == "hybrimoe-code"));
    CHECK(entry.needs_cpu == (entry.info.name != "gpu-only"));
  }
  CHECK(names == std::set<std::string_view>{"cpu-assisted", "cpu-only", "fiddler", "gpu-only", "hybrimoe",
                                            "hybrimoe-code"});
  CHECK(find_execution_policy("remote") == nullptr);
  for (const double p : {0.0, 2.5, -1.0}) CHECK_THROWS_AS(make("cpu-assisted", {{"p", p}}), InputError);
  for (const char* const time : {"gpu", "move", "cpu", "cpu_first"})
    CHECK_THROWS_AS(make("hybrimoe-code", {{time, -1}}), InputError);
}

TEST_CASE("execution: every policy gives every expert to one side, once, whatever it planned before") {
  Random random(1);
  std::vector<std::unique_ptr<ExecutionPolicy>> reused;
  for (const ExecutionPolicyEntry& entry : execution_policies()) reused.push_back(entry.make({}));
  for (int instance = 0; instance < moelab::test::random_runs(5000); ++instance) {
    const Layer layer = random_layer(random, 12);
    for (std::size_t p = 0; p < reused.size(); ++p) {
      const ExecutionPlan plan = layer.plan(*reused[p]);
      INFO(execution_policies()[p].info.name << ", instance " << instance);
      REQUIRE(lists_everything_once(layer, plan));
      REQUIRE(plan == layer.plan(execution_policies()[p].info.name));
    }
  }
}

TEST_CASE("gpu-only loads all, best score first; cpu-only loads nothing") {
  Layer layer;
  layer.missing = {{2, 0.1F, 1}, {5, 0.7F, 1}, {6, 0.1F, 1}, {9, 0.3F, 1}};
  CHECK(layer.plan("gpu-only").loads == Positions{1, 3, 0, 2});
  CHECK(layer.plan("cpu-only").cpu == Positions{0, 1, 2, 3});
  const auto streaming = make("cpu-only", {{"stream_from", 32}});
  layer.step_tokens = 31;
  CHECK(layer.plan(*streaming).cpu == Positions{0, 1, 2, 3});
  layer.step_tokens = 32;
  CHECK(layer.plan(*streaming).loads == Positions{0, 1, 2, 3});
}

TEST_CASE("cpu-assisted: Algorithm 2 by hand") {
  // Scores 5 4 3 2 1 at positions 3 0 4 1 2; a load takes 3, the CPU 2.
  //   T_load 0 <= T_CPU 0: load 3 (T_load 3); 3 > 0: CPU 2 (T_CPU 2); 3 > 2: CPU 1 (4); 3 <= 4: load 0 (6);
  //   6 > 4: CPU 4 (6).
  Layer layer;
  layer.load_s = 3;
  layer.cpu_s = {0, 2};
  layer.missing = {{0, 4, 1}, {1, 2, 1}, {2, 1, 1}, {3, 5, 1}, {4, 3, 1}};
  const ExecutionPlan plan = layer.plan("cpu-assisted");
  CHECK(plan.loads == Positions{3, 0});
  CHECK(plan.cpu == Positions{2, 1, 4});
  CHECK(plan.places == std::vector{kLoad, kCpu, kCpu, kLoad, kCpu});
}

TEST_CASE("cpu-assisted: C_load is the mean of the last p loads, C_CPU that of the step's experts") {
  // Four experts of equal score. With C_load 1 and C_CPU 4: load 0 (1), CPU 3 (4), load 1 (2), load 2.
  Layer layer;
  layer.load_s = 1;
  layer.cpu_s = {0, 2, 6};
  layer.missing = {{0, 1, 1}, {1, 1, 2}, {2, 1, 1}, {3, 1, 2}};
  const auto policy = make("cpu-assisted", {{"p", 2}});
  CHECK(layer.plan(*policy).loads == Positions{0, 1, 2});
  policy->observe_load(12);  // C_load 12: load 0 (12), CPU 3 (4), CPU 2 (8), CPU 1
  CHECK(layer.plan(*policy).loads == Positions{0});
  policy->observe_load(4);  // 8: load 0 (8), CPU 3 (4), CPU 2 (8), load 1
  CHECK(layer.plan(*policy).loads == Positions{0, 1});
  policy->observe_load(0);  // mean of 4 and 0, 2: load 0 (2), CPU 3 (4), load 1 (4), load 2
  CHECK(layer.plan(*policy).loads == Positions{0, 1, 2});
  policy->observe_load(1);  // mean of 0 and 1, a half; with 4 instead of 0 it would be two loads
  CHECK(layer.plan(*policy).loads == Positions{0, 1, 2});
  policy->observe_load(24);  // mean of 1 and 24
  CHECK(layer.plan(*policy).loads == Positions{0});
}

TEST_CASE("cpu-assisted: the split against the least possible maximum") {
  Random random(2);
  Ratios constant, four_or_more, own_times;
  for (int instance = 0; instance < moelab::test::random_runs(4000); ++instance) {
    Layer layer = random_layer(random, 9);
    layer.missing.push_back({.expert = 100, .score = 0.5F, .tokens = 1});
    const double least_own = least_finish(layer);
    own_times.add(finish(layer, layer.plan("cpu-assisted").places) / least_own);
    // Equation 4: one and the same CPU time for all. The bound is proven in the policy's header.
    std::fill(layer.cpu_s.begin() + 1, layer.cpu_s.end(), layer.cpu_s[1]);
    const ExecutionPlan plan = layer.plan("cpu-assisted");
    const double reached = finish(layer, plan.places), least = least_finish(layer);
    constant.add(reached / least);
    if (layer.missing.size() >= 4) four_or_more.add(reached / least);
    const double slower = std::max(layer.load_s, layer.cpu_s[1]);
    const double n = static_cast<double>(layer.missing.size());
    const double even = (n - 1) / (1 / layer.load_s + 1 / layer.cpu_s[1]);
    REQUIRE(reached <= least + slower);
    REQUIRE(reached <= (even + slower) * (1 + 1e-12));
    for (const std::uint32_t loaded : plan.loads)  // whatever is loaded scores no less than what is not
      for (const std::uint32_t other : plan.cpu)
        REQUIRE(layer.missing[loaded].score >= layer.missing[other].score);
  }
  WARN("two-pointer split over the least maximum, 1 to 10 experts: constant C_CPU mean "
       << constant.mean() << ", worst " << constant.worst << "; of those with 4 or more mean "
       << four_or_more.mean() << ", worst " << four_or_more.worst << "; own CPU times mean "
       << own_times.mean() << ", worst " << own_times.worst);
}

TEST_CASE("cpu-assisted: naive Algorithm 2") {
  Random random(3);
  for (int instance = 0; instance < moelab::test::random_runs(5000); ++instance) {
    const Layer layer = random_layer(random, 12);
    Positions left(layer.missing.size());
    std::iota(left.begin(), left.end(), 0U);
    double cpu_s = 0, loading = 0, computing = 0;
    for (const MissingExpert& expert : layer.missing)
      cpu_s += layer.cpu_s[expert.tokens] / static_cast<double>(layer.missing.size());
    ExecutionPlan expected;
    const auto score = [&](std::uint32_t i) { return layer.missing[i].score; };
    while (!left.empty()) {
      if (loading <= computing + 1e-9) {  // small whole times: sums that differ do so by more than 1/12
        const auto higher = [&](std::uint32_t a, std::uint32_t b) { return score(a) > score(b); };
        move_to(expected.loads, best_of(left, higher), left);
        loading += layer.load_s;
      } else {  // of equal scores the last
        const auto no_higher = [&](std::uint32_t a, std::uint32_t b) { return score(a) <= score(b); };
        move_to(expected.cpu, best_of(left, no_higher), left);
        computing += cpu_s;
      }
    }
    const ExecutionPlan plan = layer.plan("cpu-assisted");
    if (plan.loads != expected.loads || plan.cpu != expected.cpu) FAIL("instance " << instance);
  }
}

TEST_CASE("fiddler: each expert is where it takes less time by itself") {
  Random random(4);
  std::set<Assignment> seen;
  for (int instance = 0; instance < moelab::test::random_runs(5000); ++instance) {
    const Layer layer = random_layer(random, 12);
    const ExecutionPlan plan = layer.plan("fiddler");
    for (std::size_t i = 0; i < layer.missing.size(); ++i) {
      const double cpu_lat = layer.cpu_s[layer.missing[i].tokens];
      REQUIRE((plan.places[i] == kLoad) == (cpu_lat > layer.gpu_s + layer.load_s));
      seen.insert(plan.places[i]);
    }
    REQUIRE(std::is_sorted(plan.loads.begin(), plan.loads.end()));
    REQUIRE(std::is_sorted(plan.cpu.begin(), plan.cpu.end()));
  }
  CHECK(seen.size() == 2);
}

TEST_CASE("hybrimoe: the paper's example") {
  // Fig. 5: missing A, B of load 1 and C of load 3; the CPU takes its load, the link 3. The CPU computes A
  // (done at 1 < 3) and B (2 < 3), then the link is done with C at 3, the CPU would be at 5.
  Layer layer;
  layer.load_s = 3;
  layer.cpu_s = {0, 1, 2, 3};
  layer.missing = {{0, 0, 1}, {1, 0, 1}, {2, 0, 3}};
  const ExecutionPlan plan = layer.plan("hybrimoe");
  CHECK(plan.cpu == Positions{0, 1});
  CHECK(plan.loads == Positions{2});
}

TEST_CASE("hybrimoe: naive simulation by finish times, and the least possible maximum") {
  Random random(5);
  for (int instance = 0; instance < moelab::test::random_runs(4000); ++instance) {
    const Layer layer = random_layer(random, 10);
    Positions left(layer.missing.size());
    std::iota(left.begin(), left.end(), 0U);
    const auto tokens = [&](std::uint32_t i) { return layer.missing[i].tokens; };
    ExecutionPlan expected;
    double cpu_free = 0, link_free = 0;
    while (!left.empty()) {
      const auto fewer = [&](std::uint32_t a, std::uint32_t b) { return tokens(a) < tokens(b); };
      const auto no_fewer = [&](std::uint32_t a, std::uint32_t b) { return tokens(a) >= tokens(b); };
      const std::uint32_t fewest = best_of(left, fewer), most = best_of(left, no_fewer);
      const double cpu_done = cpu_free + layer.cpu_s[tokens(fewest)], link_done = link_free + layer.load_s;
      if (link_done <= cpu_done) {
        move_to(expected.loads, most, left);
        link_free = link_done;
      } else {
        move_to(expected.cpu, fewest, left);
        cpu_free = cpu_done;
      }
    }
    const ExecutionPlan plan = layer.plan("hybrimoe");
    if (plan.loads != expected.loads || plan.cpu != expected.cpu) FAIL("instance " << instance);
    REQUIRE(finish(layer, plan.places) == least_finish(layer));  // proven in the policy's header
  }
}

TEST_CASE("hybrimoe-code: one token of six experts, by hand") {
  // GPU 0.5 each, a load 0.418 that hides behind them, CPU 1 and 0.79 once: the GPU is done with three
  // at 1.5, a fourth would be at 2 > 1.79, so the CPU takes the last one; the others are done at 2 and 2.5
  // <= 2.79.
  for (std::uint32_t missing = 1; missing <= 4; ++missing) {
    Layer layer;
    layer.cpu_s = {0, 7};  // the machine's own times say nothing here
    layer.load_s = 9;
    layer.on_gpu = 6 - missing;
    for (std::uint32_t i = 0; i < missing; ++i) layer.missing.push_back({i, static_cast<float>(i), 1});
    const ExecutionPlan plan = layer.plan("hybrimoe-code");
    CHECK(plan.cpu == Positions{0});  // the least score
    CHECK(plan.loads.size() == missing - 1);
    CHECK(std::is_sorted(plan.loads.rbegin(), plan.loads.rend()));
  }
}

TEST_CASE("hybrimoe-code: eight experts leave the CPU two, several tokens nothing") {
  // As above; a sixth would be done at 3 > 2.79, so the CPU takes its second, until 2.79; then 3 and on
  // <= 3.79.
  Layer layer;
  layer.cpu_s = {0, 1};
  layer.on_gpu = 5;
  layer.missing = {{0, 0.2F, 1}, {1, 0.1F, 1}, {2, 0.3F, 1}};
  CHECK(layer.plan("hybrimoe-code").cpu == Positions{1, 0});
  CHECK(layer.plan("hybrimoe-code").loads == Positions{2});
  layer.step_tokens = 2;
  CHECK(layer.plan("hybrimoe-code").cpu.empty());
  CHECK(layer.plan("hybrimoe-code").loads == Positions{2, 0, 1});
}

TEST_CASE("hybrimoe-code: the code's loop on a list of all experts of the token") {
  Random random(6);
  std::set<Assignment> seen;
  for (int instance = 0; instance < moelab::test::random_runs(4000); ++instance) {
    Layer layer = random_layer(random, 8);
    for (MissingExpert& expert : layer.missing) expert.tokens = 1;
    layer.on_gpu = below(random, 7);
    const double gpu = below(random, 5), move = below(random, 7), cpu = below(random, 7),
                 once = below(random, 3);  // whole: sums are exact
    struct Entry {
      bool missing;
      std::uint32_t position;
    };
    std::vector<Entry> queue(layer.on_gpu, Entry{false, 0});
    Positions left(layer.missing.size());
    std::iota(left.begin(), left.end(), 0U);
    while (!left.empty()) {
      const auto higher = [&](std::uint32_t a, std::uint32_t b) {
        return layer.missing[a].score > layer.missing[b].score;
      };
      Positions next;
      move_to(next, best_of(left, higher), left);
      queue.push_back({true, next.front()});
    }
    ExecutionPlan expected;
    double gpu_total = 0, cpu_total = 0, move_total = 0;
    bool cpu_idle = true;
    while (!queue.empty()) {
      double gpu_time = gpu, cpu_time = cpu;
      if (queue.front().missing && move_total + move > gpu_total) gpu_time += move_total + move - gpu_total;
      if (cpu_idle) cpu_time += once;
      if (gpu_total + gpu_time <= cpu_total + cpu_time) {
        if (queue.front().missing) {
          move_total += move;
          expected.loads.push_back(queue.front().position);
        }
        gpu_total += gpu_time;
        queue.erase(queue.begin());
      } else {
        cpu_total += cpu_time;
        cpu_idle = false;
        if (queue.back().missing) expected.cpu.push_back(queue.back().position);
        queue.pop_back();
      }
    }
    const ExecutionPlan plan =
        layer.plan(*make("hybrimoe-code", {{"gpu", gpu}, {"move", move}, {"cpu", cpu}, {"cpu_first", once}}));
    if (plan.loads != expected.loads || plan.cpu != expected.cpu) FAIL("instance " << instance);
    seen.insert(plan.places.begin(), plan.places.end());
  }
  CHECK(seen.size() == 2);
}

}  // namespace moelab::execution_test
