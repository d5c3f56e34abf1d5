#include "experiments/claims/claim.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <stdexcept>

namespace moelab::claims {
namespace {

constexpr std::array<Verdict, 4> kVerdicts = {Verdict::comes_out, Verdict::order_comes_out,
                                              Verdict::does_not_come_out, Verdict::cannot_be_known};

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::comes_out:
      return "comes out";
    case Verdict::order_comes_out:
      return "order comes out";
    case Verdict::does_not_come_out:
      return "does not come out";
    case Verdict::cannot_be_known:
      return "cannot be known";
  }
  throw std::logic_error("no such verdict");
}

double relative_error(Figure figure) {
  if (figure.paper == figure.ours) return 0;
  const double error = std::abs(figure.ours - figure.paper) / std::abs(figure.paper);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

Verdict judge(std::span<const Figure> figures, bool order) {
  if (!order) return Verdict::does_not_come_out;
  const bool sizes = std::all_of(figures.begin(), figures.end(),
                                 [](Figure f) { return relative_error(f) <= kSizeTolerance; });
  return sizes ? Verdict::comes_out : Verdict::order_comes_out;
}

void check(const std::vector<Claim>& claims) {
  std::set<std::string> ids;
  for (const Claim& c : claims) {
    if (!ids.insert(c.id).second) throw std::logic_error("claim " + c.id + " stands twice");
    if (c.claim.empty() || c.paper.empty() || c.ours.empty())
      throw std::logic_error("claim " + c.id + " has an empty column");
    const bool needs_reason =
        c.verdict == Verdict::does_not_come_out || c.verdict == Verdict::cannot_be_known;
    if (needs_reason && c.because.empty())
      throw std::logic_error("claim " + c.id + " " + verdict_name(c.verdict) + ", and nothing says why");
    for (const std::string* text : {&c.claim, &c.paper, &c.ours, &c.because})
      if (text->find_first_of("|\n") != std::string::npos)
        throw std::logic_error("claim " + c.id + ": text that breaks a table");
  }
}

void print_claims(const std::vector<Claim>& claims) {
  check(claims);
  std::printf(
      "| row | claim | paper | ours | verdict | reading, or what decides it |\n|---|---|---|---|---|---|\n");
  for (const Claim& c : claims)
    std::printf("| %s | %s | %s | %s | %s | %s |\n", c.id.c_str(), c.claim.c_str(), c.paper.c_str(),
                c.ours.c_str(), verdict_name(c.verdict), c.because.c_str());
  std::fflush(stdout);
}

std::string counts(const std::vector<Claim>& claims) {
  std::string text = std::to_string(claims.size()) + " claims";
  const char* separator = ": ";
  for (const Verdict verdict : kVerdicts) {
    const auto n =
        std::count_if(claims.begin(), claims.end(), [&](const Claim& c) { return c.verdict == verdict; });
    text += separator + std::string(verdict_name(verdict)) + " " + std::to_string(n);
    separator = ", ";
  }
  return text;
}

}  // namespace moelab::claims
