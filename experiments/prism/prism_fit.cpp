#include "experiments/prism/prism_fit.hpp"
#include "experiments/claims/study_scenario.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/prism/prism_paper.hpp"

namespace moelab::prism {
namespace {

constexpr std::uint32_t kRequests = 40;  // of each server: enough for their mean
constexpr double kAlone_s = 3000;        // between two requests: none waits for another

/// Mean and squared coefficient of variation of one server's service times.
struct Service {
  double mean = 0, variation = 0;
};

Service service_of(const RunResult& r, std::size_t server) {
  // Requests of the first server come first, then those of the second, ...
  const auto begin = r.metrics.end_to_end_s.begin() + static_cast<std::ptrdiff_t>(server * kRequests);
  double sum = 0, squares = 0;
  for (auto at = begin; at != begin + kRequests; ++at) {
    sum += *at;
    squares += *at * *at;
  }
  Service service;
  service.mean = sum / kRequests;
  service.variation = squares / kRequests / (service.mean * service.mean) - 1;
  return service;
}

/// Passes that a mean request of a server takes: one a token of its answer.
double passes_of(const Scenario& s, std::size_t server) {
  double tokens = 0;
  const std::vector<double>& shares = s.cluster->loads[server].phases.front().shares;
  for (std::size_t task = 0; task < shares.size(); ++task)
    tokens += shares[task] * (s.cluster->tasks[task].output.low + s.cluster->tasks[task].output.high) / 2.0;
  return tokens;
}

/// One server of the runs with some cost of a call.
struct Measured {
  Service service;
  double layers, rate;  // layers that a mean request runs; requests a second in Table II
};

double latency_with(const Measured& m, double per_layer_s) {
  return latency_seconds(m.service.mean + per_layer_s * m.layers, m.rate, m.service.variation);
}

double rms_with(const std::vector<Measured>& measured, double per_layer_s) {
  double squares = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double paper = paper_latency(i / kServers, "uniform")[i % kServers];
    squares += std::pow(std::log(latency_with(measured[i], per_layer_s) / paper), 2);
  }
  return std::sqrt(squares / static_cast<double>(measured.size()));
}

std::vector<Measured> measure(double per_call_s) {
  std::vector<Run> runs;
  for (const Workload& w : kWorkloads)
    runs.push_back(
        {w.scenario, "uniform", {requests(kRequests), arrivals_every(kAlone_s), software({per_call_s, 0})}});
  const std::vector<RunResult> results = run_all(runs);
  std::vector<Measured> measured;
  for (std::size_t w = 0; w < kWorkloads.size(); ++w) {
    const Scenario s = study_scenario(kWorkloads[w].scenario);
    for (std::size_t server = 0; server < kServers; ++server)
      measured.push_back({service_of(results[w], server),
                          passes_of(s, server) * static_cast<double>(s.model.layers.size()),
                          s.cluster->loads[server].arrivals_per_s});
  }
  return measured;
}

/// The cost of a layer with the least squares for a given cost of a call.
Fit fit_layers(double per_call_s) {
  constexpr double kMost_s = 0.02, kStep_s = 0.05e-3;
  const std::vector<Measured> measured = measure(per_call_s);
  Fit fit;
  fit.costs = {per_call_s, 0};
  fit.rms = rms_with(measured, 0);
  for (double h = kStep_s; h < kMost_s; h += kStep_s)
    if (const double rms = rms_with(measured, h); rms < fit.rms) {
      fit.rms = rms;
      fit.costs.per_layer_s = h;
    }
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Measured& m = measured[i];
    const double service = m.service.mean + fit.costs.per_layer_s * m.layers;
    const double paper = paper_latency(i / kServers, "uniform")[i % kServers];
    fit.points.push_back(
        {&kWorkloads[i / kServers], i % kServers, paper, latency_with(m, fit.costs.per_layer_s), service});
  }
  return fit;
}

}  // namespace

double latency_seconds(double service, double rate, double variation) {
  const double load = rate * service;
  if (load >= 1) return std::numeric_limits<double>::infinity();
  return service + load * service * (1 + variation) / (2 * (1 - load));
}

Fit fit_software() {
  Fit best = fit_layers(0);
  for (double c = 1e-3; c < 4.5e-3; c += 1e-3)
    if (Fit fit = fit_layers(c); fit.rms < best.rms) best = std::move(fit);
  for (const double step : {0.5e-3, 0.25e-3, 0.125e-3}) {
    const double middle = best.costs.per_call_s;
    for (const double c : {middle - step, middle + step})
      if (c >= 0)
        if (Fit fit = fit_layers(c); fit.rms < best.rms) best = std::move(fit);
  }
  return best;
}

}  // namespace moelab::prism
