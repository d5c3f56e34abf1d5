// The costs of software at which servers with experts spread evenly take as long as in Table II of the paper.
#pragma once

#include <vector>

#include "experiments/prism/prism_runs.hpp"

namespace moelab::prism {

/// One server's requests with the fitted costs, beside Table II's.
struct ServicePoint {
  const Workload* workload;
  std::size_t server;
  double paper_s;    // with waiting
  double fitted_s;   // with waiting, by the formula
  double service_s;  // without: no request before them
};

struct Fit {
  SoftwareCosts costs;
  double rms = 0;  // of the logarithms of fitted_s / paper_s
  std::vector<ServicePoint> points;
};

/// Mean seconds of requests that arrive at random, `rate` a second, and are served one after the other
/// (Pollaczek and Khinchine): service + rate service^2 (1 + variation) / (2 (1 - rate service)); `variation`
/// is the squared coefficient of variation of service times. Infinite from a load of 1 on.
double latency_seconds(double service, double rate, double variation);

/// Least squares of the logarithms of Uniform's twelve latencies, both costs at least 0. Service times are
/// those of runs without waiting. Calls overlap with what they send, so that their cost is searched by
/// running; a layer's adds up.
Fit fit_software();

}  // namespace moelab::prism
