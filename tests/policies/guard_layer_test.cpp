// Policies from a library that decide within a layer: prefetch, schedule, routing, execution. Each rule that
// one breaks is told.
#include <cmath>

#include "tests/policies/guard_cases.hpp"

namespace moelab::guard_layer_test {

using namespace moelab::guard_cases;

namespace {

/// A policy of each family whose answer is what `answer` makes of a right one.
void (*wishes_of)(std::vector<Fetch>&) = nullptr;
void (*order_of)(LayerOrder&) = nullptr;
void (*routing_of)(StepRouting&) = nullptr;
void (*plan_of)(ExecutionPlan&) = nullptr;

class Wishing final : public PrefetchPolicy {
  std::uint32_t gates_ahead() const override { return 1000; }
  void after_gate(std::uint32_t, std::span<const ExpertUse>, std::vector<Fetch>& fetches) override {
    fetches.push_back({1, 0});
    wishes_of(fetches);
  }
};

class Ordering final : public SchedulePolicy {
  void order(const LayerInstance& instance, LayerOrder& order) override {
    make_schedule_policy("fifo")->order(instance, order);
    order_of(order);
  }
};

class Routing final : public RoutingPolicy {
  void route(std::span<const TokenGate> tokens, std::span<const std::uint8_t> resident,
             StepRouting& routing) override {
    find_routing_policy("model")->make({})->route(tokens, resident, routing);
    routing_of(routing);
  }
};

class Planning final : public ExecutionPolicy {
  void plan(std::span<const MissingExpert> missing, const ExecutionCosts&, ExecutionPlan& plan) override {
    plan = {};
    for (std::uint32_t i = 0; i < missing.size(); ++i) {
      plan.places.push_back(i == 0 ? Assignment::cpu : Assignment::load);
      (i == 0 ? plan.cpu : plan.loads).push_back(i);
    }
    plan_of(plan);
  }
};

std::string wishing(void (*answer)(std::vector<Fetch>&)) {
  wishes_of = answer;
  const PrefetchPolicyEntry entry{
      .info = from_library(),
      .make = [](const PrefetchShape&, const PolicyParameters&) -> std::unique_ptr<PrefetchPolicy> {
        return std::make_unique<Wishing>();
      }};
  return complaint([&] {
    const auto policy = make_prefetch_policy(entry, {.layers = 3, .experts = 2, .top_k = 1}, {});
    CHECK(policy->gates_ahead() == 3);  // no more than there are layers
    policy->begin_request();
    policy->begin_step();
    std::vector<Fetch> fetches;
    policy->after_gate(0, {}, fetches);
  });
}

std::string ordering(void (*answer)(LayerOrder&)) {
  order_of = answer;
  const SchedulePolicyEntry entry{.info = from_library(),
                                  .make = [](const PolicyParameters&) -> std::unique_ptr<SchedulePolicy> {
                                    return std::make_unique<Ordering>();
                                  }};
  LayerInstance layer;  // tasks 0 and 1 of one that is not there, task 2 of one that lacks its E-chunks
  layer.shards = 2;
  layer.experts = {{.id = 4, .tensors = 2, .state = State::M}, {.id = 7, .tensors = 1, .state = State::S}};
  return complaint([&] {
    const auto policy = make_schedule_policy(entry, {});
    LayerOrder order;
    policy->order(layer, order);
  });
}

std::string routing(void (*answer)(StepRouting&)) {
  routing_of = answer;
  const RoutingPolicyEntry entry{.info = from_library(),
                                 .make = [](const PolicyParameters&) -> std::unique_ptr<RoutingPolicy> {
                                   return std::make_unique<Routing>();
                                 }};
  const std::vector<std::uint16_t> chosen = {2, 0};
  const std::vector<float> scores = {0.25F, 0.125F, 0.5F, 0.125F};
  const std::vector<TokenGate> tokens(2, {chosen, scores});
  const std::vector<std::uint8_t> resident(4, 0);
  return complaint([&] {
    const auto policy = make_routing_policy(entry, {});
    StepRouting step;
    policy->route(tokens, resident, step);
  });
}

std::string planning(void (*answer)(ExecutionPlan&), bool needs_cpu = true) {
  plan_of = answer;
  const ExecutionPolicyEntry entry{.info = from_library(),
                                   .needs_cpu = needs_cpu,
                                   .make = [](const PolicyParameters&) -> std::unique_ptr<ExecutionPolicy> {
                                     return std::make_unique<Planning>();
                                   }};
  const std::vector<MissingExpert> missing = {{.expert = 3}, {.expert = 5}, {.expert = 6}};
  const std::vector<double> cpu_s = {0, 1};
  return complaint([&] {
    const auto policy = make_execution_policy(entry, {});
    ExecutionPlan plan;
    policy->plan(missing, {.load_s = 1, .cpu_s = cpu_s}, plan);
    policy->observe_load(1);
  });
}

const std::string kStep1 = "policy 'mine' (broken.so), step 1: ";

}  // namespace

TEST_CASE("guard: a prefetch policy wishes experts that there are") {
  CHECK(wishing([](std::vector<Fetch>&) {}) == "");
  CHECK(wishing([](std::vector<Fetch>& f) { f.push_back({0, 1}); }) == "");  // of the next step
  CHECK(wishing([](std::vector<Fetch>& f) {
          f.push_back({3, 0});
        }) ==
        "policy 'mine' (broken.so), step 1 of layer 0: wishes expert 0 of layer 3, there are 3 layers of 2 "
        "experts");
  CHECK_THAT(wishing([](std::vector<Fetch>& f) {
               f.push_back({2, 2});
             }),
             Contains("wishes expert 2 of layer 2"));
  CHECK_THAT(wishing([](std::vector<Fetch>&) { fail_by(Failure::standard); }),
             Contains("step 1 of layer 0: throws: no expert 12"));
  CHECK_THAT(wishing([](std::vector<Fetch>&) { fail_by(Failure::foreign); }),
             Contains("throws what is no std::exception"));
}

TEST_CASE("guard: an order has each read, task and expert once") {
  CHECK(ordering([](LayerOrder&) {}) == "");
  CHECK(ordering([](LayerOrder& o) { std::swap(o.reads.front(), o.reads.back()); }) == "");
  CHECK(ordering([](LayerOrder& o) { o.reads.pop_back(); }) ==
        kStep1 + "lists 7 reads of the 8 that the layer needs");
  CHECK_THAT(ordering([](LayerOrder& o) { o.reads.push_back(o.reads.front()); }),
             Contains("of task 0 twice, or without need"));
  CHECK(ordering([](LayerOrder& o) {
          o.reads.push_back({2, kSmChunk});
        }) == kStep1 + "reads the SM-chunk of task 2 twice, or without need");
  CHECK(ordering([](LayerOrder& o) {
          o.reads.push_back({3, 0});
        }) == kStep1 + "reads E-chunk 0 of task 3, which there is not");
  CHECK(ordering([](LayerOrder& o) {
          o.reads.push_back({1, 2});
        }) == kStep1 + "reads E-chunk 2 of task 1, which there is not");
  CHECK(ordering([](LayerOrder& o) { o.tasks.pop_back(); }) == kStep1 + "lists 2 tasks of 3");
  CHECK(ordering([](LayerOrder& o) { o.tasks[0] = o.tasks[1]; }) == kStep1 + "lists task 1 twice");
  CHECK(ordering([](LayerOrder& o) { o.tasks[0] = 3; }) == kStep1 + "lists task 3, there are 3");
  CHECK(ordering([](LayerOrder& o) { o.experts.clear(); }) == kStep1 + "lists 0 experts of 2");
  CHECK(ordering([](LayerOrder& o) { o.experts.push_back(0); }) == kStep1 + "lists expert 0 twice");
  CHECK(ordering([](LayerOrder& o) { o.experts[0] = 7; }) == kStep1 + "lists expert 7, there are 2");
  CHECK(ordering([](LayerOrder&) { fail_by(Failure::standard); }) == kStep1 + "throws: no expert 12");
  // It may refuse a layer that is too large for it, as 'exhaustive' does.
  CHECK_THROWS_AS(ordering([](LayerOrder&) { fail_by(Failure::input); }), InputError);
}

TEST_CASE("guard: a token gets as many experts as it has, different ones, and their roles say so") {
  CHECK(routing([](StepRouting&) {}) == "");
  const auto substituting = [](StepRouting& r) {
    r.experts[1] = 3;
    r.roles[1] = ExpertRole::substitute;
    r.tokens[0] = {.top_score = 1, .low_score = 1, .substituted = 1, .mass_moved = 0.125};
  };
  CHECK(routing(substituting) == "");
  CHECK_THAT(
      routing([](StepRouting& r) { r.experts.pop_back(); }),
      Contains(kStep1 + "gives 3 experts, 4 roles and the counts of 2 tokens to 2 tokens of 2 experts"));
  CHECK_THAT(routing([](StepRouting& r) { r.roles.clear(); }), Contains("0 roles"));
  CHECK_THAT(routing([](StepRouting& r) { r.tokens.push_back({}); }), Contains("the counts of 3 tokens"));
  CHECK(routing([](StepRouting& r) { r.experts[3] = 4; }) == kStep1 + "token 1: gets expert 4, there are 4");
  CHECK(routing([](StepRouting& r) { r.experts[3] = 2; }) == kStep1 + "token 1: gets expert 2 twice");
  CHECK(routing([](StepRouting& r) { r.experts[0] = 1; }) ==
        kStep1 + "token 0: expert 1 takes the place of expert 2, and is not called a substitute");
  CHECK(routing([](StepRouting& r) { r.roles[0] = ExpertRole::substitute; }) ==
        kStep1 + "token 0: expert 2 is called a substitute, and is the model's own choice");
  CHECK(routing([](StepRouting& r) { r.roles[0] = static_cast<ExpertRole>(5); }) ==
        kStep1 + "token 0: expert 2 has role number 5");
}

TEST_CASE("guard: what a routing policy counts is what it did") {
  CHECK(routing([](StepRouting& r) { r.tokens[1].low_score = 1; }) ==
        kStep1 +
            "token 1: counts 2 top, 1 low and 0 substituted, its roles are 2 top, 0 low and 0 "
            "substituted");
  CHECK_THAT(routing([](StepRouting& r) { r.roles[1] = ExpertRole::low; }),
             Contains("its roles are 1 top, 1 low and 0 substituted"));
  for (const double mass : {0.25, -0.125, std::nan(""), HUGE_VAL}) {
    static double moved = 0;
    moved = mass;
    CHECK_THAT(routing([](StepRouting& r) { r.tokens[0].mass_moved = moved; }),
               Contains("token 0: says that substitutions move a score of "));
  }
  CHECK(routing([](StepRouting&) { fail_by(Failure::input); }) == kStep1 + "throws: alpha is 2");
}

TEST_CASE("guard: each missing expert is loaded or computed by the CPU, once") {
  CHECK(planning([](ExecutionPlan&) {}) == "");
  CHECK(planning([](ExecutionPlan& p) { p.places.pop_back(); }) ==
        kStep1 + "gives 2 places to 3 missing experts");
  CHECK(planning([](ExecutionPlan& p) { p.loads.pop_back(); }) ==
        kStep1 + "neither loads the missing expert at position 2 nor gives it to the CPU");
  CHECK(planning([](ExecutionPlan& p) { p.loads.push_back(1); }) ==
        kStep1 + "loads the missing expert at position 1, which it has listed before");
  CHECK(planning([](ExecutionPlan& p) { p.loads[0] = 3; }) ==
        kStep1 + "loads the missing expert at position 3 of 3");
  CHECK(planning([](ExecutionPlan& p) { p.places[0] = Assignment::load; }) ==
        kStep1 + "gives to the CPU the missing expert at position 0, and places it elsewhere");
  CHECK(planning([](ExecutionPlan&) {}, false) ==
        kStep1 + "gives experts to the CPU, and its entry does not say needs_cpu");
  CHECK(planning([](ExecutionPlan&) { fail_by(Failure::foreign); }) ==
        kStep1 + "throws what is no std::exception");
}

}  // namespace moelab::guard_layer_test
