// Every codec of the Orin profile under every cache policy of the ZipMoE family: which policy is fastest with
// which codec, and what it then waits for. usage: codec_rows        prints Markdown; README.md here reads it
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/study_scenario.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/graph_observer.hpp"

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
  bool compressed = false;  // its one pool keeps experts in state C
  bool oracle = false;
};
constexpr std::array<Policy, 10> kPolicies = {{{"zipmoe-fifo", "FIFO"},
                                               {"zipmoe-lru", "LRU"},
                                               {"zipmoe-lfu", "LFU"},
                                               {"zipmoe-marking", "Marking"},
                                               {"zipmoe-lru", "LRU, kept compressed", true},
                                               {"zipmoe-lfu", "LFU, kept compressed", true},
                                               {"zipmoe", "ZipMoE"},
                                               {"zipmoe-warm-plan", "ZipMoE, warm plan"},
                                               {"zipmoe-belady", "Belady", false, true},
                                               {"zipmoe-belady", "Belady, kept compressed", true, true}}};

/// What else is so in a sweep.
struct Regime {
  const char* title;
  bool page_cache_free;      // else another program fills the memory outside the budget
  bool independent = false;  // tokens are routed independently of the token before and of the prompt
};
constexpr std::array<Regime, 3> kRegimes = {
    {{"Page cache free", true},
     {"Page cache occupied", false},
     {"Page cache occupied, tokens routed independently", false, true}}};

struct Point {
  int budget_gb;
  Regime regime;
  std::string codec;
  Settings more{};
};

Scenario scenario_of(const Point& p, const Policy& policy) {
  Settings settings = {{"budget", std::to_string(p.budget_gb) + " GB"},
                       {"workload.requests", std::to_string(kRequests)},
                       {"workload.output_tokens", std::to_string(kOutputTokens)},
                       {"overrides.system.codec", p.codec},
                       {"systems", "[" + std::string(policy.system) + "]"}};
  if (policy.compressed) settings.emplace_back("overrides.system.cache.keep_as", "C");
  if (p.regime.independent) {
    settings.emplace_back("workload.reuse", "0");
    settings.emplace_back("workload.drift", "0");
  }
  if (!p.regime.page_cache_free)
    settings.emplace_back("overrides.device.memory.system_reserve.value",
                          std::to_string(kMemoryGb - p.budget_gb) + " GB");
  settings.insert(settings.end(), p.more.begin(), p.more.end());
  return study_scenario("zipmoe-orin", settings);
}

RunResult run(const Point& p, const Policy& policy, const RunOptions& options = {}) {
  const Scenario scenario = scenario_of(p, policy);
  RunResult result = run_system(scenario, scenario.systems.front(), scenario_trace(scenario), options);
  check_fits(result);
  return result;
}
double tpot_ms(const RunResult& r) {
  return 1e3 * mean(r.metrics.token_gaps_s);
}
double tokens_per_s(const RunResult& r) {
  return static_cast<double>(r.metrics.tokens) / r.metrics.wall_s;
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
        default:  // no discrete GPU here
          break;
      }
    }
  }
  double read_s = 0, decompress_s = 0, recover_s = 0, compute_s = 0;
};

struct Row {
  Point point;
  Policy fastest;    // no oracle
  std::string plan;  // of ZipMoE: experts a layer in F / C / S / E
};

std::string shown(const Plan& plan) {
  std::string text;
  for (std::size_t s = 0; s + 1 < kStates; ++s)
    text += (s > 0 ? " / " : "") + std::to_string(plan.capacity[s]);
  return text;
}

/// What the fastest policy of a point spends a token's time on: each resource alone would need so long.
void print_why(const Row& row) {
  DecodeBusy busy;
  RunOptions options;
  options.observer = [&](const SystemConfig&) { return &busy; };
  const RunResult r = run(row.point, row.fastest, options);
  const double threads = scenario_of(row.point, row.fastest).systems.front().threads;
  const auto ms = [](double seconds) { return 1e3 * seconds / (kRequests * (kOutputTokens - 1)); };
  const std::array<std::pair<const char*, double>, 4> floors = {
      {{"reading", ms(busy.read_s)},
       {"decompression", ms(busy.decompress_s / threads)},
       {"recovery", ms(busy.recover_s)},
       {"compute", ms(busy.compute_s)}}};
  const auto most = std::max_element(floors.begin(), floors.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::printf("| %d GB | %s | %s | %.1f |", row.point.budget_gb, row.point.codec.c_str(), row.fastest.title,
              tpot_ms(r));
  for (const auto& [name, time] : floors) std::printf(" %.1f |", time);
  std::printf(" %s | %s |\n", most->first, row.plan.c_str());
  std::fflush(stdout);
}

Row print_row(const Point& p) {
  Row row{p, kPolicies[0], ""};
  std::array<std::pair<double, double>, kPolicies.size()> cells;
  std::size_t best = 0;
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    const RunResult r = run(p, kPolicies[i]);
    cells[i] = {tpot_ms(r), tokens_per_s(r)};
    if (kPolicies[i].system == std::string("zipmoe")) row.plan = shown(r.plan);
    if (!kPolicies[i].oracle && cells[i].first < cells[best].first) best = i;
  }
  std::printf("| %d GB | %s |", p.budget_gb, p.codec.c_str());
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    const char* const mark = i == best ? "**" : "";
    std::printf(" %s%.1f (%.1f)%s |", mark, cells[i].first, cells[i].second, mark);
  }
  std::printf("\n");
  std::fflush(stdout);
  row.fastest = kPolicies[best];
  return row;
}

void print_line(std::size_t columns) {
  std::printf("\n|");
  for (std::size_t i = 0; i < columns; ++i) std::printf(" --- |");
  std::printf("\n");
}

void print_sweep(const Regime& regime) {
  std::printf("## %s\n\nTPOT in ms (tokens a second); bold: the fastest that needs no future.\n\n",
              regime.title);
  std::printf("| budget | codec |");
  for (const Policy& policy : kPolicies) std::printf(" %s |", policy.title);
  print_line(2 + kPolicies.size());
  std::vector<Row> rows;
  for (const int budget : kBudgetsGb)
    for (const std::string& codec : kCodecs) rows.push_back(print_row({budget, regime, codec}));
  std::printf("\nThe fastest one's milliseconds a token, and what each resource alone would need.\n\n");
  std::printf("| budget | codec | fastest | TPOT | reading | decompression | recovery | compute | most |");
  std::printf(" ZipMoE's plan, F / C / S / E |");
  print_line(10);
  for (const Row& row : rows) print_why(row);
  std::printf("\n");
}

/// fixed3 was not run on this core: the same with half and twice the speed of the profile's estimate.
void print_estimate() {
  const std::array<Policy, 3> policies = {kPolicies[1], kPolicies[4], kPolicies[6]};
  std::printf(
      "## The estimate of fixed3's speed\n\nTPOT in ms, page cache occupied.\n\n| budget | fixed3 at |");
  for (const Policy& policy : policies) std::printf(" %s |", policy.title);
  print_line(2 + policies.size());
  for (const int budget : kBudgetsGb)
    for (const char* rate : {"1.25 GB/s", "2.5 GB/s", "5 GB/s"}) {
      std::printf("| %d GB | %s |", budget, rate);
      for (const Policy& policy : policies)
        std::printf(
            " %.1f |",
            tpot_ms(run(
                {budget, kRegimes[1], "fixed3", {{"overrides.device.codecs.fixed3.decompress.value", rate}}},
                policy)));
      std::printf("\n");
      std::fflush(stdout);
    }
}

}  // namespace

int main() {
  try {
    for (const Regime& regime : kRegimes) print_sweep(regime);
    print_estimate();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codec_rows: %s\n", error.what());
    return 1;
  }
}
