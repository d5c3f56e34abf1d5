#include "hw/calibrate/calibrated_profile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "hw/calibrate/calibrate.hpp"
#include "hw/calibrate/profile_parts.hpp"
#include "models/device_writer.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

void require_none_failed(const std::vector<BenchResult>& results) {
  std::vector<Problem> problems;
  for (const BenchResult& result : results)
    if (result.status == BenchStatus::failed)
      problems.push_back({"bench " + result.title(), 0, 0, result.reason});
  if (!problems.empty()) throw InputError(std::move(problems));
}

}  // namespace

std::string Measurements::why_not(std::string_view name, const BenchParameters& parameters) const {
  for (const BenchResult& result : results)
    if (result.name == name && !result.measured() &&
        (result.parameters.all().empty() || result.parameters.include(parameters)))
      return std::string(name) + ": " + result.reason;
  return std::string(name) + " was not run at enough points";
}

BenchPoints points_for_curve(const Measurements& measured, const std::string& path, std::string_view name,
                             const BenchParameters& parameters, CurveAmount amount) {
  BenchPoints points = measured.of(name, parameters);
  if (amounts_of(points, amount) < 2)
    throw InputError(path, "cannot be measured here: " + measured.why_not(name, parameters));
  return points;
}

Sourced<double> enter_ratio(FigureLedger& ledger, const std::string& path, const std::string& what,
                            const std::vector<double>& chunks) {
  const SampleStatistics found = statistics_of(chunks);
  Account account = account_of(what, 0, found);
  account.noisy = false;
  account.spread = Spread{found.p10 / found.mean, found.median / found.mean, found.p90 / found.mean};
  return ledger.enter(path, found.mean, shown_factors({found.mean}), account, FigureLedger::Kind::same);
}

std::vector<double> factors_by_users(const std::vector<UserFactor>& known, double& correction) {
  std::vector<double> medians;
  for (const UserFactor& one : known) medians.push_back(std::max(one.factor, 1.0));
  const RisingValues rising = made_rising(medians);
  correction = rising.largest_correction;
  for (std::size_t i = 0; i < known.size(); ++i)
    correction = std::max(correction, std::abs(medians[i] / known[i].factor - 1));
  std::vector<double> factors = {1};
  for (std::size_t i = 0; i < known.size(); ++i) {
    const double from = factors.back();
    const auto first = static_cast<double>(factors.size()), last = static_cast<double>(known[i].users);
    while (factors.size() < known[i].users)
      factors.push_back(std::lerp(from, std::max(rising.values[i], from),
                                  (static_cast<double>(factors.size()) + 1 - first) / (last - first)));
  }
  return factors;
}

std::optional<RooflineFit> roofline_of(const BenchPoints& points) {
  std::vector<RooflinePoint> all;
  for (const BenchResult* point : points)
    all.push_back({point->flops, point->bytes, point->statistics.median});
  return fit_roofline(all);
}

std::string shown_factors(const std::vector<double>& factors) {
  std::string text;
  for (const double factor : factors) {
    char one[32];
    std::snprintf(one, sizeof one, "%s%.3g", text.empty() ? "" : ", ", factor);
    text += one;
  }
  return text;
}

MachineIdentity identity_of(const MachineContext& context) {
  return {context.cpu, context.kernel, context.driver, context.gpu};
}

CalibratedProfile profile_from(const std::vector<BenchResult>& results, const ProfileContext& context) {
  require_none_failed(results);
  const Measurements measured{results, context};
  FigureLedger ledger(context);
  DeviceProfile profile;
  profile.name = context.name;
  profile.title = context.title;
  profile.measured_on = MeasuredOn{identity_of(context.machine), context.machine.date.substr(0, 10),
                                   context.command, context.machine.libraries};
  add_memory(measured, ledger, profile);
  add_cpu(measured, ledger, profile);
  add_storage(measured, ledger, profile);
  add_codecs(measured, ledger, profile);
  add_gpu(measured, ledger, profile);
  profile.sources = ledger.sources();
  return {std::move(profile), ledger.figures()};
}

std::string calibrated_text(const DeviceProfile& profile) {
  std::vector<Problem> problems;
  std::string text;
  try {
    text = device_to_yaml(profile);
    const std::string odd = implausible_reads(profile.ssd.read.value);
    if (!odd.empty()) problems.push_back({"ssd.read", 0, 0, odd});
  } catch (const InputError& refused) {
    problems = refused.problems();
  }
  if (problems.empty()) return text;
  problems.push_back({"calibrate", 0, 0,
                      "what was measured makes no profile that a scenario takes, so none is written; measure "
                      "again when nothing else runs on the machine"});
  throw InputError(std::move(problems));
}

}  // namespace moelab
