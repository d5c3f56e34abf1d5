#include "experiments/prism/prism_paper.hpp"

#include "models/input_error.hpp"

namespace moelab::prism {
namespace {

struct Row {
  const char* method;
  Latencies latency;
  double mean;
};

// In the order of kWorkloads.
constexpr std::array<std::array<Row, 5>, 4> kTable2 = {{{{{"uniform", {48.55, 17.28, 9.43}, 21.66},
                                                          {"redundance", {25.88, 13.77, 4.79}, 13.08},
                                                          {"smartmoe", {40.28, 16.43, 9.51}, 19.39},
                                                          {"eplb", {23.93, 7.08, 3.12}, 9.56},
                                                          {"prism", {14.67, 5.85, 2.49}, 6.63}}},
                                                        {{{"uniform", {24.85, 30.63, 36.48}, 30.65},
                                                          {"redundance", {15.96, 24.76, 12.36}, 17.70},
                                                          {"smartmoe", {23.68, 30.41, 35.21}, 29.77},
                                                          {"eplb", {16.36, 19.07, 9.35}, 14.93},
                                                          {"prism", {13.96, 16.72, 9.20}, 13.29}}},
                                                        {{{"uniform", {6.44, 6.04, 3.44}, 5.08},
                                                          {"redundance", {5.96, 6.16, 3.07}, 4.85},
                                                          {"smartmoe", {3.76, 1.59, 2.03}, 2.30},
                                                          {"eplb", {3.60, 1.53, 1.82}, 2.16},
                                                          {"prism", {3.52, 1.57, 1.67}, 2.09}}},
                                                        {{{"uniform", {9.20, 10.26, 13.31}, 10.92},
                                                          {"redundance", {8.28, 10.32, 11.08}, 9.90},
                                                          {"smartmoe", {9.82, 11.89, 13.84}, 11.85},
                                                          {"eplb", {8.69, 9.52, 9.89}, 9.36},
                                                          {"prism", {8.30, 9.80, 9.41}, 9.17}}}}};

const Row& row_of(std::size_t workload, const std::string& method) {
  for (const Row& row : kTable2.at(workload))
    if (row.method == method) return row;
  throw InputError("", "Table II has no method '" + method + "'");
}

}  // namespace

const Latencies& paper_latency(std::size_t workload, const std::string& method) {
  return row_of(workload, method).latency;
}

double paper_mean(std::size_t workload, const std::string& method) {
  return row_of(workload, method).mean;
}

}  // namespace moelab::prism
