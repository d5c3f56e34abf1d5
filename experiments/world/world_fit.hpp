// Constants of runtimes that no data sheet has, from measurements: which there are, and their best values.
#pragma once

#include <string>
#include <vector>

#include "experiments/world/world_points.hpp"

namespace moelab::world {

/// A point that can be answered, with its question.
struct Answerable {
  const Point* point;
  const Question* question;
};

/// A constant of the runtime `owner`, and so of those that stand on it without one of their own.
struct Parameter {
  std::string owner;
  const Runtime::Constant* constant;
  double value;
};
/// All that the runtimes' files say are fitted to such measurements, of the runtimes in use.
std::vector<Parameter> parameters_of(const Runtimes& runtimes);
/// The runtimes with these values.
Runtimes with(const Runtimes& runtimes, const std::vector<Parameter>& parameters);
/// The values with the least sum over counted points of sqrt(e^2 + 0.05^2), e the logarithm of predicted over
/// measured: squares near 0, absolute values for outliers. Coordinate descent from the values given; a
/// constant that no point depends on keeps its own.
std::vector<Parameter> fit(const Runtimes& runtimes, std::vector<Parameter> parameters,
                           const std::vector<Answerable>& points);

}  // namespace moelab::world
