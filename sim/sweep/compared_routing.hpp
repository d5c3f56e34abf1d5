// Where the routing of a comparison comes from: the scenario's own, or traces and laws in its place.
#pragma once

#include <string>
#include <vector>

namespace moelab {

struct CompareSettings;
struct Scenario;

struct ComparedRouting {
  std::string trace, law;  // as asked; both empty: the scenario's own
  std::string document;    // scenario_document() with it, of the scenario's only system
};

/// Traces, then laws, in the order asked for; of none the scenario's own routing. A trace brings its requests
/// with their lengths: as many of its first as the workload asks for, or all where it has fewer. Throws
/// InputError, which names the option, for one that is twice there, cannot be read, or does not fit the model
/// or the workload.
std::vector<ComparedRouting> compared_routings(const Scenario& scenario, const CompareSettings& settings);

}  // namespace moelab
