// What the paper's rows make of what no source states, or states twice.
#include <array>
#include <cstdio>

#include "experiments/claims/study_scenario.hpp"
#include "experiments/smoe/smoe_orders.hpp"
#include "experiments/smoe/smoe_tables.hpp"

namespace moelab::smoe {
namespace {

const std::vector<std::string> kUseCpu = {"smoe", "llama-cpp", "hybrimoe", "hybrimoe-code"};
const std::vector<std::string> kPrefetching = {"smoe-pre", "smoe"};
const std::vector<std::string> kScored = {"smoe-ce", "smoe-cr", "smoe-pre", "smoe"};

/// What an assumption makes of the orders, in one row.
void sensitivity_row(const std::string& title, const Points& points) {
  std::printf("| %s |", title.c_str());
  for (const Order& order : orders(points)) std::printf(" %d of %d |", order.holds, order.of);
  std::printf(" %s, %s |", percent(mean_gain(points, 1), 0).c_str(),
              percent(mean_gain(points, 3), 0).c_str());
  for (std::size_t step = 1; step < kSteps.size(); ++step)
    std::printf("%s%s", step == 1 ? " " : " / ", percent(mean_change(points, step, tpot_change), 0).c_str());
  std::printf(" | %s, %s |\n", percent(least_hits(points), 0).c_str(),
              percent(least_hit_gain(points), 0).c_str());
  std::fflush(stdout);
}

std::string with_number(const char* text, double number) {
  std::array<char, 96> b{};
  std::snprintf(b.data(), b.size(), text, number);
  return b.data();
}

void host_overhead_rows(const Points& points) {
  for (const double ms : {0.0, 0.2, 1.0})
    sensitivity_row(with_number("host overhead %.1f ms a layer, all systems", ms),
                    rerun(points, kDeciding, [ms](Scenario& s) {
                      for (SystemConfig& system : s.systems) system.host_per_layer = Seconds(ms * 1e-3);
                    }));
}

void cpu_speed_rows(const Points& points) {
  for (const double factor : {0.5, 2.0})
    sensitivity_row(with_number("CPU experts x%.1f as fast", factor),
                    rerun(points, kUseCpu, [factor](Scenario& s) { scale_cpu(s, factor); }));
  sensitivity_row("CPU experts x0.5 as fast, HybriMoE's only",
                  rerun(points, {"hybrimoe"}, [](Scenario& s) { scale_cpu(s, 0.5); }));
}

/// The simple generator in place of the scenarios' workload: requests and lengths stay.
Variant generated(const Setting& setting, int batch, const std::string& reuse) {
  const WorkloadConfig w =
      study_scenario(std::string(setting.scenario) + (batch == 1 ? "" : "-batch3")).workload;
  return {{{"workload", "{batch: " + std::to_string(w.batch) + ", requests: " + std::to_string(w.requests) +
                            ", prompt_tokens: " + std::to_string(w.prompt_tokens) +
                            ", output_tokens: " + std::to_string(w.output_tokens) + ", gate_decay: " +
                            std::to_string(setting.generator_decay) + ", reuse: " + reuse + "}"}},
          [](Scenario& s) { keep_systems(s, kDeciding); },
          true};
}

void locality_rows() {
  for (const char* reuse : {"0", "0.2", "0.44"})
    sensitivity_row(std::string("routing by the simple generator, reuse ") + reuse,
                    run_all([&](const Setting& s, int batch) { return generated(s, batch, reuse); }));
}

void alpha_rows(const Points& points) {
  for (const double shift : {-0.1, 0.1})
    sensitivity_row(shift < 0 ? "alpha 0.1 lower" : "alpha 0.1 higher",
                    rerun(points, kSteps, [shift](Scenario& s) {
                      for (SystemConfig& system : s.systems)
                        if (system.routing.name == "smoe")
                          set_alpha(system, system.routing.parameters.at("alpha") + shift);
                    }));
}

/// n of Equation 3, which the paper does not give; 3 is the span of its Fig. 6.
void window_rows(const Points& points) {
  for (const double n : {1.0, 8.0, 32.0})
    sensitivity_row(with_number("n of Eq. 3: %.0f iterations (else 3)", n),
                    rerun(points, kScored, [n](Scenario& s) {
                      for (SystemConfig& system : s.systems) system.cache.parameters["window"] = n;
                    }));
}

void fetching_rows(const Points& points) {
  sensitivity_row("of SMoE's fetches 95 % are active, not 95 % of those that are not top-score",
                  rerun(points, kPrefetching, [](Scenario& s) {
                    for (SystemConfig& system : s.systems) system.prefetch.parameters["active"] = 0.95;
                  }));
  sensitivity_row("HybriMoE without its prefetch", rerun(points, {"hybrimoe"}, no_prefetch));
  for (const double accuracy : {0.5, 0.9})
    sensitivity_row(with_number("HybriMoE's prediction right for %.2f (else 0.72)", accuracy),
                    rerun(points, {"hybrimoe"}, [accuracy](Scenario& s) {
                      s.systems.front().prefetch.parameters["accuracy"] = accuracy;
                    }));
}

void reading_row(const char* title, const Points& points, const Reading& reading) {
  const int ahead = orders(points, reading).front().holds;
  std::printf("| %s | %d of 6 |", title, ahead);
  const auto both = [&](auto of) {
    std::printf(" %s, %s |", percent(of(1), 0).c_str(), percent(of(3), 0).c_str());
  };
  both([&](int batch) { return mean_gain(points, batch, reading); });
  both([&](int batch) { return gain(at(points, "S3", batch), reading); });
  both([&](int batch) { return gain(at(points, "S1", batch), reading); });
  std::printf(" %s | %s |\n", percent(mean_ttft_gain(points, reading), 0).c_str(),
              percent(least_hit_gain(points, &Outcome::hit_rate, reading), 0).c_str());
  std::fflush(stdout);
}

}  // namespace

void no_prefetch(Scenario& scenario) {
  for (SystemConfig& system : scenario.systems) {
    system.prefetch = {"none", {}};
    system.prefetch_buffer = 0;
  }
}

void with_24_gb(Scenario& scenario) {
  if (scenario.device.name != "rtx-4060-ti-16gb") {
    scenario.systems.clear();
    return;
  }
  auto& memory = *scenario.device.gpu->own;
  memory.total.value = Bytes(24.0 * (1ULL << 30));
  scenario.budget = memory.total.value - memory.reserve.value;
}

void print_readings_table(const Points& points) {
  std::printf(
      "\n## Readings of the baselines\n\n| baselines | SMoE ahead | S1, batch 1, 3 (paper 24, 35 %%) | S2 "
      "(34, 48 "
      "%%) | S3 (20, 27 %%) | S10 (11 %%) | S6 (65 %%) |\n|---|---|---|---|---|---|---|\n");
  constexpr auto kExperts = LlamaCpp::experts;
  reading_row("HybriMoE as its paper, llama.cpp by layers", points, {});
  reading_row("the same, HybriMoE without prefetch", rerun(points, {"hybrimoe"}, no_prefetch), {});
  reading_row("the same, S2 with 24 GB", rerun(points, kDeciding, with_24_gb), {});
  reading_row("HybriMoE as its code, llama.cpp by layers", points, {Hybrimoe::as_code});
  reading_row("HybriMoE as its code, llama.cpp by experts", points, {Hybrimoe::as_code, kExperts});
  reading_row("no HybriMoE, llama.cpp by layers", points, {Hybrimoe::left_out});
  reading_row("no HybriMoE, llama.cpp by experts", points, {Hybrimoe::left_out, kExperts});
  std::printf("\nllama.cpp by experts in closed form, as by layers, is within %.1g of the simulated one.\n",
              closed_form_difference(points));
}

void print_sensitivity_table(const Points& points) {
  std::printf(
      "\n## What no source states\n\n| assumption | SMoE ahead | steps lower TPOT | hits by step | batch 3 "
      "gains more | S3 gains more | row S1, batch 1, 3 | row S7 | least hits (S4), gain (S6) "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  sensitivity_row("as in the scenarios", points);
  sensitivity_row("4060 Ti with 24 GB, as the text says (Table III: 16)",
                  rerun(points, kDeciding, with_24_gb));
  host_overhead_rows(points);
  cpu_speed_rows(points);
  locality_rows();
  alpha_rows(points);
  window_rows(points);
  fetching_rows(points);
}

}  // namespace moelab::smoe
