// Storage and the page cache: reads by size, beside each other and beside decompression.
#include <algorithm>
#include <cmath>

#include "hw/calibrate/profile_parts.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

// What a profile takes for a slowdown.
constexpr double kLeastSlowdown = 1, kMostSlowdown = 100;

/// As the executor reads: past the page cache, one at a time; what the system refuses, in the next best way.
std::string reading_mode(const Measurements& measured) {
  for (const char* mode : {"io_uring", "direct", "buffered"})
    if (amounts_of(measured.of("read", {{"mode", mode}, {"depth", std::uint64_t{1}}}), CurveAmount::bytes) >=
        2)
      return mode;
  throw InputError("ssd.read", "cannot be measured here: " + measured.why_not("read"));
}

/// The depth-1 read of a size nearest to a tensor's plane, which is what most reads are of.
const BenchResult* single_read(const Measurements& measured) {
  const ExpertShape& first = measured.context.experts.front();
  const double usual = static_cast<double>(first.hidden * first.width);
  const BenchPoints reads = measured.of("read", {{"mode", "io_uring"}, {"depth", std::uint64_t{1}}});
  const auto nearest = std::ranges::min_element(
      reads, {}, [&](const BenchResult* read) { return std::abs(read->bytes - usual); });
  return nearest == reads.end() ? nullptr : *nearest;
}

Sourced<std::vector<double>> readers(const Measurements& measured, FigureLedger& ledger) {
  const std::string path = "ssd.readers";
  const BenchResult* alone = single_read(measured);
  std::vector<UserFactor> known;
  PairedRatios all;
  if (alone != nullptr) {
    const std::uint64_t bytes = alone->parameters.number("bytes");
    BenchPoints several = measured.of("read", {{"mode", "io_uring"}, {"bytes", bytes}});
    std::ranges::sort(several, {}, [](const BenchResult* r) { return r->parameters.number("depth"); });
    for (const BenchResult* read : several) {
      const std::uint64_t depth = read->parameters.number("depth");
      if (depth < 2) continue;
      // So many under way, one ends every median: each took that many of those.
      PairedRatios ratios;
      ratios.add(*read, *alone, static_cast<double>(depth));
      if (ratios.empty()) continue;
      known.push_back({depth, ratios.statistics().median});
      all.add(*read, *alone, static_cast<double>(depth) / known.back().factor);
    }
  }
  if (known.empty())
    return ledger.enter_unmeasured(
        path, std::vector<double>{1, 2}, "1, 2", Source::Kind::assumed,
        "reads share a fixed rate; " + measured.why_not("read", {{"mode", "io_uring"}}));
  double correction = 0;
  const std::vector<double> factors = factors_by_users(known, correction);
  Account account =
      account_of("read mode=io_uring bytes=" + std::to_string(alone->parameters.number("bytes")) +
                     ", several at a time over one",
                 known.size(), all.statistics());
  account.correction = correction;
  return ledger.enter(path, factors, shown_factors(factors), account);
}

constexpr const char* kInterference = "interference";

/// Threads that work while another one reads: a core stays for that one, where there is more than one.
std::uint64_t most_beside_reads(const Measurements& measured) {
  const std::uint64_t cores = std::max(1U, measured.context.machine.cores);
  return std::max<std::uint64_t>(1, cores - 1);
}

/// The median of times beside something over times alone; no less than 1, since nothing is done faster beside
/// others.
Sourced<double> enter_slowdown(const std::string& path, const std::string& what, std::size_t points,
                               const PairedRatios& ratios, FigureLedger& ledger) {
  const SampleStatistics found = ratios.statistics();
  Account account = account_of(what, points, found);
  if (found.median < 1)
    account.how = shown_factors({found.median}) + ", taken as 1: it is no faster beside others";
  const auto within = [](double factor) { return std::clamp(factor, kLeastSlowdown, kMostSlowdown); };
  const Spread spread{within(found.p10), within(found.median), within(found.p90)};
  const double value = spread.p50;
  account.spread = Spread{spread.p10 / value, 1, spread.p90 / value};
  Sourced<double> slowdown = ledger.enter(path, value, shown_factors({value}), account);
  slowdown.spread = spread;  // the account's, times the value, may round to less than the least
  return slowdown;
}

Sourced<double> slowdown_while_decompressing(const Measurements& measured, FigureLedger& ledger) {
  const std::string path = "ssd.slowdown_while_decompressing";
  const BenchPoints alone =
      measured.of(kInterference, {{"timed", "read"}, {"beside", "nothing"}, {"mode", "io_uring"}});
  PairedRatios ratios;
  std::size_t points = 0;
  for (const BenchResult* beside :
       measured.of(kInterference, {{"timed", "read"}, {"beside", "decompress"}, {"mode", "io_uring"}})) {
    if (alone.empty() || beside->parameters.number("threads") > most_beside_reads(measured)) continue;
    ratios.add(*beside, *alone.front());
    ++points;
  }
  if (ratios.empty())
    return ledger.enter_unmeasured(path, 1.0, "1", Source::Kind::assumed,
                                   "none; " + measured.why_not(kInterference));
  return enter_slowdown(path, "interference, reads beside decompression over reads alone", points, ratios,
                        ledger);
}

}  // namespace

void add_storage(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile) {
  const std::string mode = reading_mode(measured);
  const auto curve = [&](const std::string& path, const std::string& how) {
    const BenchParameters which = {{"mode", how}, {"depth", std::uint64_t{1}}};
    return enter_curve(ledger, path, "read " + to_string(which),
                       points_for_curve(measured, path, "read", which, CurveAmount::bytes),
                       CurveAmount::bytes, Beyond::no_faster_rate);
  };
  profile.ssd.read = curve("ssd.read", mode);
  profile.ssd.slowdown_while_decompressing = slowdown_while_decompressing(measured, ledger);
  profile.ssd.readers = readers(measured, ledger);
  profile.page_cache.read = curve("page_cache.read", "cached");
}

void add_slowdown_while_reading(const Measurements& measured, FigureLedger& ledger, CpuProfile& cpu) {
  PairedRatios ratios;
  std::size_t points = 0;
  for (const BenchResult* beside : measured.of(kInterference, {{"beside", "read"}, {"mode", "io_uring"}})) {
    const BenchParameters& point = beside->parameters;
    if (point.number("threads") > most_beside_reads(measured)) continue;
    const BenchPoints alone = measured.of(kInterference, {{"timed", point.text("timed")},
                                                          {"beside", "nothing"},
                                                          {"codec", point.text("codec")},
                                                          {"threads", point.number("threads")}});
    if (alone.empty()) continue;
    ratios.add(*beside, *alone.front());
    ++points;
  }
  if (ratios.empty()) return;  // a profile does without: reads are then taken to cost the CPU nothing
  cpu.slowdown_while_reading = enter_slowdown(
      "cpu.slowdown_while_reading", "interference, decompression and an expert beside reads over each alone",
      points, ratios, ledger);
}

void add_codecs(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile) {
  for (const CodecRatio& ratio : measured.context.ratios) {
    const std::string path = "codecs." + ratio.profile_name;
    CodecProfile& codec = profile.codecs[ratio.profile_name];
    codec.ratio = enter_ratio(ledger, path + ".ratio",
                              "stored over plain bytes of " + measured.context.ratios_of, ratio.samples);
    const BenchParameters which = {{"codec", ratio.codec}, {"threads", std::uint64_t{1}}};
    codec.decompress =
        enter_curve(ledger, path + ".decompress", "decompress " + to_string(which),
                    points_for_curve(measured, path + ".decompress", "decompress", which, CurveAmount::bytes),
                    CurveAmount::bytes, Beyond::no_faster_rate);
  }
}

}  // namespace moelab
