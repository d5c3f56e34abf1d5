#include "experiments/world/world_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace moelab::world {
namespace {

constexpr double kNear = 0.05;

/// What such constants usually are, and how far one may be off before it has to be shown: a deviation of the
/// logarithm. Set by hand, after orders of magnitude of kernels' and copies' microbenchmarks; without it,
/// what few rows depend on would go anywhere.
struct Usual {
  std::string_view name;
  double value, deviation;
};
constexpr std::array kUsual{Usual{"launch", 6e-6, 0.5},
                            Usual{"launch_batched", 9e-6, 0.5},
                            Usual{"activation_bytes", 8, 0.5},
                            Usual{"dense_bandwidth", 0.9, 0.05},
                            Usual{"expert_bandwidth", 0.9, 0.05},
                            Usual{"batched_bandwidth", 0.6, 0.3},
                            Usual{"attention_bandwidth", 0.6, 0.3},
                            Usual{"dense_peak", 0.4, 0.4},
                            Usual{"expert_peak", 0.4, 0.4},
                            Usual{"expert_tokens", 16, 0.7},
                            Usual{"attention_peak", 0.3, 0.4},
                            Usual{"recurrence_peak", 0.02, 1},
                            Usual{"overlap", 0.5, 0.5},
                            Usual{"cpu_bandwidth", 0.55, 0.3},
                            Usual{"cpu_doubling", 0.85, 0.1},
                            Usual{"second_socket", 0.4, 0.6},
                            Usual{"cpu_peak", 0.3, 0.6},
                            Usual{"cpu_layer", 45e-6, 0.4},
                            Usual{"cpu_launch", 6e-6, 0.5},
                            Usual{"link", 0.7, 0.25},
                            Usual{"all_reduce", 15e-6, 0.5}};
constexpr Usual kUsualSlowdown{"slowdown", 1, 0.5};

double unusual(const Parameter& p) {
  const bool slowdown = !p.generation.empty() || p.constant->name == kUsualSlowdown.name;
  const auto found = std::find_if(kUsual.begin(), kUsual.end(),
                                  [&](const Usual& u) { return !slowdown && u.name == p.constant->name; });
  if (!slowdown && found == kUsual.end()) return 0;
  const Usual& usual = slowdown ? kUsualSlowdown : *found;
  const double off = std::log(p.value / usual.value) / usual.deviation;
  return off * off;
}
/// Steps of the descent, as factors; from the longest to the shortest.
constexpr std::array<double, 6> kFactors{1.5, 1.2, 1.08, 1.03, 1.01, 1.004};

bool has_own(const Runtime& r, const Parameter& p) {
  if (p.generation.empty()) return std::find(r.own.begin(), r.own.end(), p.constant->name) != r.own.end();
  const auto found = r.classes.find(p.generation);
  return found != r.classes.end() && found->second.own;
}

/// Whether the parameter is that of the runtime `name`.
bool concerns(const Runtimes& runtimes, const std::string& name, const Parameter& p) {
  const Runtime* r = &runtimes.at(name);
  while (!has_own(*r, p) && !r->based_on.empty() && runtimes.contains(r->based_on))
    r = &runtimes.at(r->based_on);
  return r->name == p.owner;
}

bool concerns(const Runtimes& runtimes, const Question& q, const Parameter& p) {
  if (!p.generation.empty() && (!q.machine.gpu || q.machine.gpu->generation != p.generation)) return false;
  return concerns(runtimes, q.runtime, p);
}

void set_constant(Runtimes& runtimes, const Parameter& p) {
  for (auto& [name, runtime] : runtimes) {
    if (!concerns(runtimes, name, p)) continue;
    if (p.generation.empty())
      runtime.*p.constant->value = p.value;
    else
      runtime.classes[p.generation].slowdown = p.value;
  }
}

double distance(const Runtimes& runtimes, const std::vector<Answerable>& points) {
  double sum = 0;
  for (const Answerable& a : points) {
    if (!a.point->counted()) continue;
    const double e = std::log(predict(*a.point, *a.question, runtimes).value / a.point->value);
    sum += a.weight * std::sqrt(e * e + kNear * kNear);
  }
  return sum;
}

/// Moves one parameter while that helps; the points are those that it can change.
bool improve(Runtimes& runtimes, Parameter& p, const std::vector<Answerable>& points, double factor,
             double trust) {
  double best = distance(runtimes, points) + trust * unusual(p);
  bool moved = false;
  for (const double step : {factor, 1 / factor}) {
    while (true) {
      const double before = p.value;
      p.value = std::clamp(before * step, p.low(), p.high());
      set_constant(runtimes, p);
      const double now = distance(runtimes, points) + trust * unusual(p);
      if (now < best * (1 - 1e-9)) {
        best = now;
        moved = true;
        continue;
      }
      p.value = before;
      set_constant(runtimes, p);
      break;
    }
  }
  return moved;
}

}  // namespace

double weight_of(const Point& point, int alike) {
  constexpr double kAssumed = 0.6;
  return (point.grade == 'A' ? 1 : kAssumed) / std::sqrt(std::max(1, alike));
}

std::string Parameter::name() const {
  return generation.empty() ? std::string(constant->name) : generation + ".slowdown";
}
double Parameter::low() const {
  return generation.empty() ? constant->low : 0.2;
}
double Parameter::high() const {
  return generation.empty() ? constant->high : 5;
}

std::vector<Parameter> parameters_of(const Runtimes& runtimes) {
  std::vector<Parameter> list;
  for (const auto& [name, runtime] : runtimes) {
    for (const Runtime::Constant* c : runtime.fitted()) list.push_back({name, c, runtime.*c->value});
    for (const auto& [generation, on_it] : runtime.classes)
      if (on_it.own && on_it.slowdown != 1) list.push_back({name, nullptr, on_it.slowdown, generation});
  }
  return list;
}

Runtimes with(const Runtimes& runtimes, const std::vector<Parameter>& parameters) {
  Runtimes changed = runtimes;
  for (const Parameter& p : parameters) set_constant(changed, p);
  return changed;
}

std::vector<Parameter> fit(const Runtimes& runtimes, std::vector<Parameter> parameters,
                           const std::vector<Answerable>& points, double trust) {
  constexpr int kMostRounds = 12;
  Runtimes current = with(runtimes, parameters);
  std::vector<std::vector<Answerable>> changed_by(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (const Answerable& a : points)
      if (concerns(runtimes, *a.question, parameters[i])) changed_by[i].push_back(a);
  for (const double factor : kFactors) {
    for (int round = 0; round < kMostRounds; ++round) {
      bool moved = false;
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (!changed_by[i].empty()) moved |= improve(current, parameters[i], changed_by[i], factor, trust);
      if (!moved) break;
    }
  }
  return parameters;
}

}  // namespace moelab::world
