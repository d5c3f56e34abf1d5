// The GPU, where its cases were measured: roofline of experts, memory, and the link to memory of its own. The
// link of a GPU that shares the host's memory is shown beside: nothing has to cross it. What paging takes
// within memory of its own is in paging_figures.cpp.
#include <optional>

#include "hw/calibrate/profile_parts.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {

namespace {

constexpr double kCopyTraffic = 2;  // bytes moved for each that is copied: read and written

/// What streams that read and write get: the rate of copies within the memory, their launch aside.
Sourced<BytesPerSecond> streaming(const std::string& path, const Measurements& measured,
                                  FigureLedger& ledger) {
  const BenchPoints points = points_for_curve(measured, path, "cuda-copy", {}, CurveAmount::bytes);
  std::vector<CurvePoint> traffic;
  for (const BenchResult* point : points)
    traffic.push_back({kCopyTraffic * point->bytes, point->statistics.median});
  const std::optional<AffineFit> fit = fit_affine(traffic);
  if (!fit || !(fit->rate < 1e18))
    throw InputError(path, "copies within the GPU's memory take no longer for more bytes");
  Account account = account_of("cuda-copy, bytes read and written", points);
  account.fit = shown(*fit, CurveAmount::bytes);
  account.quality = fit->quality;
  const BytesPerSecond rate(fit->rate);
  return ledger.enter(path, rate, to_string(rate), account, FigureLedger::Kind::inverse);
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

BenchParameters link_copies(const char* direction, const char* memory) {
  return {{"direction", direction}, {"memory", memory}};
}

Sourced<Curve> link_curve(const std::string& path, const BenchParameters& which, const Measurements& measured,
                          FigureLedger& ledger) {
  return enter_curve(ledger, path, "cuda-link " + to_string(which),
                     points_for_curve(measured, path, "cuda-link", which, CurveAmount::bytes),
                     CurveAmount::bytes);
}

GpuMemory own_memory(const GpuMemoryFound& found, const Measurements& measured, FigureLedger& ledger) {
  if (found.total == 0 || found.available == 0 || found.available > found.total)
    throw InputError("gpu.memory", "the driver does not say how much memory the GPU has and is free");
  GpuMemory own;
  const Bytes total(static_cast<double>(found.total)), available(static_cast<double>(found.available));
  Account account;
  account.what = "what the driver says it has";
  own.total = ledger.enter("gpu.memory", total, to_string(total), account);
  account.what = "all but the " + to_string(available) + " that could be had beside a context";
  own.reserve = ledger.enter("gpu.reserve", total - available, to_string(total - available), account);
  own.bandwidth = streaming("gpu.bandwidth", measured, ledger);
  own.link.to_device = link_curve("gpu.link.to_device", link_copies("to_device", "pinned"), measured, ledger);
  own.link.to_host = link_curve("gpu.link.to_host", link_copies("to_host", "pinned"), measured, ledger);
  const BenchParameters pageable = link_copies("to_device", "pageable");
  if (amounts_of(measured.of("cuda-link", pageable), CurveAmount::bytes) >= 2)
    own.link.pageable = link_curve("gpu.link.pageable", pageable, measured, ledger);
  return own;
}

void show_link(const Measurements& measured, FigureLedger& ledger) {
  for (const char* direction : {"to_device", "to_host"}) {
    const BenchParameters which = link_copies(direction, "pinned");
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

/// Copies between two regions of memory both ways: there is no other link.
GpuProfile stand_in(const Measurements& measured, FigureLedger& ledger) {
  GpuProfile gpu;
  gpu.stand_in = true;
  GpuMemory& own = gpu.own.emplace();
  const Bytes total(measured.context.stand_in_bytes);
  own.total =
      ledger.enter_unmeasured("gpu.memory", total, to_string(total), Source::Kind::derived,
                              "half of the host's memory that could be had before measuring, set apart");
  own.reserve = ledger.enter_unmeasured("gpu.reserve", Bytes(0), "0 B", Source::Kind::derived,
                                        "there is no driver that holds any");
  for (const auto& [path, curve] : {std::pair{"gpu.link.to_device", &own.link.to_device},
                                    std::pair{"gpu.link.to_host", &own.link.to_host}})
    *curve =
        enter_curve(ledger, path, "copy", points_for_curve(measured, path, "copy", {}, CurveAmount::bytes),
                    CurveAmount::bytes);
  add_paging(measured, ledger, gpu);
  return gpu;
}

}  // namespace

void add_gpu(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile) {
  if (measured.context.stand_in_bytes > 0) profile.gpu = stand_in(measured, ledger);
  if (!measured.has_gpu()) return;
  profile.gpu = roofline(measured, ledger);
  if (const std::optional<GpuMemoryFound>& found = measured.context.gpu_memory) {
    profile.gpu->own = own_memory(*found, measured, ledger);
    add_paging(measured, ledger, *profile.gpu);
    return;
  }
  profile.memory.bandwidth = streaming("memory.bandwidth", measured, ledger);
  show_link(measured, ledger);
}

}  // namespace moelab
