// The FluxMoE paper's figures beside ours (rows F1 to F12), once with nothing fitted and once with the host
// overhead fitted on one point.
// usage: fluxmoe_rows        prints Markdown tables; see README.md here for what they mean
#include <cmath>
#include <cstdio>
#include <exception>

#include "experiments/fluxmoe/fluxmoe_runs.hpp"
#include "models/device.hpp"
#include "models/tensor_parallel.hpp"

namespace moelab::fluxmoe {
namespace {

constexpr double kPaperVllmO = 54.6;    // tokens a second: row F4
constexpr double kPaperVllmGain = 6.0;  // of vLLM over it

Point qwen(const std::string& system, std::uint32_t batch = 256, std::uint32_t context = 4096) {
  return {kQwen, system, batch, context};
}
Point mixtral(const std::string& system, std::uint32_t context = 4096) {
  return {kMixtral, system, 256, context};
}
/// Figure 2: Mixtral on four GPUs, weights resident.
Point with_kv(double gib, std::uint32_t context = 4096) {
  return {kMixtral, "vllm", 128, context, 4, gib};
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * share);
  return text;
}
std::string number(double value, const char* unit = "") {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f%s", value < 10 ? 2 : 1, value, unit);
  return text;
}

/// The rows of one set of assumptions.
class Rows {
 public:
  Rows(const char* title, const Assumptions& assumptions, bool fitted) : runs_(assumptions), fitted_(fitted) {
    std::printf(
        "\n**%s**\n\n| row | claim | paper | ours | relative error | fitted |\n"
        "|---|---|---|---|---|---|\n",
        title);
    std::vector<Point> points;
    for (const char* system : {"vllm", "vllm-o", "fluxmoe-alpha1", "fluxmoe", "fluxmoe-tri"})
      for (const std::uint32_t batch : {32U, 64U, 128U, 256U}) points.push_back(qwen(system, batch));
    for (const char* system : {"vllm", "vllm-o", "fluxmoe-alpha1"}) points.push_back(qwen(system, 256, 1024));
    for (const char* system : {"vllm-o", "fluxmoe-eighth", "fluxmoe-h"})
      for (const std::uint32_t context : {1024U, 4096U}) points.push_back(mixtral(system, context));
    points.push_back(qwen("fluxmoe-adaptive"));
    runs_.prepare(points);
  }

  void print() {
    memory_rows();
    performance_bound_rows();
    capacity_bound_rows();
  }
  Runs& runs() { return runs_; }

 private:
  double speed(const Point& point) { return runs_.tokens_per_s(point); }
  double change(const Point& from, const Point& to) { return speed(to) / speed(from) - 1; }

  void row(const char* id, const std::string& claim, const std::string& paper, const std::string& ours,
           double error, const char* how = "no") {
    std::printf("| %s | %s | %s | %s | %s | %s |\n", id, claim.c_str(), paper.c_str(), ours.c_str(),
                std::isnan(error) ? "-" : percent(error).c_str(), how);
  }
  void change_row(const char* id, const std::string& claim, double paper, double ours) {
    row(id, claim, percent(paper), percent(ours), (ours - paper) / std::abs(paper));
  }
  void ratio_row(const char* id, const std::string& claim, double paper, double ours,
                 const char* how = "no") {
    row(id, claim, number(paper, "x"), number(ours, "x"), (ours - paper) / paper, how);
  }

  void memory_rows() {
    change_row("F1", "Mixtral, 4 GPUs, batch 128: KV cache 20 -> 60 GiB", 0.588,
               change(with_kv(20), with_kv(60)));
    const double narrow = change(with_kv(20, 1024), with_kv(20));
    const double wide = change(with_kv(60, 1024), with_kv(60));
    change_row("F2", "the same: context 1,024 -> 4,096 at 20 GiB", -0.667, narrow);
    row("F2", "the same at 60 GiB: part of that loss that is gone", "53.5 %",
        number(100 * (1 - wide / narrow), " %"), (1 - wide / narrow) / 0.535 - 1);
  }

  void performance_bound_rows() {
    ratio_row("F3", "Qwen3-Next, batch 32: FluxMoE over vLLM", 0.639,
              speed(qwen("fluxmoe-alpha1", 32)) / speed(qwen("vllm", 32)));
    const double offloaded = speed(qwen("vllm-o", 32));
    row("F4", "vLLM-O, batch 32, tokens a second", number(kPaperVllmO), number(offloaded),
        offloaded / kPaperVllmO - 1);
    ratio_row("F4", "batch 32: vLLM over vLLM-O", kPaperVllmGain, speed(qwen("vllm", 32)) / offloaded);
    if (fitted_)
      row("F4", "vLLM, batch 32, tokens a second", number(kPaperVllmO * kPaperVllmGain),
          number(speed(qwen("vllm", 32))), speed(qwen("vllm", 32)) / kPaperVllmO / kPaperVllmGain - 1,
          "yes: host overhead");
    change_row("F5", "vLLM, batch 128 -> 256", -0.322, change(qwen("vllm", 128), qwen("vllm")));
    ratio_row("F6", "batch 256: FluxMoE over vLLM", 3.0, speed(qwen("fluxmoe-alpha1")) / speed(qwen("vllm")));
    ratio_row("F6", "batch 256: FluxMoE over vLLM-O", 3.7,
              speed(qwen("fluxmoe-alpha1")) / speed(qwen("vllm-o")));
    ratio_row("F6", "batch 256: vLLM over vLLM-O", 1.221, speed(qwen("vllm")) / speed(qwen("vllm-o")));
    change_row("F7", "vLLM, batch 256: context 1,024 -> 4,096", -0.453,
               change(qwen("vllm", 256, 1024), qwen("vllm")));
    change_row("F7", "FluxMoE, the same", -0.205,
               change(qwen("fluxmoe-alpha1", 256, 1024), qwen("fluxmoe-alpha1")));
  }

  void adaptation_rows() {
    const RunResult& adaptive = runs_.run(qwen("fluxmoe-adaptive"));
    double least = 1;
    for (const ServingSample& sample : adaptive.metrics.series.samples())
      least = std::min(least, sample.residency);
    const double freed = 4 * (1 - least) * adaptive.memory.expert_cache.value();
    row("F9", "steps of 48 experts a GPU given up while serving; memory freed on 4 GPUs", "7; about 5.3 GB",
        number(512 * (1 - least)) + "; " + number(freed / 1e9, " GB"), NAN);
    row("F9", "throughput against alpha 1 held fixed", "never below",
        percent(change(qwen("fluxmoe-alpha1"), qwen("fluxmoe-adaptive"))), NAN);
  }

  void capacity_bound_rows() {
    for (const auto& [context, paper] : {std::pair{1024U, 0.285}, {4096U, 0.229}})
      change_row("F8", "Mixtral, 2 GPUs, context " + std::to_string(context) + ": FluxMoE over FluxMoE-H",
                 paper, change(mixtral("fluxmoe-h", context), mixtral("fluxmoe-eighth", context)));
    const double starved = speed(mixtral("vllm-o"));
    row("F8", "the same, context 4,096: vLLM-O, tokens a second", "3.7", number(starved), starved / 3.7 - 1);
    adaptation_rows();
    row("F10", "overhead of PagedTensor, at most", "3.0 %", "not measured: needs a GPU", NAN);
    const double ratio = load_device("l40-48gb-x4").gpu->codecs.at("huffman").ratio.value;
    row("F11", "expert storage saved by exponent Huffman", "about 20 %", number(100 * (1 - ratio), " %"), NAN,
        "input: gpu.codecs");
    const Architecture model = load_architecture("mixtral-8x7b");
    const double gib = 128.0 * 4096 * kv_bytes_per_token(model).value() / (1 << 30);
    row("F12", "KV cache of 32 layers, 8 heads of 128, batch 128, context 4,096", "64 GiB",
        number(gib, " GiB"), gib / 64 - 1);
  }

  Runs runs_;
  bool fitted_;
};

void print_speeds(const char* title, Runs& runs) {
  std::printf("\n| %s, tokens a second | batch 32 | 64 | 128 | 256 |\n|---|---|---|---|---|\n", title);
  for (const char* system : {"vllm", "vllm-o", "fluxmoe-alpha1", "fluxmoe", "fluxmoe-tri"}) {
    std::printf("| %s |", system);
    for (const std::uint32_t batch : {32U, 64U, 128U, 256U})
      std::printf(" %.0f |", runs.tokens_per_s(qwen(system, batch)));
    std::printf("\n");
  }
}

/// Rows F3, F4, F6 and F8 under what no source states.
void print_sensitivity(double host) {
  std::printf(
      "\n| fitted host overhead, and | batch 32: FluxMoE over vLLM | vLLM-O, tokens/s | batch 256: FluxMoE "
      "over vLLM | "
      "FluxMoE over vLLM-O | vLLM over vLLM-O | Mixtral: FluxMoE over FluxMoE-H, context 1,024 / 4,096 |\n"
      "|---|---|---|---|---|---|---|\n| the paper | 0.64x | 54.6 | 3.00x | 3.70x | 1.22x | +28.5 %% / +22.9 "
      "%% |\n");
  const std::vector<std::pair<const char*, Assumptions>> cases = {{"nothing else", {host, 0, 0}},
                                                                  {"decoding at 250 GB/s", {host, 250, 0}},
                                                                  {"a link of 13 GB/s", {host, 0, 13}},
                                                                  {"both", {host, 250, 13}}};
  const Point flux = qwen("fluxmoe-alpha1"), vllm = qwen("vllm"), offloaded = qwen("vllm-o");
  const Point flux_32 = qwen("fluxmoe-alpha1", 32), vllm_32 = qwen("vllm", 32),
              offloaded_32 = qwen("vllm-o", 32);
  for (const auto& [what, assumptions] : cases) {
    Runs runs(assumptions);
    runs.prepare({flux, vllm, offloaded, flux_32, vllm_32, offloaded_32, mixtral("fluxmoe-eighth", 1024),
                  mixtral("fluxmoe-h", 1024), mixtral("fluxmoe-eighth"), mixtral("fluxmoe-h")});
    const auto ratio = [&](const Point& a, const Point& b) {
      return runs.tokens_per_s(a) / runs.tokens_per_s(b);
    };
    const auto balanced = [&](std::uint32_t context) {
      return percent(ratio(mixtral("fluxmoe-eighth", context), mixtral("fluxmoe-h", context)) - 1);
    };
    std::printf("| %s | %s | %s | %s | %s | %s | %s / %s |\n", what,
                number(ratio(flux_32, vllm_32), "x").c_str(), number(runs.tokens_per_s(offloaded_32)).c_str(),
                number(ratio(flux, vllm), "x").c_str(), number(ratio(flux, offloaded), "x").c_str(),
                number(ratio(vllm, offloaded), "x").c_str(), balanced(1024).c_str(), balanced(4096).c_str());
  }
}

void print_all() {
  Rows plain("Nothing fitted", {}, false);
  plain.print();
  print_speeds("nothing fitted", plain.runs());
  const double host = fit_host_overhead(qwen("vllm", 32), kPaperVllmO * kPaperVllmGain);
  char title[160];
  std::snprintf(title, sizeof title,
                "Host overhead of every system fitted on vLLM at batch 32: %.2f ms a layer", 1e3 * host);
  Rows fitted(title, {.host_per_layer_s = host}, true);
  fitted.print();
  print_speeds("host overhead fitted", fitted.runs());
  print_sensitivity(host);
}

}  // namespace
}  // namespace moelab::fluxmoe

int main() {
  try {
    moelab::fluxmoe::print_all();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fluxmoe_rows: %s\n", error.what());
    return 1;
  }
}
