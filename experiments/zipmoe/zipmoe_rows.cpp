// The ZipMoE paper's figures beside ours (rows Z9 to Z11, Z13 to Z19 and Z21): device facts go in, nothing is
// fitted. usage: zipmoe_rows        prints a Markdown table; see README.md here for what it means
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "traces/routing_trace.hpp"

namespace {

using namespace moelab;
using Settings = std::vector<std::pair<std::string, std::string>>;

/// What else lives in the memory outside the budget: nothing (all of it caches files), or another program
/// that fills it (the paper reports one such run).
enum class Storage { page_cache_free, page_cache_occupied };
constexpr std::array<Storage, 2> kStorages = {Storage::page_cache_free, Storage::page_cache_occupied};

struct Hardware {
  const char* device;
  double memory_gb;
  std::vector<double> budgets_gb;  // where the decoder-only models do not fit
  double throughput_budget_gb;     // the paper's budget for Fig. 8
};
const std::vector<Hardware> kHardware = {{"jetson-agx-orin-64gb", 64, {10, 15, 20, 25}, 20},
                                         {"jetson-agx-orin-32gb", 32, {10, 15, 20, 25}, 10}};
const std::vector<std::string> kBaselines = {"moe-infinity", "deepspeed-zero3", "accelerate"};
const std::vector<std::string> kDecoderOnly = {"deepseek-v2-lite", "qwen1.5-moe-a2.7b"};
const std::vector<std::string> kEncoderDecoder = {"switch-large-128"};

struct Outcome {
  double ttft_s = 0, tpot_s = 0, end_to_end_s = 0, tokens_per_s = 0;
};

struct Point {
  std::string model;
  const Hardware* hardware;
  double budget_gb;
  Storage storage;
  int batch = 1, requests = 3, prompt = 128, output = 64;
  bool independent = false;  // tokens are routed independently of the token before and of the prompt
};

/// Runs systems on a point. A system that does not fit the budget has no entry.
std::map<std::string, Outcome> run(const Point& p, const std::vector<std::string>& systems) {
  const bool switch_model = p.model == "switch-large-128";
  Settings settings = {{"model", p.model},
                       {"device", p.hardware->device},
                       {"budget", std::to_string(p.budget_gb) + " GB"},
                       {"workload.batch", std::to_string(p.batch)},
                       {"workload.requests", std::to_string(std::max(p.batch, p.requests))},
                       {"workload.prompt_tokens", std::to_string(p.prompt)},
                       {"workload.output_tokens", std::to_string(p.output)}};
  if (p.independent) {
    settings.emplace_back("workload.reuse", "0");
    settings.emplace_back("workload.drift", "0");
  }
  if (switch_model)
    settings.emplace_back("workload.skew", "2");  // its busiest quarter of experts takes 0.9 of the tokens
  if (p.storage == Storage::page_cache_occupied)
    settings.emplace_back("overrides.device.memory.system_reserve.value",
                          std::to_string(p.hardware->memory_gb - p.budget_gb) + " GB");
  std::string list = "[";
  for (const std::string& s : systems) list += s + ", ";
  settings.emplace_back("systems", list + "]");

  const Scenario scenario = load_scenario("zipmoe-orin", settings);
  const RoutingTrace trace = scenario_trace(scenario);
  std::map<std::string, Outcome> outcomes;
  for (const SystemConfig& system : scenario.systems) {
    try {
      const Metrics m = run_system(scenario, system, trace).metrics;
      outcomes[system.name] = {mean(m.ttft_s), mean(m.token_gaps_s), mean(m.end_to_end_s),
                               static_cast<double>(m.tokens) / m.wall_s};
    } catch (const InputError&) {  // the budget is too small for this system: the paper's points have no such
                                   // system either
    }
  }
  return outcomes;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
};

std::string percent_range(const Range& r) {
  std::array<char, 64> b{};
  std::snprintf(b.data(), b.size(), "%.1f %% to %.1f %%", 100 * r.low, 100 * r.high);
  return b.data();
}
std::string factor_range(const Range& r) {
  std::array<char, 64> b{};
  std::snprintf(b.data(), b.size(), "%.2fx to %.2fx", r.low, r.high);
  return b.data();
}

void row(const std::string& id, const std::string& claim, const std::string& paper,
         const std::array<std::string, 2>& ours) {
  std::printf("| %s | %s | %s | %s | %s |\n", id.c_str(), claim.c_str(), paper.c_str(), ours[0].c_str(),
              ours[1].c_str());
  std::fflush(stdout);
}

/// Rows Z9 to Z12: reductions of TPOT and TTFT against each baseline over all budgets on both boards.
void latency_rows(const std::vector<std::string>& models, const char* tpot_id, const char* ttft_id,
                  const char* kind, const char* paper_tpot, const char* paper_ttft) {
  std::array<std::string, 2> tpot_cells, ttft_cells;
  for (const Storage storage : kStorages) {
    std::map<std::string, Range> tpot, ttft;
    for (const std::string& model : models)
      for (const Hardware& hardware : kHardware)
        for (const double budget : hardware.budgets_gb) {
          std::vector<std::string> systems = kBaselines;
          systems.push_back("zipmoe");
          auto outcomes = run({model, &hardware, budget, storage}, systems);
          for (const std::string& baseline : kBaselines) {
            if (!outcomes.contains(baseline) || !outcomes.contains("zipmoe")) continue;
            tpot[baseline].add(1 - outcomes["zipmoe"].tpot_s / outcomes[baseline].tpot_s);
            ttft[baseline].add(1 - outcomes["zipmoe"].ttft_s / outcomes[baseline].ttft_s);
          }
        }
    const auto index = static_cast<std::size_t>(storage);
    for (const std::string& baseline : kBaselines) {
      tpot_cells[index] +=
          (tpot_cells[index].empty() ? "" : "; ") + baseline + " " + percent_range(tpot[baseline]);
      ttft_cells[index] +=
          (ttft_cells[index].empty() ? "" : "; ") + baseline + " " + percent_range(ttft[baseline]);
    }
  }
  row(tpot_id, std::string("TPOT reduction, ") + kind, paper_tpot, tpot_cells);
  row(ttft_id, std::string("TTFT reduction, ") + kind, paper_ttft, ttft_cells);
}

/// Rows Z13 to Z15: throughput by batch and end-to-end time, against every baseline.
void gain_rows(const std::vector<std::string>& models, const char* throughput_id, const char* kind,
               const char* paper_throughput, const char* paper_end_to_end) {
  std::array<std::string, 2> throughput_cells, end_to_end_cells;
  for (const Storage storage : kStorages) {
    Range throughput, end_to_end;
    for (const std::string& model : models)
      for (const Hardware& hardware : kHardware)
        for (const int batch : {1, 4, 16}) {
          std::vector<std::string> systems = kBaselines;
          systems.push_back("zipmoe");
          auto outcomes = run({model, &hardware, hardware.throughput_budget_gb, storage, batch}, systems);
          for (const std::string& baseline : kBaselines) {
            if (!outcomes.contains(baseline) || !outcomes.contains("zipmoe")) continue;
            throughput.add(outcomes["zipmoe"].tokens_per_s / outcomes[baseline].tokens_per_s);
            if (batch == 1) end_to_end.add(outcomes[baseline].end_to_end_s / outcomes["zipmoe"].end_to_end_s);
          }
        }
    throughput_cells[static_cast<std::size_t>(storage)] = factor_range(throughput);
    end_to_end_cells[static_cast<std::size_t>(storage)] = factor_range(end_to_end);
  }
  row(throughput_id, std::string("throughput gain, batch 1/4/16, ") + kind, paper_throughput,
      throughput_cells);
  row("Z15", std::string("end-to-end speed-up, ") + kind, paper_end_to_end, end_to_end_cells);
}

const std::vector<std::string> kCaches = {"zipmoe-fifo", "zipmoe-marking", "zipmoe-lru", "zipmoe-unplanned",
                                          "zipmoe"};

std::string number(double x, const char* unit) {
  std::array<char, 40> b{};
  std::snprintf(b.data(), b.size(), x > 0 ? "%.2f%s" : "-", x, unit);
  return b.data();
}

std::string by_cache(const std::map<std::string, Outcome>& outcomes) {
  std::string cell;
  for (const std::string& name : kCaches)
    cell += (cell.empty() ? "" : ", ") + name + " " + number(outcomes.at(name).tokens_per_s, "");
  return cell;
}

/// Rows Z16 to Z19 and Z21: the ablation.
void ablation_rows(const std::string& model, const char* title, int output, const char* throughput_id,
                   const char* end_to_end_id, const std::array<double, 4>& paper_throughput,
                   const std::array<double, 4>& paper_end_to_end) {
  static const std::array<const char*, 4> kSteps = {
      "best baseline", "basic caching (mean of FIFO, Marking, LRU)", "+C pools", "+C+P planning"};
  std::array<std::array<Outcome, 4>, 2> ours;
  std::array<std::map<std::string, Outcome>, 2> all;
  for (const Storage storage : kStorages) {
    std::vector<std::string> systems = kBaselines;
    systems.insert(systems.end(),
                   {"zipmoe-fifo", "zipmoe-marking", "zipmoe-lru", "zipmoe-unplanned", "zipmoe"});
    Point point{model, &kHardware[0], 20, storage};
    point.output = output;
    point.requests = 1;
    auto o = run(point, systems);
    auto& mine = ours[static_cast<std::size_t>(storage)];
    for (const std::string& baseline : kBaselines)
      if (o[baseline].tokens_per_s > mine[0].tokens_per_s) mine[0] = o[baseline];
    for (const char* basic : {"zipmoe-fifo", "zipmoe-marking", "zipmoe-lru"}) {
      mine[1].tokens_per_s += o[basic].tokens_per_s / 3;
      mine[1].end_to_end_s += o[basic].end_to_end_s / 3;
    }
    mine[2] = o["zipmoe-unplanned"];
    mine[3] = o["zipmoe"];
    all[static_cast<std::size_t>(storage)] = o;
  }
  for (std::size_t step = 0; step < 4; ++step) {
    row(throughput_id, std::string("tokens/s, ") + title + ", " + kSteps[step],
        number(paper_throughput[step], ""),
        {number(ours[0][step].tokens_per_s, ""), number(ours[1][step].tokens_per_s, "")});
    row(end_to_end_id, std::string("end-to-end, ") + title + ", " + kSteps[step],
        number(paper_end_to_end[step], " s"),
        {number(ours[0][step].end_to_end_s, " s"), number(ours[1][step].end_to_end_s, " s")});
  }
  row("Z21", std::string("tokens/s, ") + title + ", by cache", "FIFO, Marking, LRU alike < +C < +C+P",
      {by_cache(all[0]), by_cache(all[1])});
}

/// Row Z21 again with the routing that ZipMoE's planner assumes: each token's experts drawn independently by
/// popularity.
void independent_routing_row(const std::string& model, const char* title) {
  std::array<std::string, 2> cells;
  for (const Storage storage : kStorages) {
    Point point{model, &kHardware[0], 20, storage};
    point.output = 256;
    point.independent = true;
    cells[static_cast<std::size_t>(storage)] = by_cache(run(point, {kCaches.begin(), kCaches.end()}));
  }
  row("Z21", std::string("the same, independent routing, ") + title,
      "as above; +C+P over basic caching 1.20x to 1.22x", cells);
}

}  // namespace

int main() {
  try {
    std::printf(
        "| row | claim | paper | ours, page cache free | ours, page cache occupied "
        "|\n|---|---|---|---|---|\n");
    latency_rows(kDecoderOnly, "Z9", "Z10", "decoder-only", "62.65 % to 97.97 %", "53.25 % to 87.90 %");
    latency_rows(kEncoderDecoder, "Z11", "Z12", "encoder-decoder", "4.99 % to 81.24 %", "up to 83.45 %");
    gain_rows(kDecoderOnly, "Z13", "decoder-only", "1.79x to 42.49x", "3.03x to 42.49x");
    gain_rows(kEncoderDecoder, "Z14", "encoder-decoder", "1.31x to 5.82x", "1.11x to 5.64x");
    // Output lengths follow from the paper's own figures: tokens/s times end-to-end seconds.
    ablation_rows("deepseek-v2-lite", "DeepSeek-V2-Lite", 918, "Z16", "Z17", {1.60, 4.43, 5.18, 5.30},
                  {585.96, 204.05, 176.68, 173.23});
    ablation_rows("qwen1.5-moe-a2.7b", "Qwen1.5-MoE", 1024, "Z18", "Z19", {1.99, 6.39, 7.64, 7.79},
                  {515.12, 160.33, 134.10, 0});
    independent_routing_row("deepseek-v2-lite", "DeepSeek-V2-Lite");
    independent_routing_row("qwen1.5-moe-a2.7b", "Qwen1.5-MoE");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zipmoe_rows: %s\n", error.what());
    return 1;
  }
}
