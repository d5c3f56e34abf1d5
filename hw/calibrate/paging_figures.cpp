// What a GPU with memory of its own needs to page weights: codes that it decodes from that memory, and
// address space that it backs with other memory. A profile does without what was not measured.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "hw/calibrate/profile_parts.hpp"
#include "models/units.hpp"

namespace moelab {

namespace {

/// The kernel's largest amount: what launching takes is then next to nothing of it. nullptr where no kernel
/// that decodes the codec was measured.
const BenchResult* largest_recovery(const Measurements& measured, const std::string& codec) {
  const BenchResult* largest = nullptr;
  for (const BenchResult* point : measured.of("cuda-recover", {{"codec", codec}}))
    if (point->bytes_per_second() > 0 && (largest == nullptr || point->bytes > largest->bytes))
      largest = point;
  return largest;
}

/// Sign-mantissa planes lie there as they are: half of the plain weights.
std::vector<double> of_whole_weights(std::vector<double> exponent_ratios) {
  for (double& ratio : exponent_ratios) ratio = (1 + ratio) / 2;
  return exponent_ratios;
}

void add_gpu_codecs(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  for (const CodecRatio& ratio : measured.context.ratios) {
    const BenchResult* const largest = largest_recovery(measured, ratio.codec);
    if (largest == nullptr) continue;
    const std::string path = "gpu.codecs." + ratio.profile_name;
    GpuCodecProfile& codec = gpu.codecs[ratio.profile_name];
    codec.ratio =
        enter_ratio(ledger, path + ".ratio",
                    "stored over plain bytes of whole weights, (1 + that of their exponents) / 2: " +
                        measured.context.ratios_of,
                    of_whole_weights(ratio.samples));
    Account account = account_of("cuda-recover codec=" + ratio.codec, {largest});
    account.how = "at the largest amount measured, " + to_string(Bytes(largest->bytes)) + " of BF16";
    const BytesPerSecond rate(largest->bytes_per_second());
    codec.rate = ledger.enter(path + ".rate", rate, to_string(rate), account, FigureLedger::Kind::inverse);
  }
}

/// Mapping and unmapping of the same bytes, added round by round. nullopt unless both were measured.
std::optional<BenchResult> remapping(const Measurements& measured, const BenchResult& map) {
  const std::uint64_t bytes = map.parameters.number("bytes");
  const BenchPoints unmaps = measured.of("cuda-remap", {{"step", "unmap"}, {"bytes", bytes}});
  if (unmaps.empty()) return std::nullopt;
  BenchResult both;
  both.name = map.name;
  both.parameters = {{"bytes", bytes}};
  const std::vector<double>& unmap = unmaps.front()->samples;
  for (std::size_t i = 0; i < std::min(map.samples.size(), unmap.size()); ++i)
    both.samples.push_back(map.samples[i] + unmap[i]);
  both.statistics = statistics_of(both.samples);
  if (!(both.statistics.median > 0)) return std::nullopt;
  return both;
}

void add_remap(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  std::vector<BenchResult> sums;
  for (const BenchResult* map : measured.of("cuda-remap", {{"step", "map"}}))
    if (std::optional<BenchResult> both = remapping(measured, *map)) sums.push_back(std::move(*both));
  BenchPoints points;
  for (const BenchResult& sum : sums) points.push_back(&sum);
  if (amounts_of(points, CurveAmount::bytes) < 2) return;
  gpu.remap =
      enter_curve(ledger, "gpu.remap", "cuda-remap, map and unmap of the same bytes, added round by round",
                  points, CurveAmount::bytes);
}

}  // namespace

void add_paging(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  add_gpu_codecs(measured, ledger, gpu);
  add_remap(measured, ledger, gpu);
}

}  // namespace moelab
