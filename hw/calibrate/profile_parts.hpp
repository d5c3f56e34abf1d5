// The sections of a profile, each from the results that it is made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hw/calibrate/curve_figures.hpp"

namespace moelab {

struct Measurements {
  const std::vector<BenchResult>& results;
  const ProfileContext& context;

  BenchPoints of(std::string_view name, const BenchParameters& parameters = {}) const {
    return select(results, name, parameters);
  }
  bool has_gpu() const { return !of("cuda-expert").empty(); }
  /// Why a case gave nothing: the first reason of a result that was not measured.
  std::string why_not(std::string_view name, const BenchParameters& parameters = {}) const;
};

/// What a curve is made of. Throws InputError unless there are two amounts, with the reason.
BenchPoints points_for_curve(const Measurements& measured, const std::string& path, std::string_view name,
                             const BenchParameters& parameters, CurveAmount amount);

void add_memory(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile);
void add_storage(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile);
/// Nothing where it was not measured.
void add_slowdown_while_reading(const Measurements& measured, FigureLedger& ledger, CpuProfile& cpu);
void add_codecs(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile);
void add_cpu(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile);
/// Only where the GPU's cases were measured; the profile then computes and recovers there.
void add_gpu(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile);

/// Codecs and remapping, each where it was measured: of a GPU with memory of its own, or of a stand-in's
/// threads.
void add_paging(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu);

/// The mean of what chunks stored over what they hold, spread over them. They differ, but measured again they
/// are the same: nothing of that is noise.
Sourced<double> enter_ratio(FigureLedger& ledger, const std::string& path, const std::string& what,
                            const std::vector<double>& chunks);

/// Median factors at numbers of users, for each number from 1 on: those between by a line, none below 1 or
/// below the one before. Sets the account's correction.
struct UserFactor {
  std::uint64_t users;
  double factor;
};
std::vector<double> factors_by_users(const std::vector<UserFactor>& known, double& correction);

/// A roofline of points that say what they compute and move. nullopt where they make none.
std::optional<RooflineFit> roofline_of(const BenchPoints& points);

/// "1, 1.2, 1.9".
std::string shown_factors(const std::vector<double>& factors);

}  // namespace moelab
