#include "hw/calibrate/figure_ledger.hpp"

#include <algorithm>
#include <cstdio>

namespace moelab {

namespace {

constexpr double kCorrectionWorthSaying = 1e-9;
constexpr std::size_t kFewestSamples = 5;  // below, a variation says nothing

/// A profile's key for the source of a value: "cpu.experts 2048x1408x3" -> "cpu_experts_2048x1408x3".
std::string source_name(std::string path) {
  std::ranges::replace_if(
      path, [](char c) { return c == '.' || c == ' '; }, '_');
  return path;
}

std::string noise_of(const Account& account) {
  return account.variation > kNoisyVariation ? "noisy (cv " + percent(account.variation) + ")"
                                             : "noisy (too few samples to tell)";
}

std::string text_of(const Account& account) {
  std::string text = account.what;
  const auto add = [&](const std::string& more) { text += "; " + more; };
  if (account.points > 0)
    add(std::to_string(account.samples) + " samples at " + std::to_string(account.points) +
        (account.points == 1 ? " point" : " points"));
  if (!account.how.empty()) add(account.how);
  if (account.correction > kCorrectionWorthSaying)
    add("values that rose less than they must: corrected by " + percent(account.correction) + " at most");
  if (!account.fit.empty()) add(account.fit + " within " + percent(account.quality.error));
  if (account.noisy) add(noise_of(account));
  return text;
}

}  // namespace

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %%", part < 0.0995 ? 1 : 0, 100 * part);
  return text;
}

Account account_of(std::string what, const BenchPoints& points) {
  Account account;
  account.what = std::move(what);
  account.points = points.size();
  std::vector<double> factors;
  for (const BenchResult* point : points) {
    account.variation = std::max(account.variation, point->statistics.variation);
    account.noisy = account.noisy || point->noisy();
    for (const double sample : point->samples)
      if (point->statistics.median > 0) factors.push_back(sample / point->statistics.median);
  }
  account.samples = factors.size();
  const SampleStatistics found = statistics_of(factors);
  if (found.count > 0)  // equal samples may differ in the last digit
    account.spread =
        Spread{std::min(found.p10, found.median), found.median, std::max(found.median, found.p90)};
  return account;
}

Account account_of(std::string what, std::size_t points, const SampleStatistics& ratios) {
  Account account;
  account.what = std::move(what);
  account.points = points;
  account.samples = ratios.count;
  account.variation = ratios.variation;
  account.noisy = ratios.count < kFewestSamples || ratios.variation > kNoisyVariation;
  if (ratios.median > 0) account.spread = Spread{ratios.p10 / ratios.median, 1, ratios.p90 / ratios.median};
  return account;
}

void PairedRatios::add(const BenchResult& above, const BenchResult& below, double times) {
  for (std::size_t i = 0; i < std::min(above.samples.size(), below.samples.size()); ++i)
    if (below.samples[i] > 0) ratios_.push_back(times * above.samples[i] / below.samples[i]);
}

FigureLedger::FigureLedger(const ProfileContext& context) {
  const MachineContext& machine = context.machine;
  where_ =
      context.command + ", " + machine.date.substr(0, 10) + ", " + machine.cpu + ", " + machine.kernel + ": ";
}

std::string FigureLedger::note(const std::string& path, const std::string& shown, const Account& account,
                               bool in_profile) {
  CalibrationFigure figure;
  figure.path = path;
  figure.in_profile = in_profile;
  figure.value = shown;
  figure.source = where_ + text_of(account);
  figure.spread = account.spread;
  figure.variation = account.variation;
  figure.points = account.points;
  figure.samples = account.samples;
  figure.noisy = account.noisy;
  if (!account.quality.residuals.empty()) figure.fit_error = account.quality.error;
  figure.residuals = account.quality.residuals;
  figure.correction = account.correction;
  const std::string name = source_name(path);
  if (in_profile) sources_[name] = {name, Source::Kind::measured, figure.source};
  figures_.push_back(std::move(figure));
  return name;
}

std::string FigureLedger::note_unmeasured(const std::string& path, const std::string& shown,
                                          Source::Kind kind, const std::string& why) {
  CalibrationFigure figure;
  figure.path = path;
  figure.value = shown;
  figure.source = std::string(to_string(kind)) + ": " + why;
  const std::string name = source_name(path);
  sources_[name] = {name, kind, why};
  figures_.push_back(std::move(figure));
  return name;
}

}  // namespace moelab
