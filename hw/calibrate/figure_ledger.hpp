// Enters numbers into a profile with their sources, and keeps what people want to know of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hw/calibrate/calibrated_profile.hpp"
#include "hw/calibrate/least_squares.hpp"

namespace moelab {

using BenchPoints = std::vector<const BenchResult*>;

/// What a number is taken from.
struct Account {
  std::string what;  // "read mode=io_uring depth=1"
  std::size_t points = 0, samples = 0;
  double variation = 0;
  bool noisy = false;
  std::optional<Spread> spread;  // factors on the value
  std::string how;               // it was made of those, a phrase; may be empty
  std::string fit;               // what fits the points, for people; may be empty
  FitQuality quality;            // of that
  double correction = 0;         // largest, of values made rising
};

/// Of points' medians: the largest variation of a point, the spread of all samples over their medians.
Account account_of(std::string what, const BenchPoints& points);
/// Of ratios: their own variation, percentiles over their median.
Account account_of(std::string what, std::size_t points, const SampleStatistics& ratios);
/// Of a factor: the samples of `above` over those of `below`, round by round, with those of other pairs. What
/// changed with the machine's mood changed both.
class PairedRatios {
 public:
  void add(const BenchResult& above, const BenchResult& below, double times = 1);
  bool empty() const { return ratios_.empty(); }
  SampleStatistics statistics() const { return statistics_of(ratios_); }

 private:
  std::vector<double> ratios_;
};

class FigureLedger {
 public:
  explicit FigureLedger(const ProfileContext& context);

  /// What a spread of times is to the value: as much of it, of its inverse, or factors (curves and lists).
  enum class Kind { same, inverse, factors };
  template <class T>
  Sourced<T> enter(const std::string& path, T value, const std::string& shown, const Account& account,
                   Kind kind = Kind::factors) {
    const std::optional<Spread> spread = spread_of(value, account, kind);
    return {std::move(value), note(path, shown, account, true), spread};
  }
  /// Something that was not measured, and why.
  template <class T>
  Sourced<T> enter_unmeasured(const std::string& path, T value, const std::string& shown, Source::Kind kind,
                              const std::string& why) {
    return {std::move(value), note_unmeasured(path, shown, kind, why), {}};
  }
  /// Measured, but a profile has no place for it.
  void show(const std::string& path, const std::string& shown, const Account& account) {
    note(path, shown, account, false);
  }

  const std::map<std::string, Source>& sources() const { return sources_; }
  const std::vector<CalibrationFigure>& figures() const { return figures_; }

 private:
  std::string note(const std::string& path, const std::string& shown, const Account& account,
                   bool in_profile);
  std::string note_unmeasured(const std::string& path, const std::string& shown, Source::Kind kind,
                              const std::string& why);
  template <class T>
  static std::optional<Spread> spread_of(const T& value, const Account& account, Kind kind) {
    if (!account.spread || kind == Kind::factors) return account.spread;
    const Spread s = *account.spread;
    double v = 0;
    if constexpr (std::is_same_v<T, double>)
      v = value;
    else if constexpr (requires { value.value(); })
      v = value.value();
    if (kind == Kind::inverse) return Spread{v / s.p90, v / s.p50, v / s.p10};
    return Spread{v * s.p10, v * s.p50, v * s.p90};
  }

  std::string where_;  // and when and by which command
  std::map<std::string, Source> sources_;
  std::vector<CalibrationFigure> figures_;
};

/// "12.3 %".
std::string percent(double part);

}  // namespace moelab
