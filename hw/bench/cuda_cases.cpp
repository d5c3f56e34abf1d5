// The GPU and its link: cases over the timings of hw/kernels/cuda_timings.hpp.
#include <functional>
#include <utility>

#include "hw/bench/cuda_cases.hpp"
#include "hw/bench/gpu_memory.hpp"
#include "hw/kernels/cuda_device.hpp"
#include "hw/kernels/cuda_timings.hpp"

namespace moelab {

namespace {

constexpr std::size_t KiB = std::size_t{1} << 10, MiB = std::size_t{1} << 20;

/// Points that are timings. What a timing holds in GPU memory is made when it is first checked.
class CudaCase final : public BenchCase {
 public:
  using Make = std::function<std::unique_ptr<CudaTiming>()>;
  using Points = std::vector<std::pair<BenchPoint, Make>>;
  /// `make_points` is called where there is a GPU, on which nothing is `missing`: why it cannot, or empty.
  explicit CudaCase(
      std::function<Points()> make_points,
      std::function<std::string()> missing = [] { return std::string(); })
      : make_points_(std::move(make_points)), missing_(std::move(missing)) {}

  std::string filter() const override {
    const std::string no_gpu = cuda_missing();
    return no_gpu.empty() ? missing_() : "no GPU: " + no_gpu;
  }
  void prepare() override {
    made_ = make_points_();
    timings_.resize(made_.size());
  }
  std::vector<BenchPoint> points() const override {
    std::vector<BenchPoint> points;
    for (const auto& [point, make] : made_) points.push_back(point);
    return points;
  }
  std::string check(std::size_t point) override {
    if (!timings_[point]) timings_[point] = made_[point].second();
    try {
      timings_[point]->check();
    } catch (const WrongAnswer& wrong) {
      return wrong.what();
    }
    return {};
  }
  double run(std::size_t point, std::size_t operations) override { return timings_[point]->run(operations); }

 private:
  std::function<Points()> make_points_;
  std::function<std::string()> missing_;
  Points made_;
  std::vector<std::unique_ptr<CudaTiming>> timings_;
};

std::vector<std::size_t> link_sizes(const BenchOptions& options) {
  if (options.quick) return {64 * KiB, MiB, 16 * MiB};
  return {4 * KiB, 64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB};
}

std::vector<std::size_t> memory_sizes(const BenchOptions& options) {
  if (options.quick) return {4 * MiB, 64 * MiB};
  return {MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB};
}

BenchParameters expert_parameters(const ExpertShape& shape, std::size_t tokens) {
  return {{"hidden", std::uint64_t{shape.hidden}},
          {"width", std::uint64_t{shape.width}},
          {"matrices", static_cast<std::uint64_t>(shape.matrices)},
          {"tokens", std::uint64_t{tokens}}};
}

CudaCase::Points link_points(const BenchOptions& options) {
  CudaCase::Points points;
  for (const auto& [memory, memory_name] : {std::pair{HostMemoryKind::pinned, "pinned"},
                                            {HostMemoryKind::pageable, "pageable"},
                                            {HostMemoryKind::mapped, "mapped"}}) {
    for (const auto& [direction, direction_name] :
         {std::pair{CopyDirection::to_device, "to_device"}, {CopyDirection::to_host, "to_host"}}) {
      for (const std::size_t bytes : link_sizes(options)) {
        points.push_back(
            {{{{"direction", direction_name}, {"memory", memory_name}, {"bytes", std::uint64_t{bytes}}},
              static_cast<double>(bytes)},
             [=, m = memory, d = direction] { return link_copy_timing(bytes, m, d); }});
      }
    }
  }
  return points;
}

CudaCase::Points copy_points(const BenchOptions& options) {
  CudaCase::Points points;
  for (const std::size_t bytes : memory_sizes(options)) {
    points.push_back({{{{"bytes", std::uint64_t{bytes}}}, static_cast<double>(bytes)},
                      [=] { return device_copy_timing(bytes); }});
  }
  return points;
}

/// Every codec has two sets at least, of weights and of what they are made of, and keeps them while other
/// cases make theirs: to those belongs half of what is free.
std::string why_no_recovery(std::size_t bytes, std::size_t free) {
  constexpr std::size_t kCodecs = 5, kSets = 2, kParts = 2;
  const std::size_t due = kCodecs * kSets * kParts * bytes;
  if (due <= free / 2) return {};
  return "all codecs' weights would take " + std::to_string(due / MiB) + " MiB of the GPU's memory, " +
         std::to_string(free / MiB) + " are free";
}

CudaCase::Points recover_points(const BenchOptions& options) {
  CudaCase::Points points;
  const std::size_t free = cuda_device().free_bytes;
  for (const std::size_t bytes : memory_sizes(options)) {
    const std::string no_memory = why_no_recovery(bytes, free);
    const auto add = [&](const char* codec, CudaCase::Make make) {
      BenchPoint point{{{"codec", codec}, {"bytes", std::uint64_t{bytes}}}, static_cast<double>(bytes)};
      point.skip = no_memory;
      points.push_back({std::move(point), std::move(make)});
    };
    add("none", [=] { return recovery_timing(bytes / 2); });
    add("fixed3", [=] { return fixed3_recovery_timing(bytes / 2); });
    add("huffman-8", [=] { return huffman_recovery_timing(bytes / 2, 8); });
    add("huffman-16", [=] { return huffman_recovery_timing(bytes / 2, 16); });
    add("huffman-32", [=] { return huffman_recovery_timing(bytes / 2, 32); });
  }
  return points;
}

CudaCase::Points expert_points(const BenchWorkspace& workspace) {
  CudaCase::Points points;
  std::vector<std::size_t> tokens = {1, 2, 4, 8, 16, 64, 256, 1024};
  if (workspace.options().quick) tokens = {1, 4, 16, 256};
  for (const ExpertShape& shape : workspace.experts()) {
    for (const std::size_t count : tokens) {
      const double weights = static_cast<double>(shape.weights());
      points.push_back(
          {{expert_parameters(shape, count), 2 * weights, 2 * weights * static_cast<double>(count)},
           [=] { return cuda_expert_timing(shape, count); }});
    }
  }
  return points;
}

CudaCase::Points launch_points() {
  return {{{{{"until", "queued"}}}, [] { return launch_timing(LaunchEnd::queued); }},
          {{{{"until", "completed"}}}, [] { return launch_timing(LaunchEnd::completed); }}};
}

CudaCase::Points remap_points() {
  CudaCase::Points points;
  for (const std::size_t bytes : {2 * MiB, 16 * MiB, 64 * MiB}) {
    const auto add = [&](const char* name, RemapStep step) {
      points.push_back(
          {{{{"step", name}, {"bytes", std::uint64_t{bytes}}}}, [=] { return remap_timing(bytes, step); }});
    };
    add("map", RemapStep::map);
    add("unmap", RemapStep::unmap);
  }
  return points;
}

CudaCase::Points overlap_points(const BenchWorkspace& workspace) {
  CudaCase::Points points;
  constexpr std::size_t bytes = 4 * MiB;
  for (const ExpertShape& shape : workspace.experts()) {
    const auto add = [&](const char* name, OverlapPart part, double moved) {
      points.push_back({{{{"timed", name},
                          {"bytes", std::uint64_t{bytes}},
                          {"hidden", std::uint64_t{shape.hidden}},
                          {"width", std::uint64_t{shape.width}},
                          {"matrices", static_cast<std::uint64_t>(shape.matrices)}},
                         moved},
                        [=] { return overlap_timing(part, bytes, shape, 1); }});
    };
    add("copy", OverlapPart::copy, static_cast<double>(bytes));
    add("expert", OverlapPart::expert, 2 * static_cast<double>(shape.weights()));
  }
  return points;
}

}  // namespace

std::unique_ptr<BenchCase> make_cuda_link_case(BenchWorkspace& workspace) {
  return std::make_unique<CudaCase>([&] { return link_points(workspace.options()); });
}

std::unique_ptr<BenchCase> make_cuda_copy_case(BenchWorkspace& workspace) {
  return std::make_unique<CudaCase>([&] { return copy_points(workspace.options()); });
}

std::unique_ptr<BenchCase> make_cuda_recover_case(BenchWorkspace& workspace) {
  return std::make_unique<CudaCase>([&] { return recover_points(workspace.options()); });
}

std::unique_ptr<BenchCase> make_cuda_expert_case(BenchWorkspace& workspace) {
  return std::make_unique<CudaCase>([&] { return expert_points(workspace); });
}

std::unique_ptr<BenchCase> make_cuda_launch_case(BenchWorkspace&) {
  return std::make_unique<CudaCase>(launch_points);
}

std::unique_ptr<BenchCase> make_cuda_remap_case(BenchWorkspace&) {
  return std::make_unique<CudaCase>(remap_points, remap_missing);
}

std::unique_ptr<BenchCase> make_cuda_overlap_case(BenchWorkspace& workspace) {
  return std::make_unique<CudaCase>([&] { return overlap_points(workspace); });
}

std::optional<GpuMemoryFound> gpu_memory() {
  if (!cuda_missing().empty()) return std::nullopt;
  const CudaDevice device = cuda_device();
  if (device.integrated) return std::nullopt;
  return GpuMemoryFound{device.memory_bytes, device.free_bytes};
}

}  // namespace moelab
