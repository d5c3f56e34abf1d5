// Rows of the papers whose sizes hang on what software costs (Z13 to Z19, F3 to F8, P1, P2), computed again
// with that taken from configs/runtimes: what the papers, their code or third parties state elsewhere than in
// these rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/claims/claim.hpp"

namespace moelab::claims {

/// What software costs.
enum class Software : std::uint8_t {
  as_today,  // assumed or fitted, as in the table of claims
  stated,    // by configs/runtimes
  other_end  // the same with what decides the row at its other end
};

struct RuntimeRow {
  std::string id;                     // "Z16"
  std::string claim;                  // in a few words
  std::vector<std::string> runtimes;  // of configs/runtimes, that its systems run in
  std::string other_end;              // what the last column assumes in their place
};
/// The rows, in the papers' order.
const std::vector<RuntimeRow>& runtime_rows();

/// Of one row.
struct RuntimeFigure {
  std::string id;
  std::string what;  // "+C, tokens/s"
  double paper = 0, today = 0, stated = 0, other_end = 0;
};
/// Whether the figure under stated runtimes is within kSizeTolerance of the paper's.
bool comes_within(const RuntimeFigure& figure);

/// "all", "2 of 4" or "none": of a row's figures, those that are within, by one of their columns.
std::string within_text(const std::vector<RuntimeFigure>& figures, const std::string& id,
                        double RuntimeFigure::*of);
/// One line of the table of figures.
std::string line_of(const RuntimeFigure& figure);
/// Throws std::logic_error where a figure is of no row, a row of `papers` ("ZFP": their letters) has no
/// figure, or text could break a table.
void check(const std::vector<RuntimeFigure>& figures, const std::string& papers);
/// Two Markdown tables: rows, and their figures.
void print_runtime_figures(const std::vector<RuntimeFigure>& figures);

/// The figures of each study, run anew with one seed, Prism's with three.
std::vector<RuntimeFigure> zipmoe_runtime_figures();   // experiments/zipmoe/zipmoe_runtimes.cpp
std::vector<RuntimeFigure> fluxmoe_runtime_figures();  // experiments/fluxmoe/fluxmoe_runtimes.cpp
std::vector<RuntimeFigure> prism_runtime_figures();    // experiments/prism/prism_runtimes.cpp

}  // namespace moelab::claims
