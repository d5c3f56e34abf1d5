// How much of a GPU's memory the paper's figures argue for.
#include <cstdio>
#include <optional>

#include "experiments/fluxmoe/fluxmoe_budgets.hpp"
#include "experiments/fluxmoe/fluxmoe_figures.hpp"
#include "experiments/fluxmoe/fluxmoe_tables.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab::fluxmoe {
namespace {

constexpr std::uint32_t kPrompt = 128;  // of the scenarios

Point with_budget(Point point, double gb) {
  point.budget_gb = gb;
  return point;
}

struct BudgetRow {
  double budget_gb = 0, host_s = 0, kv_gb = 0;
  double f3 = 0, flux_over_vllm = 0, flux_over_offloaded = 0, vllm_over_offloaded = 0;
  double iterations = 0;  // until FluxMoE's KV cache is full of 256 requests
};

BudgetRow budget_row(double gb) {
  BudgetRow row{.budget_gb = gb, .host_s = fitted_host_overhead(gb)};
  Runs& runs = runs_under({.host_per_layer_s = row.host_s});
  const Point vllm = with_budget(qwen("vllm"), gb), offloaded = with_budget(qwen("vllm-o"), gb),
              flux = with_budget(qwen("fluxmoe-alpha1"), gb), vllm_32 = with_budget(qwen("vllm", 32), gb),
              flux_32 = with_budget(qwen("fluxmoe-alpha1", 32), gb);
  runs.prepare({vllm, offloaded, flux, vllm_32, flux_32});
  row.f3 = runs.ratio(flux_32, vllm_32);
  row.flux_over_vllm = runs.ratio(flux, vllm);
  row.flux_over_offloaded = runs.ratio(flux, offloaded);
  row.vllm_over_offloaded = runs.ratio(vllm, offloaded);
  row.kv_gb = runs.run(vllm).memory.kv_cache.value() / 1e9;
  const MemoryPlan& m = runs.run(flux).memory;
  const double blocks = static_cast<double>(m.kv_blocks) / 256 - static_cast<double>(m.state_blocks);
  row.iterations = 16 * blocks - kPrompt;
  return row;
}

/// The budget at which a column has the paper's value, by straight lines between neighbours.
std::string implied(const std::vector<BudgetRow>& rows, double BudgetRow::*column, double paper) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double a = rows[i - 1].*column - paper, b = rows[i].*column - paper;
    if (a * b > 0) continue;
    const double share = a == b ? 0 : a / (a - b);
    return number(rows[i - 1].budget_gb + share * (rows[i].budget_gb - rows[i - 1].budget_gb), " GB");
  }
  return "none here";
}

}  // namespace

double budget_for_iterations(std::uint32_t iterations) {
  const MemoryPlan& m = runs_under({}).run(qwen("fluxmoe-alpha1")).memory;
  const double blocks = 256.0 * static_cast<double>(kv_blocks(kPrompt + iterations, 16) + m.state_blocks);
  return ((m.budget - m.kv_cache) + blocks * m.kv_block).value() / 1e9;
}

double least_budget(const Point& point, std::uint32_t requests) {
  Scenario s = scenario_of(point, {});
  const auto served = served_requests(s, scenario_trace(s));
  const SystemConfig& system = s.systems.front();
  const MemoryPlan m = plan_paged(s, system, served).memory;
  const std::uint64_t blocks =
      requests * request_blocks(final_tokens(batch_request(served.front(), s.workload.prefilled)),
                                kv_shape(s, system, m));
  return (m.non_expert + m.expert_cache + m.staging + m.activations +
          static_cast<double>(blocks) * m.kv_block)
             .value() /
         1e9;
}

void print_budgets() {
  std::printf(
      "\n| budget of a GPU | vLLM's KV cache | fitted overhead a layer | F3: FluxMoE over vLLM, batch 32 | "
      "F6: "
      "FluxMoE over vLLM | FluxMoE over vLLM-O | vLLM over vLLM-O | Exp#3: iterations until FluxMoE's KV "
      "cache is full |\n|---|---|---|---|---|---|---|---|\n| the paper | | | 0.64x | 3.00x | 3.70x | 1.22x | "
      "2,700 |\n");
  std::vector<BudgetRow> rows;
  for (const double gb : {41.9, 42.475, 43.475}) {
    const BudgetRow& row = rows.emplace_back(budget_row(gb));
    std::printf("| %.3f GB | %.2f GB | %.2f ms | %.2fx | %.2fx | %.2fx | %.2fx | %.0f |\n", row.budget_gb,
                row.kv_gb, 1e3 * row.host_s, row.f3, row.flux_over_vllm, row.flux_over_offloaded,
                row.vllm_over_offloaded, row.iterations);
  }
  std::printf("| what the row implies | | | %s | %s | %s | %s | %.2f GB |\n",
              implied(rows, &BudgetRow::f3, 0.639).c_str(),
              implied(rows, &BudgetRow::flux_over_vllm, 3.0).c_str(),
              implied(rows, &BudgetRow::flux_over_offloaded, 3.7).c_str(),
              implied(rows, &BudgetRow::vllm_over_offloaded, 1.221).c_str(), budget_for_iterations(2700));
}

void print_starved() {
  const double host = fitted_host_overhead();
  std::printf(
      "\n| Mixtral on 2 GPUs, context 4,096: requests that vLLM-O has room for | least budget of a GPU, and "
      "1 MB | tokens a second | with a link of 13 GB/s |\n|---|---|---|---|\n| the paper | | 3.7 | |\n");
  for (const std::uint32_t requests : {1U, 2U, 3U, 4U}) {
    const double gb = least_budget(mixtral("vllm-o"), requests) + 1e-3;
    Point point = with_budget(mixtral("vllm-o"), gb);
    point.requests = 4 * requests;
    std::printf(
        "| %u | %.2f GB | %s | %s |\n", requests, gb,
        number(runs_under({.host_per_layer_s = host}).tokens_per_s(point)).c_str(),
        number(runs_under({.host_per_layer_s = host, .link_gb_per_s = 13}).tokens_per_s(point)).c_str());
  }
}

}  // namespace moelab::fluxmoe
