#include "experiments/load/step_times.hpp"

#include "models/timing.hpp"
#include "sim/serving/gpu_times.hpp"

namespace moelab::replay {
namespace {

class DataSheetTimes final : public StepTimes {
 public:
  explicit DataSheetTimes(const Setup& setup)
      : timing_(setup.scenario.device), times_(setup.scenario, setup.system(), timing_, setup.trace) {}
  double seconds(const Pass& pass) override {
    times_.begin(pass);
    return times_.step_seconds();
  }

 private:
  TimingModel timing_;
  GpuTimes times_;
};

}  // namespace

std::unique_ptr<StepTimes> data_sheet_times(const Setup& setup) {
  return std::make_unique<DataSheetTimes>(setup);
}

}  // namespace moelab::replay
