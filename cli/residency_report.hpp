// What `moelab tune residency` shows: table, JSON and picture.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "sim/tuning/residency_tuning.hpp"

namespace moelab::cli {

struct ResidencyReport {
  std::string scenario{}, system{}, model{};
  std::string on_gpu{}, off_gpu{};  // storage backends that experts move between
  std::uint32_t experts = 0;        // of a layer
  double tolerance = 0;
  std::vector<ResidencyLevel> levels{};  // by falling residency
  ResidencyChoice choice{};
  std::vector<std::string> warnings{};  // of the runs
};

std::string residency_table(const ResidencyReport& report);
std::string residency_json(const ResidencyReport& report);
plot::Figure residency_figure(const ResidencyReport& report);

}  // namespace moelab::cli
