// Runs of the FluxMoE paper's two nodes, and what a question changes about them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/run.hpp"

namespace moelab::fluxmoe {

/// One point of a figure.
struct Point {
  const char* scenario;
  std::string system;
  std::uint32_t batch = 256;
  std::uint32_t context = 4096;  // tokens of a request at its end
  std::uint32_t gpus = 0;        // 0: as in the scenario
  double kv_gib = 0;             // KV cache of all GPUs together; 0: what the budget leaves
  bool operator<(const Point& other) const {
    const auto key = [](const Point& p) {
      return std::tuple(std::string(p.scenario), p.system, p.batch, p.context, p.gpus, p.kv_gib);
    };
    return key(*this) < key(other);
  }
};
inline constexpr const char* kQwen = "fluxmoe-qwen3-next";
inline constexpr const char* kMixtral = "fluxmoe-mixtral";

/// What holds for all points of a table.
struct Assumptions {
  double host_per_layer_s = 0;
  // 0: the device's.
  double decode_gb_per_s = 0;
  double link_gb_per_s = 0;
};

/// Remembers what it has run.
class Runs {
 public:
  explicit Runs(Assumptions assumptions) : assumptions_(assumptions) {}
  const RunResult& run(const Point& point);
  double tokens_per_s(const Point& point);
  /// All of them, two at a time.
  void prepare(const std::vector<Point>& points);

 private:
  Assumptions assumptions_;
  std::map<Point, RunResult> results_;
};

/// The host overhead a layer at which vLLM decodes `tokens_per_s` at a point, by bisection. Throws InputError
/// where it is faster even without any.
double fit_host_overhead(const Point& vllm, double tokens_per_s);

}  // namespace moelab::fluxmoe
