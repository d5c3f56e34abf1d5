#include "experiments/world/world_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace moelab::world {
namespace {

constexpr double kNear = 0.05;
/// Steps of the descent, as factors; from the longest to the shortest.
constexpr std::array<double, 6> kFactors{1.5, 1.2, 1.08, 1.03, 1.01, 1.004};

const std::string& owner_of(const Runtimes& runtimes, const std::string& name, std::string_view constant) {
  const Runtime* r = &runtimes.at(name);
  while (std::find(r->own.begin(), r->own.end(), constant) == r->own.end() && !r->based_on.empty() &&
         runtimes.contains(r->based_on))
    r = &runtimes.at(r->based_on);
  return r->name;
}

void set_constant(Runtimes& runtimes, const Parameter& p) {
  for (auto& [name, runtime] : runtimes)
    if (owner_of(runtimes, name, p.constant->name) == p.owner) runtime.*p.constant->value = p.value;
}

double distance(const Runtimes& runtimes, const std::vector<Answerable>& points) {
  double sum = 0;
  for (const Answerable& a : points) {
    if (!a.point->counted()) continue;
    const double e = std::log(predict(*a.point, *a.question, runtimes).value / a.point->value);
    sum += std::sqrt(e * e + kNear * kNear);
  }
  return sum;
}

/// Moves one parameter while that helps; the points are those that it can change.
bool improve(Runtimes& runtimes, Parameter& p, const std::vector<Answerable>& points, double factor) {
  double best = distance(runtimes, points);
  bool moved = false;
  for (const double step : {factor, 1 / factor}) {
    while (true) {
      const double before = p.value;
      p.value = std::clamp(before * step, p.constant->low, p.constant->high);
      set_constant(runtimes, p);
      const double now = distance(runtimes, points);
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

std::vector<Parameter> parameters_of(const Runtimes& runtimes) {
  std::vector<Parameter> list;
  for (const auto& [name, runtime] : runtimes)
    for (const Runtime::Constant* c : runtime.fitted()) list.push_back({name, c, runtime.*c->value});
  return list;
}

Runtimes with(const Runtimes& runtimes, const std::vector<Parameter>& parameters) {
  Runtimes changed = runtimes;
  for (const Parameter& p : parameters) set_constant(changed, p);
  return changed;
}

std::vector<Parameter> fit(const Runtimes& runtimes, std::vector<Parameter> parameters,
                           const std::vector<Answerable>& points) {
  constexpr int kMostRounds = 12;
  Runtimes current = with(runtimes, parameters);
  std::vector<std::vector<Answerable>> changed_by(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (const Answerable& a : points)
      if (owner_of(runtimes, a.question->runtime, parameters[i].constant->name) == parameters[i].owner)
        changed_by[i].push_back(a);
  for (const double factor : kFactors) {
    for (int round = 0; round < kMostRounds; ++round) {
      bool moved = false;
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (!changed_by[i].empty()) moved |= improve(current, parameters[i], changed_by[i], factor);
      if (!moved) break;
    }
  }
  return parameters;
}

}  // namespace moelab::world
