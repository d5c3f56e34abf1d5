// The requests of a cluster's servers, and the rows of routing that they run.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/placement/placement.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/paged_plan.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// What the tasks' users use, a domain of the trace a task. Of a drawn task a pool of rows, one request of
/// the trace, which its requests run over and over; of a recorded one the requests that were recorded. The
/// second half of a pool, or of the requests, is what the first placement is made from: other tokens of the
/// same users. Throws InputError for counts that do not suit the model or name no such domain, and for
/// recorded requests that do not suit it, or lack a prompt or a layer.
RoutingTrace task_rows(const Scenario& scenario);

/// Of each server, in order of arrival. What one server's users ask does not depend on the others. Recorded
/// requests come in their order, each server's users beginning elsewhere, and again where there are too few.
/// `past`: what they asked before, from the half that the first placement is made from.
std::vector<std::vector<ServedRequest>> cluster_requests(const Scenario& scenario, const RoutingTrace& rows,
                                                         bool past = false);

/// How often each server's users used each expert of each layer before: tokens a second (where all requests
/// are there from the start, tokens), from the rate of requests, the shares of tasks and their mean lengths.
/// Servers without users count nothing.
ActivationCounts history_counts(const Scenario& scenario, const RoutingTrace& rows);

}  // namespace moelab
