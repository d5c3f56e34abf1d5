// The cases of cuda_cases.cpp in a program without CUDA: listed, and skipped.
#include "hw/bench/cuda_cases.hpp"
#include "hw/bench/gpu_memory.hpp"

namespace moelab {

namespace {

class AbsentCase final : public BenchCase {
 public:
  std::string filter() const override { return "built without CUDA"; }
  std::vector<BenchPoint> points() const override { return {}; }
  std::string check(std::size_t) override { return filter(); }
  double run(std::size_t, std::size_t) override { return 0; }
};

}  // namespace

std::unique_ptr<BenchCase> make_cuda_link_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::unique_ptr<BenchCase> make_cuda_copy_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::unique_ptr<BenchCase> make_cuda_recover_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::unique_ptr<BenchCase> make_cuda_expert_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::unique_ptr<BenchCase> make_cuda_launch_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::unique_ptr<BenchCase> make_cuda_remap_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::unique_ptr<BenchCase> make_cuda_overlap_case(BenchWorkspace&) {
  return std::make_unique<AbsentCase>();
}

std::optional<GpuMemoryFound> gpu_memory() {
  return std::nullopt;
}

}  // namespace moelab
