// The requests of a cluster's servers, and the rows of routing that they run.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/placement/placement.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/paged_plan.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// A pool of rows for each task, which its requests run over and over; the n-th request of the trace is the
/// n-th task's pool. The second half of each pool is what the first placement is made from: other tokens of
/// the same users. Throws InputError for counts that do not suit the model or name no such domain.
RoutingTrace task_rows(const Scenario& scenario);

/// Of each server, in order of arrival. What one server's users ask does not depend on the others.
std::vector<std::vector<ServedRequest>> cluster_requests(const Scenario& scenario, const RoutingTrace& rows);

/// How often each server's users used each expert of each layer before: tokens a second (where all requests
/// are there from the start, tokens), from the rate of requests, the shares of tasks and their mean lengths.
/// Servers without users count nothing.
ActivationCounts history_counts(const Scenario& scenario, const RoutingTrace& rows);

}  // namespace moelab
