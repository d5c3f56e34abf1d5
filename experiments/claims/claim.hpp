// A numbered claim of a paper (shared names: Z1 to Z21, S1 to S14, F1 to F12, P1 to P7), our figure beside
// it, and what came of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/results/statistics.hpp"

namespace moelab::claims {

enum class Verdict {
  comes_out,          // the order holds and every size is within kSizeTolerance of the paper's
  order_comes_out,    // the order holds, some size does not
  does_not_come_out,  // the order does not hold
  cannot_be_known     // it needs what no source states or what no machine here can do, or it set a free
                      // parameter
};
const char* verdict_name(Verdict verdict);

inline constexpr double kSizeTolerance = 0.15;  // of the paper's value

/// One figure of a claim, both in the same unit.
struct Figure {
  double paper = 0;
  double ours = 0;
};
/// |ours - paper| / |paper|; where the paper's is 0: 0 if ours is 0 too, else infinity. NaN is an infinite
/// error.
double relative_error(Figure figure);
/// Verdict of sizes and of the order that the claim is about; which one is the
/// caller's: of a claim that one thing is ahead of another, who is ahead; of a claim of how much (F5, S6,
/// S10, S11), the same sign and within a factor of two.
Verdict judge(std::span<const Figure> figures, bool order);

struct Claim {
  std::string id;     // "Z16"
  std::string claim;  // what is compared, in a few words
  std::string paper;  // the paper's figures, with units
  std::string ours;   // ours, in the same form; with a 95 % interval over seeds where chance has a say
  Verdict verdict = Verdict::cannot_be_known;
  std::string
      because;  // the reading used where there are several; for does_not_come_out the one assumption that
                // decides it, for cannot_be_known what is missing. Neither may be empty for those two.
};

/// Throws std::logic_error where a claim lacks what its verdict needs, an id stands twice, or text could
/// break a table.
void check(const std::vector<Claim>& claims);
/// A Markdown table, one row a claim.
void print_claims(const std::vector<Claim>& claims);
/// "54 claims: comes out 20, order comes out 18, ..."
std::string counts(const std::vector<Claim>& claims);

using moelab::Interval;
using moelab::interval95;

/// The claims of each study, run anew (seconds to minutes each; progress goes to standard error).
std::vector<Claim> zipmoe_claims();   // experiments/zipmoe/zipmoe_claims.cpp
std::vector<Claim> smoe_claims();     // experiments/smoe/smoe_claims.cpp
std::vector<Claim> fluxmoe_claims();  // experiments/fluxmoe/fluxmoe_claims.cpp
std::vector<Claim> prism_claims();    // experiments/prism/prism_claims.cpp

}  // namespace moelab::claims
