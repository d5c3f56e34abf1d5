// What a GPU with memory of its own needs to page weights: codes that it decodes from that memory, and
// address space that it backs with other memory. A stand-in's are decoded and joined by a thread, and its
// address space is the process's. A profile does without what was not measured.
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

Sourced<double> whole_ratio(const CodecRatio& ratio, const Measurements& measured, FigureLedger& ledger) {
  return enter_ratio(ledger, "gpu.codecs." + ratio.profile_name + ".ratio",
                     "stored over plain bytes of whole weights, (1 + that of their exponents) / 2: " +
                         measured.context.ratios_of,
                     of_whole_weights(ratio.samples));
}

void add_gpu_codecs(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  for (const CodecRatio& ratio : measured.context.ratios) {
    const BenchResult* const largest = largest_recovery(measured, ratio.codec);
    if (largest == nullptr) continue;
    const std::string path = "gpu.codecs." + ratio.profile_name;
    GpuCodecProfile& codec = gpu.codecs[ratio.profile_name];
    codec.ratio = whole_ratio(ratio, measured, ledger);
    Account account = account_of("cuda-recover codec=" + ratio.codec, {largest});
    account.how = "at the largest amount measured, " + to_string(Bytes(largest->bytes)) + " of BF16";
    const BytesPerSecond rate(largest->bytes_per_second());
    codec.rate = ledger.enter(path + ".rate", rate, to_string(rate), account, FigureLedger::Kind::inverse);
  }
}

/// An exponent plane decoded in one piece by a thread, then joined with as many sign-mantissa bytes: seconds,
/// round by round, of the largest plane of which both were measured. nullopt where there is none.
std::optional<BenchResult> decoded_and_joined(const Measurements& measured, const std::string& codec) {
  const BenchResult *plane = nullptr, *join = nullptr;
  for (const BenchResult* one :
       measured.of("decompress", {{"codec", codec}, {"threads", std::uint64_t{1}}})) {
    const BenchPoints joins =
        measured.of("join", {{"elements", one->parameters.number("bytes")}, {"threads", std::uint64_t{1}}});
    if (joins.empty() || (plane != nullptr && one->bytes <= plane->bytes)) continue;
    plane = one;
    join = joins.front();
  }
  if (plane == nullptr) return std::nullopt;
  BenchResult both;
  both.name = plane->name;
  both.bytes = 2 * plane->bytes;
  for (std::size_t i = 0; i < std::min(plane->samples.size(), join->samples.size()); ++i)
    both.samples.push_back(plane->samples[i] + join->samples[i]);
  both.statistics = statistics_of(both.samples);
  if (!(both.statistics.median > 0)) return std::nullopt;
  return both;
}

/// A stand-in's decoding stream is a thread.
void add_thread_codecs(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  for (const CodecRatio& ratio : measured.context.ratios) {
    const std::optional<BenchResult> both = decoded_and_joined(measured, ratio.codec);
    if (!both) continue;
    GpuCodecProfile& codec = gpu.codecs[ratio.profile_name];
    codec.ratio = whole_ratio(ratio, measured, ledger);
    Account account = account_of("decompress codec=" + ratio.codec + " and join on one thread", {&*both});
    account.how = "added round by round, " + to_string(Bytes(both->bytes)) + " of BF16";
    const BytesPerSecond rate(both->bytes / both->statistics.median);
    codec.rate = ledger.enter("gpu.codecs." + ratio.profile_name + ".rate", rate, to_string(rate), account,
                              FigureLedger::Kind::inverse);
  }
}

/// Mapping and unmapping of the same bytes, added round by round. nullopt unless both were measured.
std::optional<BenchResult> remapping(const Measurements& measured, const BenchResult& map) {
  const std::uint64_t bytes = map.parameters.number("bytes");
  const BenchPoints unmaps = measured.of(map.name, {{"step", "unmap"}, {"bytes", bytes}});
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

void add_remap(const std::string& name, const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  std::vector<BenchResult> sums;
  for (const BenchResult* map : measured.of(name, {{"step", "map"}}))
    if (std::optional<BenchResult> both = remapping(measured, *map)) sums.push_back(std::move(*both));
  BenchPoints points;
  for (const BenchResult& sum : sums) points.push_back(&sum);
  if (amounts_of(points, CurveAmount::bytes) < 2) return;
  gpu.remap =
      enter_curve(ledger, "gpu.remap", name + ", map and unmap of the same bytes, added round by round",
                  points, CurveAmount::bytes);
}

}  // namespace

void add_paging(const Measurements& measured, FigureLedger& ledger, GpuProfile& gpu) {
  if (gpu.stand_in)
    add_thread_codecs(measured, ledger, gpu);
  else
    add_gpu_codecs(measured, ledger, gpu);
  add_remap(gpu.stand_in ? "remap" : "cuda-remap", measured, ledger, gpu);
}

}  // namespace moelab
