#include "experiments/claims/runtime_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace moelab::claims {
namespace {

const std::vector<std::string> kOnOrin = {"zipmoe-prototype", "moe-infinity-orin", "deepspeed",
                                          "transformers-orin"};
const char* const kThor = "a core of Orin as fast as one of Thor's: all times over 2.25";
const char* const kGraphs = "CUDA graphs (runtime vllm)";
const char* const kHidden =
    "all that MoE-Infinity's README has beyond eager layers are copies: 0 for an expert";

/// Three digits or so; a share of 1 as it is.
std::string digits(double value) {
  std::array<char, 40> text{};
  const double size = std::abs(value);
  std::snprintf(text.data(), text.size(), "%.*f", size < 0.995 ? 3 : size < 99.5 ? 2 : 1, value);
  return text.data();
}

struct Count {
  std::size_t within = 0, all = 0;
};
Count count(const std::vector<RuntimeFigure>& figures, const std::string& id, double RuntimeFigure::*of) {
  Count n;
  for (const RuntimeFigure& f : figures) {
    if (f.id != id) continue;
    ++n.all;
    if (relative_error({f.paper, f.*of}) <= kSizeTolerance) ++n.within;
  }
  return n;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

const std::vector<RuntimeRow>& runtime_rows() {
  static const std::vector<RuntimeRow> rows = {
      {"Z13", "throughput gain, decoder-only", kOnOrin, kThor},
      {"Z14", "throughput gain, encoder-decoder", kOnOrin, kThor},
      {"Z15", "end-to-end speed-up", kOnOrin, kThor},
      {"Z16", "ablation, DeepSeek-V2-Lite, tokens/s", {"zipmoe-prototype", "deepspeed"}, kThor},
      {"Z17", "ablation, DeepSeek-V2-Lite, s", {"zipmoe-prototype", "deepspeed"}, kThor},
      {"Z18", "ablation, Qwen1.5-MoE, tokens/s", {"zipmoe-prototype", "deepspeed"}, kThor},
      {"Z19", "ablation, Qwen1.5-MoE, s", {"zipmoe-prototype", "deepspeed"}, kThor},
      {"F3", "Qwen3-Next, batch 32", {"fluxmoe-prototype"}, kGraphs},
      {"F4", "batch 32: vLLM-O", {"fluxmoe-prototype"}, kGraphs},
      {"F5", "vLLM, batch 128 to 256", {"fluxmoe-prototype"}, kGraphs},
      {"F6", "batch 256", {"fluxmoe-prototype"}, kGraphs},
      {"F7", "context 1,024 to 4,096", {"fluxmoe-prototype"}, kGraphs},
      {"F8", "Mixtral on two GPUs", {"fluxmoe-prototype"}, kGraphs},
      {"P1", "Table I, mean latency", {"moe-infinity", "prism-prototype"}, kHidden},
      {"P2", "Table II, mean latency", {"prism-prototype"}, kHidden}};
  return rows;
}

bool comes_within(const RuntimeFigure& figure) {
  return relative_error({figure.paper, figure.stated}) <= kSizeTolerance;
}

std::string within_text(const std::vector<RuntimeFigure>& figures, const std::string& id,
                        double RuntimeFigure::*of) {
  const Count n = count(figures, id, of);
  if (n.within == 0) return "none";
  if (n.within == n.all) return "all";
  return std::to_string(n.within) + " of " + std::to_string(n.all);
}

std::string line_of(const RuntimeFigure& f) {
  return "| " + f.id + " | " + f.what + " | " + digits(f.paper) + " | " + digits(f.today) + " | " +
         digits(f.stated) + " | " + digits(f.stated / f.paper) + " | " + (comes_within(f) ? "yes" : "no") +
         " | " + digits(f.other_end) + " |";
}

void check(const std::vector<RuntimeFigure>& figures, const std::string& papers) {
  const std::vector<RuntimeRow>& rows = runtime_rows();
  for (const RuntimeFigure& f : figures) {
    if (std::none_of(rows.begin(), rows.end(), [&](const RuntimeRow& row) { return row.id == f.id; }))
      throw std::logic_error("figure of no row: " + f.id);
    if (f.what.empty() || f.what.find_first_of("|\n") != std::string::npos)
      throw std::logic_error("row " + f.id + ": text that breaks a table");
  }
  for (const RuntimeRow& row : rows)
    if (papers.find(row.id.front()) != std::string::npos &&
        count(figures, row.id, &RuntimeFigure::stated).all == 0)
      throw std::logic_error("row " + row.id + " has no figure");
}

void print_runtime_figures(const std::vector<RuntimeFigure>& figures) {
  std::printf(
      "| row | claim | runtimes | figures within 15 %% as today | under stated runtimes | at the other end | "
      "the other end |\n|---|---|---|---|---|---|---|\n");
  for (const RuntimeRow& row : runtime_rows()) {
    if (count(figures, row.id, &RuntimeFigure::stated).all == 0) continue;
    std::printf("| %s | %s | %s ", row.id.c_str(), row.claim.c_str(), joined(row.runtimes).c_str());
    for (double RuntimeFigure::*of :
         {&RuntimeFigure::today, &RuntimeFigure::stated, &RuntimeFigure::other_end})
      std::printf("| %s ", within_text(figures, row.id, of).c_str());
    std::printf("| %s |\n", row.other_end.c_str());
  }
  std::printf(
      "\n| row | figure | paper | as today | under stated runtimes | ratio | within 15 %%? | at the other "
      "end "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const RuntimeFigure& figure : figures) std::printf("%s\n", line_of(figure).c_str());
  std::fflush(stdout);
}

}  // namespace moelab::claims
