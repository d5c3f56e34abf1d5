// moelab.SchedulePolicy.
#include "python/policies/families.hpp"

namespace moelab {
namespace {

class PythonSchedule final : public SchedulePolicy {
 public:
  PythonSchedule(const PythonPolicy& type, const PolicyParameters& parameters)
      : expert_records_("LAYER_EXPERT") {
    in_python([&] { order_ = Held(type.make(parameters).attr("order")); });
  }

  void order(const LayerInstance& instance, LayerOrder& order) override {
    order.clear();
    in_python([&] {
      const nb::object answer =
          order_.get()(named("LayerInstance", instance.threads, instance.shards, instance.sm_read_s,
                             instance.e_read_s, instance.decompress_s, instance.recover_s,
                             expert_records_.of(std::span<const LayerExpert>(instance.experts))));
      const std::vector<std::uint32_t> reads = counts(member(answer, "order", "reads"), "order", {kAny, 2});
      for (std::size_t i = 0; i + 1 < reads.size(); i += 2) order.reads.push_back({reads[i], reads[i + 1]});
      order.tasks = counts(member(answer, "order", "tasks"), "order", {kAny});
      order.experts = counts(member(answer, "order", "experts"), "order", {kAny});
    });
  }

 private:
  Records expert_records_;
  Held order_;
};

}  // namespace

SchedulePolicyEntry schedule_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .make = [&type](const PolicyParameters& parameters) -> std::unique_ptr<SchedulePolicy> {
            return std::make_unique<PythonSchedule>(type, parameters);
          }};
}

}  // namespace moelab
