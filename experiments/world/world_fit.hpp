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
  double weight = 1;
};
/// Of a point among so many of the same source and kind: sources that publish much do not outvote the others,
/// and a row with an assumed fact (grade B) counts less.
double weight_of(const Point& point, int alike);

/// A constant of the runtime `owner`, and so of those that stand on it without one of their own; or its
/// slowdown on a generation of GPUs.
struct Parameter {
  std::string owner;
  const Runtime::Constant* constant = nullptr;  // nullptr: it is of a generation
  double value = 1;
  std::string generation{};
  std::string name() const;
  double low() const, high() const;
};
/// All that the runtimes' files say are fitted to such measurements, of the runtimes in use.
std::vector<Parameter> parameters_of(const Runtimes& runtimes);
/// The runtimes with these values.
Runtimes with(const Runtimes& runtimes, const std::vector<Parameter>& parameters);
/// The values with the least weighted sum over counted points of sqrt(e^2 + 0.05^2), e the logarithm of
/// predicted over measured: squares near 0, absolute values for outliers. Coordinate descent from the values
/// given; a constant that no point depends on keeps its own.
/// `trust`: what a value that is off by its usual deviation weighs against the logarithm of one row's error;
/// set by hand: with 0.06 rows fitted come out nearer, with 0.3 rows left out.
std::vector<Parameter> fit(const Runtimes& runtimes, std::vector<Parameter> parameters,
                           const std::vector<Answerable>& points, double trust = 0.15);

}  // namespace moelab::world
