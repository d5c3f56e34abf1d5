// The 54 numbered claims of the four papers with their verdicts.
// usage: claims [zipmoe] [smoe] [fluxmoe] [prism]        prints a Markdown table; no name: all of them
//        claims runtimes [zipmoe] [fluxmoe] [prism]      rows that hang on software, again under runtimes
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/claim.hpp"
#include "experiments/claims/runtime_rows.hpp"

namespace {

using namespace moelab::claims;

struct Study {
  const char* name;
  char letter;  // of its paper's rows
  std::vector<Claim> (*claims)();
  std::vector<RuntimeFigure> (*figures)();  // nullptr: no row of it hangs on software
};
constexpr Study kStudies[] = {{"zipmoe", 'Z', zipmoe_claims, zipmoe_runtime_figures},
                              {"smoe", 'S', smoe_claims, nullptr},
                              {"fluxmoe", 'F', fluxmoe_claims, fluxmoe_runtime_figures},
                              {"prism", 'P', prism_claims, prism_runtime_figures}};

/// Those of the names, in the papers' order; empty where one is unknown.
std::vector<Study> studies_of(const std::vector<std::string>& names, bool runtimes) {
  std::vector<Study> all, wanted;
  for (const Study& study : kStudies)
    if (!runtimes || study.figures != nullptr) all.push_back(study);
  if (names.empty()) return all;
  for (const std::string& name : names)
    if (std::none_of(all.begin(), all.end(), [&](const Study& s) { return name == s.name; })) return {};
  for (const Study& study : all)
    if (std::find(names.begin(), names.end(), study.name) != names.end()) wanted.push_back(study);
  return wanted;
}

void print_all_claims(const std::vector<Study>& studies) {
  std::vector<Claim> all;
  for (const Study& study : studies) {
    std::fprintf(stderr, "running %s\n", study.name);
    for (Claim& claim : study.claims()) all.push_back(std::move(claim));
  }
  check(all);
  std::printf("%s.\n\n", counts(all).c_str());
  print_claims(all);
}

void print_under_runtimes(const std::vector<Study>& studies) {
  std::vector<RuntimeFigure> all;
  std::string papers;
  for (const Study& study : studies) {
    std::fprintf(stderr, "running %s\n", study.name);
    for (RuntimeFigure& figure : study.figures()) all.push_back(std::move(figure));
    papers += study.letter;
  }
  check(all, papers);
  print_runtime_figures(all);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  const bool runtimes = !names.empty() && names.front() == "runtimes";
  if (runtimes) names.erase(names.begin());
  const std::vector<Study> studies = studies_of(names, runtimes);
  if (studies.empty()) {
    std::fprintf(stderr, "claims: no study has this name; there are %szipmoe, fluxmoe and prism\n",
                 runtimes ? "" : "smoe, ");
    return 2;
  }
  try {
    runtimes ? print_under_runtimes(studies) : print_all_claims(studies);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "claims: %s\n", error.what());
    return 1;
  }
}
