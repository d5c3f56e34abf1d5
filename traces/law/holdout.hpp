// How near the fitted generator comes to recorded routing that it was not fitted to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/law/law_fit.hpp"

namespace moelab {

/// One figure: its means over the layers in the three traces, and the mean over the layers of how far one is
/// from the other. NaN where the traces cannot tell.
struct HoldoutRow {
  std::string name;
  double fitted_to = 0;          // recorded requests 0, 2, 4, ..: the law is fitted to them
  double held_out = 0;           // recorded requests 1, 3, 5, ..
  double drawn = 0;              // drawn from the law, with the held-out requests' lengths and domains
  double drawn_difference = 0;   // of drawn and held_out
  double halves_difference = 0;  // of fitted_to and held_out: recordings themselves differ by so much
  double worst_difference = 0;   // of drawn and held_out, in the layer where it is largest
  std::uint32_t worst_layer = 0;
  double limit = 0;       // of drawn_difference; relative (to held_out) for gates, else absolute; 0: none
  bool relative = false;  // differences are relative
};

/// The row, of those with a limit that is not relative, whose worst layer is furthest off; null: there is
/// none.
const HoldoutRow* worst_of(const std::vector<HoldoutRow>& rows);

/// Fits to every other request, draws requests like the rest with `seed`, compares. Throws InputError if
/// there are fewer than two requests, or what fit_routing_law throws.
std::vector<HoldoutRow> holdout(const RoutingTrace& trace, const FitOptions& options, std::uint64_t seed);

}  // namespace moelab
