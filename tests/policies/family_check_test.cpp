// Checks of policies find in each family a mistake that shows in some instances alone.
#include <algorithm>

#include "policies/check/policy_check.hpp"
#include "tests/policies/guard_cases.hpp"

namespace moelab::family_check_test {

using namespace moelab::guard_cases;

namespace {

/// An entry of a shipped policy, as if a library had brought it.
template <class Entry>
Entry brought_by_library(const Entry& shipped) {
  Entry entry = shipped;
  entry.info = from_library();
  return entry;
}

}  // namespace

TEST_CASE("check: a prefetch policy that wishes a layer too many in long steps") {
  class Beyond final : public PrefetchPolicy {
    void after_gate(std::uint32_t layer, std::span<const ExpertUse>, std::vector<Fetch>& fetches) override {
      fetches.push_back({layer < 4 ? layer : layer + 2, 0});
    }
  };
  PrefetchPolicyEntry entry = brought_by_library(*find_prefetch_policy("none"));
  entry.make = [](const PrefetchShape&, const PolicyParameters&) -> std::unique_ptr<PrefetchPolicy> {
    return std::make_unique<Beyond>();
  };
  CHECK_THAT(check_policy(entry).broken, Contains(" of layer 4: wishes expert 0 of layer 6, there are "));
}

TEST_CASE("check: an order that lacks a read where a layer has many") {
  class Careless final : public SchedulePolicy {
    void order(const LayerInstance& instance, LayerOrder& order) override {
      make_schedule_policy("fifo")->order(instance, order);
      if (order.reads.size() > 12) order.reads.pop_back();
    }
  };
  SchedulePolicyEntry entry = brought_by_library(schedule_policies()[0]);
  entry.make = [](const PolicyParameters&) -> std::unique_ptr<SchedulePolicy> {
    return std::make_unique<Careless>();
  };
  CHECK_THAT(check_policy(entry).broken, Contains(" that the layer needs"));
}

TEST_CASE("check: a routing policy that gives an expert twice, and an execution policy that forgets one") {
  class Doubling final : public RoutingPolicy {
    void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t> resident,
               StepRouting& routing) override {
      find_routing_policy("model")->make({})->route(tokens, resident, routing);
      const std::size_t k = tokens.front().chosen.size();
      if (tokens.size() > 3 && k > 1) routing.experts[k] = routing.experts[k + 1];
    }
  };
  RoutingPolicyEntry routing = brought_by_library(*find_routing_policy("model"));
  routing.make = [](const PolicyParameters&) -> std::unique_ptr<RoutingPolicy> {
    return std::make_unique<Doubling>();
  };
  CHECK_THAT(check_policy(routing).broken, Contains("token 1: "));

  class Forgetting final : public ExecutionPolicy {
    void plan(std::span<const MissingExpert> missing, const ExecutionCosts&, ExecutionPlan& plan) override {
      plan = {};
      plan.places.assign(missing.size(), Assignment::load);
      for (std::uint32_t i = 0; i < std::min<std::size_t>(missing.size(), 9); ++i) plan.loads.push_back(i);
    }
  };
  ExecutionPolicyEntry execution = brought_by_library(*find_execution_policy("gpu-only"));
  execution.make = [](const PolicyParameters&) -> std::unique_ptr<ExecutionPolicy> {
    return std::make_unique<Forgetting>();
  };
  CHECK_THAT(check_policy(execution).broken, Contains("neither loads the missing expert at position 9"));
}

TEST_CASE("check: a batching policy that takes more blocks than there are") {
  BatchingPolicyEntry entry = brought_by_library(*find_batching_policy("continuous"));
  entry.make = [](const BatchingShape& given, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
    BatchingShape shape = given;
    ++shape.kv.gpu_blocks;
    return find_batching_policy("continuous")->make(shape, {});
  };
  CHECK_THAT(check_policy(entry).broken, Contains(" block"));
}

TEST_CASE("check: splits that look at no budget, and moves that look at no KV cache") {
  StoragePolicyEntry storage = brought_by_library(*find_storage_policy("fixed"));
  storage.split = [](const StorageShape& shape, const PolicyParameters&) { return StorageSplit(shape); };
  CHECK(check_policy(storage).broken != "");

  class ToGpu final : public ResidencyPolicy {
    bool adjust(const ResidencyState&, StorageSplit& split) override {
      const std::size_t last = split.shape().backends.size() - 1;
      const std::uint32_t there = split.experts(0, last);
      if (last > 0) split.move(0, last, 0, there);
      return last > 0 && there > 0;
    }
  };
  ResidencyPolicyEntry residency = brought_by_library(*find_residency_policy("fixed"));
  residency.make = [](const PolicyParameters&) -> std::unique_ptr<ResidencyPolicy> {
    return std::make_unique<ToGpu>();
  };
  CHECK_THAT(check_policy(residency).broken, Contains("the KV cache leaves them "));
}

TEST_CASE("check: placements that use what is down, or cover too little") {
  PlacementPolicyEntry entry = brought_by_library(*find_placement_policy("uniform"));
  entry.place = [](const PlacementShape& given, const ActivationCounts& counts,
                   const PolicyParameters& parameters) {
    PlacementShape shape = given;
    for (PlacementServer& server : shape.servers) server.up = true;
    return find_placement_policy("uniform")->place(shape, counts, parameters);
  };
  CHECK_THAT(check_policy(entry).broken, Contains(", which is down"));
  entry.place = [](const PlacementShape& given, const ActivationCounts& counts,
                   const PolicyParameters& parameters) {
    PlacementShape shape = given;
    shape.copies = std::min(shape.copies, 1U);
    return find_placement_policy("uniform")->place(shape, counts, parameters);
  };
  CHECK_THAT(check_policy(entry).broken, Contains("on 1 server, it is to be on "));
}

TEST_CASE("check: plans for more than there is") {
  PlanningPolicyEntry planning = brought_by_library(*find_planning_policy("zipmoe"));
  planning.plan = [](const PlanInput& input) {
    Plan plan = find_planning_policy("zipmoe")->plan(input);
    if (plan.capacity[index(State::C)] > 0) ++plan.capacity[index(State::C)];
    return plan;
  };
  CHECK(check_policy(planning).broken != "");

  PressurePolicyEntry pressure = brought_by_library(pressure_policies()[0]);
  pressure.requests = [](const PressureTerms& terms, const PolicyParameters&) {
    return std::max<std::size_t>(terms.kv_bytes.size(), 2);
  };
  CHECK_THAT(check_policy(pressure).broken,
             StartsWith("instance 0: ") && Contains("room for 2 requests, expected 1 to 1"));
}

}  // namespace moelab::family_check_test
