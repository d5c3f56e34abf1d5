#include "traces/statistics/counts_statistics.hpp"

#include <cmath>
#include <map>
#include <numeric>

#include "traces/statistics/use_statistics.hpp"

namespace moelab {
namespace {

void add(std::vector<std::uint64_t>& to, std::span<const std::uint64_t> counts) {
  to.resize(counts.size());
  for (std::size_t e = 0; e < counts.size(); ++e) to[e] += counts[e];
}

CountsLayerStatistics layer_statistics(const CountsTrace& trace, std::uint32_t layer) {
  CountsLayerStatistics s;
  GroupDivergence prompts(trace.experts()), domains(trace.experts());
  std::map<std::uint16_t, std::vector<std::uint64_t>> uses_of_domain;  // only those that some prompt has
  for (std::uint64_t prompt = 0; prompt < trace.prompts(); ++prompt) {
    const auto counts = trace.counts(prompt, layer);
    add(s.uses, counts);
    prompts.add_group(counts);
    if (!trace.domains().empty()) add(uses_of_domain[trace.domain_of(prompt)], counts);
  }
  for (const auto& [domain, uses] : uses_of_domain) domains.add_group(uses);
  s.top_quarter = top_quarter_share(s.uses);
  s.entropy = std::isnan(s.top_quarter) ? kNoStatistic : entropy_bits(s.uses);
  s.prompt_divergence = prompts.bits();
  s.prompt_chance = prompts.chance_bits();
  s.domain_divergence = uses_of_domain.empty() ? kNoStatistic : domains.bits();
  s.domain_chance = uses_of_domain.empty() ? kNoStatistic : domains.chance_bits();
  return s;
}

}  // namespace

CountsStatistics counts_statistics(const CountsTrace& trace,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  CountsStatistics statistics;
  statistics.description = trace.description();
  for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
    statistics.layers.push_back(layer_statistics(trace, layer));
    const std::vector<std::uint64_t>& uses = statistics.layers.back().uses;
    statistics.uses = std::accumulate(uses.begin(), uses.end(), statistics.uses);
    if (progress) progress(layer + 1, trace.layers());
  }
  return statistics;
}

}  // namespace moelab
