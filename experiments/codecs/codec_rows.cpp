// Every codec of the Orin profile under every cache policy of the ZipMoE family: which policy is fastest with
// which codec, and what it then waits for. usage: codec_rows        prints Markdown; README.md here reads it
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "sim/results/statistics.hpp"
#include "sim/run.hpp"

namespace {

using namespace moelab;
using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr double kMemoryGb = 64;
constexpr int kOutputTokens = 128, kRequests = 3;
const std::vector<int> kBudgetsGb = {10, 15, 20};
const std::vector<std::string> kCodecs = {"lz4hc", "zstd", "zstd-literals", "fixed3"};
struct Policy {
  const char* system;
  const char* title;
  bool oracle = false;
};
constexpr std::array<Policy, 7> kPolicies = {{{"zipmoe-fifo", "FIFO"},
                                              {"zipmoe-lru", "LRU"},
                                              {"zipmoe-lfu", "LFU"},
                                              {"zipmoe-marking", "Marking"},
                                              {"zipmoe", "ZipMoE"},
                                              {"zipmoe-warm-plan", "ZipMoE, warm plan"},
                                              {"zipmoe-belady", "Belady", true}}};

struct Point {
  int budget_gb;
  bool page_cache_free;  // else another program fills the memory outside the budget
  std::string codec;
  Settings more{};
};

Scenario scenario_of(const Point& p, const std::string& systems) {
  Settings settings = {{"budget", std::to_string(p.budget_gb) + " GB"},
                       {"workload.requests", std::to_string(kRequests)},
                       {"workload.output_tokens", std::to_string(kOutputTokens)},
                       {"overrides.system.codec", p.codec},
                       {"systems", systems}};
  if (!p.page_cache_free)
    settings.emplace_back("overrides.device.memory.system_reserve.value",
                          std::to_string(kMemoryGb - p.budget_gb) + " GB");
  settings.insert(settings.end(), p.more.begin(), p.more.end());
  return load_scenario("zipmoe-orin", settings);
}

struct Outcome {
  double tpot_ms = 0, tokens_per_s = 0;
};
Outcome outcome_of(const Metrics& m) {
  return {1e3 * mean(m.token_gaps_s), static_cast<double>(m.tokens) / m.wall_s};
}

/// Seconds of slot time in the passes that decode, by kind of operation.
class DecodeBusy final : public GraphObserver {
 public:
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t) override {
    // Requests come one at a time: each has a prompt's pass, then one for each further token.
    if (pass % kOutputTokens == 0) return;
    for (engine::OpIndex op = 0; op < graph.graph.size(); ++op) {
      const double seconds = graph.graph.end(op) - graph.graph.start(op);
      switch (graph.labels[op].kind) {
        case OpKind::read_sm:
        case OpKind::read_e:
        case OpKind::read_tensor:
          read_s += seconds;
          break;
        case OpKind::decompress:
          decompress_s += seconds;
          break;
        case OpKind::recover:
          recover_s += seconds;
          break;
        case OpKind::execute:
        case OpKind::shared_expert:
        case OpKind::dense:
          compute_s += seconds;
          break;
        case OpKind::host:
        case OpKind::wait:
          break;
      }
    }
  }
  double read_s = 0, decompress_s = 0, recover_s = 0, compute_s = 0;
};

/// What the fastest policy of a point spends a token's time on.
void print_why(const Point& p, const Policy& policy) {
  const Scenario scenario = scenario_of(p, "[" + std::string(policy.system) + "]");
  DecodeBusy busy;
  RunOptions options;
  options.observer = [&](const SystemConfig&) { return &busy; };
  const SystemConfig& system = scenario.systems.front();
  const RunResult r = run_system(scenario, system, scenario_trace(scenario), options);
  const double tokens = kRequests * (kOutputTokens - 1);
  const double threads = system.threads;
  const auto ms = [&](double seconds) { return 1e3 * seconds / tokens; };
  const std::array<std::pair<const char*, double>, 4> floors = {
      {{"reading", ms(busy.read_s)},
       {"decompression", ms(busy.decompress_s / threads)},
       {"recovery", ms(busy.recover_s)},
       {"compute", ms(busy.compute_s)}}};
  const auto most = std::max_element(floors.begin(), floors.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string plan = "-";
  if (r.planned) {
    plan.clear();
    for (std::size_t s = 0; s + 1 < kStates; ++s)
      plan += (s > 0 ? " / " : "") + std::to_string(r.plan.capacity[s]);
  }
  std::printf("| %d GB | %s | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %s | %s |\n", p.budget_gb,
              p.codec.c_str(), policy.title, outcome_of(r.metrics).tpot_ms, floors[0].second,
              floors[1].second, floors[2].second, floors[3].second, most->first, plan.c_str());
  std::fflush(stdout);
}

/// One row of the sweep; returns the fastest policy that is no oracle.
Policy print_row(const Point& p) {
  std::string systems = "[";
  for (const Policy& policy : kPolicies) systems += std::string(policy.system) + ", ";
  const Scenario scenario = scenario_of(p, systems + "]");
  const RoutingTrace trace = scenario_trace(scenario);
  std::array<Outcome, kPolicies.size()> outcomes;
  std::size_t best = 0;
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    outcomes[i] = outcome_of(run_system(scenario, scenario.systems[i], trace).metrics);
    if (!kPolicies[i].oracle && outcomes[i].tpot_ms < outcomes[best].tpot_ms) best = i;
  }
  std::printf("| %d GB | %s |", p.budget_gb, p.codec.c_str());
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    const char* mark = i == best ? "**" : "";
    std::printf(" %s%.1f ms, %.1f/s%s |", mark, outcomes[i].tpot_ms, outcomes[i].tokens_per_s, mark);
  }
  std::printf("\n");
  std::fflush(stdout);
  return kPolicies[best];
}

void print_sweep(bool page_cache_free) {
  std::printf("| budget | codec |");
  for (const Policy& policy : kPolicies) std::printf(" %s |", policy.title);
  std::printf("\n| --- | --- |");
  for (std::size_t i = 0; i < kPolicies.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  std::vector<std::pair<Point, Policy>> best;
  for (const int budget : kBudgetsGb)
    for (const std::string& codec : kCodecs) {
      const Point p{budget, page_cache_free, codec};
      best.emplace_back(p, print_row(p));
    }
  std::printf(
      "\n| budget | codec | fastest | TPOT, ms | reading | decompression | recovery | compute | most | plan "
      "F / C "
      "/ S / E |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [point, policy] : best) print_why(point, policy);
}

/// Nobody has run fixed3 on this core: the same with half and twice the speed of the profile's estimate.
void print_estimate() {
  std::printf("| page cache | budget | fixed3 at | LRU | ZipMoE |\n| --- | --- | --- | --- | --- |\n");
  for (const bool page_cache_free : {true, false})
    for (const int budget : {10, 20})
      for (const char* rate : {"1.25 GB/s", "2.5 GB/s", "5 GB/s"}) {
        const Scenario scenario = scenario_of(
            {budget, page_cache_free, "fixed3", {{"overrides.device.codecs.fixed3.decompress.value", rate}}},
            "[zipmoe-lru, zipmoe]");
        const RoutingTrace trace = scenario_trace(scenario);
        std::printf("| %s | %d GB | %s |", page_cache_free ? "free" : "occupied", budget, rate);
        for (const SystemConfig& system : scenario.systems)
          std::printf(" %.1f ms |", outcome_of(run_system(scenario, system, trace).metrics).tpot_ms);
        std::printf("\n");
        std::fflush(stdout);
      }
}

}  // namespace

int main() {
  try {
    std::printf("## Page cache free: TPOT and tokens a second\n\n");
    print_sweep(true);
    std::printf("\n## Page cache occupied: TPOT and tokens a second\n\n");
    print_sweep(false);
    std::printf("\n## The estimate of fixed3's speed\n\n");
    print_estimate();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codec_rows: %s\n", error.what());
    return 1;
  }
}
