// When to go from one placement to another: what it costs (Eq. 3 of Prism, arXiv 2508.12851) and whether it
// pays (Eq. 4).
#pragma once

#include <cstdint>

#include "policies/placement/placement.hpp"

namespace moelab {

struct MigrationCost {
  std::uint64_t experts = 0;   // that come to a GPU which did not hold them
  double bytes = 0;            // of them
  double seconds = 0;          // Eq. 3: loading them one after the other
  double longest_seconds = 0;  // of one server: how long it takes when servers load at once
};

/// What it costs to go `from` one placement `to` another. Only arrivals count: Eq. 3 as printed adds up every
/// z that changes, and so charges also for experts that leave, which moves no bytes. An expert that changes
/// its GPU within a server counts (keep_in_place spares most of those). Both must be of the shape. Throws
/// InputError when experts come to a server of which no load speed is stated.
MigrationCost migration_cost(const PlacementShape& shape, const Placement& from, const Placement& to);
/// Its seconds, T_mig of Eq. 3.
double migration_seconds(const PlacementShape& shape, const Placement& from, const Placement& to);

/// `to`, with the experts of each server dealt to its GPUs so that those which a GPU has already stay there,
/// as far as the number on each GPU stays as in `to`.
Placement keep_in_place(const PlacementShape& shape, const Placement& from, const Placement& to);

struct MigrationTerms {
  double window_seconds = 0;       // in which the counts were counted
  double remote_call_seconds = 0;  // that a remote call takes longer than a local one, measured mean
  double horizon_seconds = 0;      // for which the new placement is expected to serve as the counts say
};

struct MigrationDecision {
  double calls_saved_per_second = 0;  // remote calls; negative: the new placement has more
  double seconds_saved = 0;           // over the horizon
  double migration_seconds = 0;       // Eq. 3
  bool adopt = false;                 // seconds_saved > migration_seconds
};

/// Eq. 4 with its units mended. The paper compares C(P') + T_mig < C(P), where C is a number of remote calls
/// (Eq. 2) and T_mig seconds. Here a call costs remote_call_seconds, and the calls of the window are those of
/// every window over the horizon:
///   (C(P) - C(P')) / window * horizon * remote_call_seconds > T_mig
/// The paper's inequality is the case horizon / window * remote_call_seconds = 1 s. A longer horizon adopts
/// more; the least that adopts is proportional to T_mig. Throws InputError for a window that is not above 0,
/// for terms that are negative or not finite, and as migration_cost and check_activation_counts do.
MigrationDecision decide_migration(const PlacementShape& shape, const ActivationCounts& counts,
                                   const Placement& from, const Placement& to, const MigrationTerms& terms);

}  // namespace moelab
