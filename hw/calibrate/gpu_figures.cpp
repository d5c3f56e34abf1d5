// The GPU, where its cases were measured: roofline of experts, memory, and the link, for which a profile has
// no place.
#include "hw/calibrate/profile_parts.hpp"
#include "models/units.hpp"

namespace moelab {

namespace {

constexpr double kCopyTraffic = 2;  // bytes moved for each that is copied: read and written

/// What streams that read and write get: the rate of copies within the memory, their launch aside.
Sourced<BytesPerSecond> memory_bandwidth(const Measurements& measured, FigureLedger& ledger) {
  const BenchPoints points =
      points_for_curve(measured, "memory.bandwidth", "cuda-copy", {}, CurveAmount::bytes);
  std::vector<CurvePoint> traffic;
  for (const BenchResult* point : points)
    traffic.push_back({kCopyTraffic * point->bytes, point->statistics.median});
  const std::optional<AffineFit> fit = fit_affine(traffic);
  if (!fit || !(fit->rate < 1e18))
    throw InputError("memory.bandwidth", "copies within the GPU's memory take no longer for more bytes");
  Account account = account_of("cuda-copy, bytes read and written", points);
  account.fit = shown(*fit, CurveAmount::bytes);
  account.quality = fit->quality;
  const BytesPerSecond rate(fit->rate);
  return ledger.enter("memory.bandwidth", rate, to_string(rate), account, FigureLedger::Kind::inverse);
}

GpuProfile roofline(const Measurements& measured, FigureLedger& ledger) {
  const BenchPoints points = measured.of("cuda-expert");
  const std::optional<RooflineFit> fit = roofline_of(points);
  if (!fit) throw InputError("gpu.peak", "no roofline fits the experts: " + measured.why_not("cuda-expert"));
  Account account = account_of("cuda-expert", points);
  const BytesPerSecond bandwidth(fit->bandwidth);
  account.fit = "roofline " + to_string(FlopsPerSecond(fit->peak)) + ", " + to_string(bandwidth) + ", " +
                to_string(Seconds(fit->launch));
  account.quality = fit->quality;
  GpuProfile gpu;
  const FlopsPerSecond peak(fit->peak);
  gpu.peak = ledger.enter("gpu.peak", peak, to_string(peak), account, FigureLedger::Kind::inverse);
  gpu.flops_efficiency = ledger.enter_unmeasured("gpu.flops_efficiency", 1.0, "1", Source::Kind::derived,
                                                 "gpu.peak is what was reached, not what is promised");
  ledger.show("gpu expert bandwidth", to_string(bandwidth), account);
  account.spread.reset();
  const Seconds launch(fit->launch / measured.context.expert_kernels);
  account.how =
      "an expert's fixed cost over its " + std::to_string(measured.context.expert_kernels) + " kernels";
  gpu.launch = ledger.enter("gpu.launch", launch, to_string(launch), account);
  return gpu;
}

void show_link(const Measurements& measured, FigureLedger& ledger) {
  for (const char* direction : {"to_device", "to_host"}) {
    const BenchParameters which = {{"direction", direction}, {"memory", "pinned"}};
    const BenchPoints points = measured.of("cuda-link", which);
    std::vector<CurvePoint> copies;
    for (const BenchResult* point : points) copies.push_back({point->bytes, point->statistics.median});
    const std::optional<AffineFit> fit = fit_affine(copies);
    if (!fit) continue;
    Account account = account_of("cuda-link " + to_string(which), points);
    account.fit = shown(*fit, CurveAmount::bytes);
    account.quality = fit->quality;
    ledger.show(std::string("link ") + direction, account.fit, account);
  }
}

}  // namespace

void add_gpu(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile) {
  if (!measured.has_gpu()) return;
  profile.gpu = roofline(measured, ledger);
  profile.memory.bandwidth = memory_bandwidth(measured, ledger);
  show_link(measured, ledger);
}

}  // namespace moelab
