// Published measurements of models being served, and what this project predicts for each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/runtime.hpp"
#include "models/serving_estimate.hpp"

namespace moelab::world {

/// One row of a file of measurements (../shared/data/world-measured/PROVENANCE.md has its columns).
struct Point {
  std::string id, source, engine, version, model, weights, gpu, cpu, memory, offload, prompt, context, metric;
  int gpus = 0, sockets = 1;
  double batch = 1;
  double value = 0;  // in the metric's unit
  char grade = 'C';
  std::string unit{};  // "tok/s", "ms"; empty: not said
  /// Grade C is shown, not counted.
  bool counted() const { return grade == 'A' || grade == 'B'; }
};
/// Throws InputError: a column is missing, or a number is none.
std::vector<Point> read_points(const std::string& path);

using Runtimes = std::map<std::string, Runtime>;

/// A point in this program's terms, or why it has none.
struct Question {
  Architecture model;
  MachineParts machine;
  std::string runtime;
  Split split;
  double batch = 1, prompt = 0, context = 0;
  double before = 0;  // tokens whose keys and values are there when a prompt comes
  std::optional<double> micro_batch;
  bool prefill = false;
  std::string group;    // "everything on one GPU, decode"
  std::string why_not;  // not empty: it cannot be said, and what cannot
};
Question question_of(const Point& point, Runtimes& runtimes);

/// In the metric's unit.
struct Prediction {
  double value = 0;
  std::string bound;  // what takes most of the time
};
Prediction predict(const Point& point, const Question& question, const Runtimes& runtimes);

/// What everybody reckons with: one efficiency times the bandwidth of the memory that most of what a token
/// reads lies in, over the bytes it reads; for prompts one efficiency times the GPU's peak over the FLOPs.
/// With efficiency 1.
double null_prediction(const Point& point, const Question& question);

}  // namespace moelab::world
