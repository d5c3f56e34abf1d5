// The values of a key that a goal is searched over: even steps between two ends, or those of them that are
// possible.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

struct GoalDomain {
  double low = 0, high = 0, step = 1;  // in `unit`
  std::string unit;                    // as written: "GB"; "": a plain number
  double scale = 1;                    // base units in one of `unit`: 1e9 bytes
  bool whole = false;                  // whole numbers
  bool high_is_most = false;           // the machine has no more than the high end
  std::vector<double> values{};        // rising: these alone are places; empty: all steps are

  std::size_t last() const;                    // place of the last value: the high end
  double at(std::size_t place) const;          // in `unit`
  std::string text(std::size_t place) const;   // "14.179869184 GB", as a file would have it
  std::string shown(std::size_t place) const;  // "14.18 GB", for people: four significant digits, more where
                                               // steps are finer; whole numbers as they are
};

/// What a search is asked for; empty texts: by default.
struct AskedDomain {
  std::string key;  // for messages, as --set has it
  std::string from, to, step;
  std::string now;     // the value that the scenario has; "": none
  std::string most;    // a value that none may be above; "": there is none
  bool whole = false;  // the key takes whole numbers only
};

/// From a quarter of `now` to four times it, where ends are not given, in steps of 1, 2 or 5 times a power of
/// ten of which 100 to 250 lie between them; of whole numbers at least 1. All texts have the same dimension.
/// Throws InputError about "--from", "--to" or "--step": no number with the right unit, ends in the wrong
/// order, more than a million steps, no value to begin with.
GoalDomain goal_domain(const AskedDomain& asked);

}  // namespace moelab
