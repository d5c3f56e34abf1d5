// Policies from a library that share out memory: storage, residency, placement, planning, pressure. Each rule
// that one breaks is told.
#include <cmath>

#include "tests/policies/guard_cases.hpp"

namespace moelab::guard_storage_test {

using namespace moelab::guard_cases;

namespace {

const std::string kSays = "policy 'mine' (broken.so): ";

/// Two layers of four experts of 1 byte; at most 6 of them in GPU memory and 4 on the host.
StorageShape two_layers() {
  return {.layers = 2,
          .experts = 4,
          .expert_bytes = 1,
          .backends = {{.name = "gpu", .bytes_per_second = 8, .gpu_bytes_per_byte = 1},
                       {.name = "host", .bytes_per_second = 1, .capacity_bytes = 4}},
          .gpu_budget_bytes = 6};
}

std::string splitting(StorageSplit (*split)(const StorageShape&, const PolicyParameters&)) {
  return complaint([&] { split_storage({.info = from_library(), .split = split}, two_layers(), {}); });
}

void (*moves_of)(StorageSplit&) = nullptr;
bool says_moved = true;

class Moving final : public ResidencyPolicy {
  bool adjust(const ResidencyState&, StorageSplit& split) override {
    moves_of(split);
    return says_moved;
  }
};

/// Two experts of each layer on the host, where 1 byte of GPU memory is left beside the KV cache.
std::string moving(void (*moves)(StorageSplit&), bool says = true) {
  moves_of = moves;
  says_moved = says;
  const ResidencyPolicyEntry entry{.info = from_library(),
                                   .make = [](const PolicyParameters&) -> std::unique_ptr<ResidencyPolicy> {
                                     return std::make_unique<Moving>();
                                   }};
  return complaint([&] {
    StorageSplit split(two_layers());
    for (const std::uint32_t layer : {0U, 1U}) split.move(layer, 0, 1, 2);
    const auto policy = make_residency_policy(entry, {});
    policy->adjust({.iteration = 1, .compute_s = 1, .gpu_bytes = 10, .kv_bytes = 5}, split);
  });
}

/// Server 0 has a GPU for 4 experts, server 1 two for 2 each, server 2 is down; 1 layer of 4 experts of 10
/// bytes, each on 2 servers.
PlacementShape three_servers() {
  return {.layers = 1,
          .experts = 4,
          .expert_bytes = 10,
          .servers = {{.gpu_bytes = {45}}, {.gpu_bytes = {20, 29}}, {.gpu_bytes = {100}, .up = false}},
          .copies = 2};
}

void place_soundly(Placement& placement) {
  for (std::uint32_t expert = 0; expert < 4; ++expert) {
    placement.place(0, 0, expert);
    placement.place(expert < 2 ? 1 : 2, 0, expert);
  }
}

std::string placing(Placement (*place)(const PlacementShape&, const ActivationCounts&,
                                       const PolicyParameters&)) {
  return complaint([&] {
    place_experts({.info = from_library(), .place = place}, three_servers(), ActivationCounts(3, 1, 4), {});
  });
}

/// Four experts, two used; memory for two of them in F. Pool S may not be used.
PlanInput four_experts() {
  PlanInput in;
  in.inclusion = {0.75, 0.5, 0.5, 0.25};
  in.k = 2;
  in.tensor_elements = 10;
  in.tensor_bytes = 20;
  in.tensors = 1;
  in.memory_bytes = 40;
  in.ratio = 0.5;
  in.pools = {true, true, false, true, false};
  return in;
}

Plan sound_plan() {
  Plan plan;
  plan.ratios = {0.5, 0.5, 0, 0, 0};
  plan.capacity = {1, 1, 0, 0, 0};
  plan.expected_makespan_s = 1;
  return plan;
}

template <class Mistake>
std::string planning_with(Mistake) {
  const PlanningPolicyEntry entry{.info = from_library(), .plan = [](const PlanInput&) {
                                    Plan plan = sound_plan();
                                    Mistake()(plan);
                                    return plan;
                                  }};
  return complaint([&] { plan_pools(entry, four_experts()); });
}

}  // namespace

TEST_CASE("guard: a split has all experts of each layer, within capacities and the budget") {
  CHECK(splitting([](const StorageShape& shape, const PolicyParameters&) {
          StorageSplit split(shape);
          split.move(0, 0, 1, 2);
          return split;
        }) == "");
  CHECK(splitting([](const StorageShape& shape, const PolicyParameters&) { return StorageSplit(shape); }) ==
        kSays + "takes 8 B of GPU memory, the budget is 6 B");
  CHECK(splitting([](const StorageShape& shape, const PolicyParameters&) {
          StorageSplit split(shape);
          split.move(0, 0, 1, 4);
          split.move(1, 0, 1, 1);
          return split;
        }) == kSays + "puts 5 experts on backend 'host', which has capacity for 4");
  CHECK(splitting([](const StorageShape& given, const PolicyParameters&) {
          StorageShape shape = given;
          shape.layers = 1;
          return StorageSplit(shape);
        }) ==
        kSays + "gives a split of 1 layer of 4 experts over 2 backends, asked for was one of 2, 4 and 2");
}

TEST_CASE("guard: a storage policy may refuse a shape, and may not fail") {
  CHECK(splitting([](const StorageShape&, const PolicyParameters&) -> StorageSplit {
          fail_by(Failure::foreign);
        }) == kSays + "throws what is no std::exception");
  CHECK_THROWS_AS(splitting([](const StorageShape&, const PolicyParameters&) -> StorageSplit {
                    fail_by(Failure::input);
                  }),
                  InputError);
}

TEST_CASE("guard: experts that move stay within capacities and beside the KV cache") {
  const std::string says = "policy 'mine' (broken.so), step 1: ";
  CHECK(moving([](StorageSplit&) {}, false) == "");
  CHECK(moving([](StorageSplit& split) { split.move(0, 1, 0, 1); }) == "");
  CHECK(moving([](StorageSplit& split) { split.move(0, 1, 0, 2); }) ==
        says + "moves experts to the GPU until they take 6 B, the KV cache leaves them 5 B");
  CHECK(moving([](StorageSplit& split) { split.move(0, 0, 1, 1); }) ==
        says + "puts 5 experts on backend 'host', which has capacity for 4");
  CHECK(moving([](StorageSplit& split) { split.move(0, 1, 0, 1); }, false) ==
        says + "moves experts, and says that it moved none");
  CHECK(moving([](StorageSplit& split) {
          StorageShape shape = split.shape();
          shape.experts = 3;
          split = StorageSplit(shape);
        }) ==
        says + "gives a split of 2 layers of 3 experts over 2 backends, asked for was one of 2, 4 and 2");
  CHECK(moving([](StorageSplit&) { fail_by(Failure::standard); }) == says + "throws: no expert 12");
  CHECK_THROWS_AS(moving([](StorageSplit&) { fail_by(Failure::input); }), InputError);  // as the family may
}

#ifdef NDEBUG  // what a library may do that was built without assertions
TEST_CASE("guard: a split that has more than there is") {
  CHECK_THAT(splitting([](const StorageShape& shape, const PolicyParameters&) {
               StorageSplit split(shape);
               split.move(1, 0, 1, 100);
               return split;
             }),
             StartsWith(kSays + "puts ") && Contains("experts of layer 1 somewhere, it has 4"));
}

TEST_CASE("guard: a placement that places an expert twice on a GPU") {
  CHECK(placing([](const PlacementShape& shape, const ActivationCounts&, const PolicyParameters&) {
          Placement placement(shape);
          place_soundly(placement);
          placement.place(1, 0, 0);
          return placement;
        }) == kSays + "places expert 0 of layer 0 twice on a GPU of server 1");
}
#endif

TEST_CASE("guard: a placement covers each expert within the memory of the GPUs that are up") {
  using Shape = const PlacementShape&;
  using Counts = const ActivationCounts&;
  using Values = const PolicyParameters&;
  CHECK(placing([](Shape shape, Counts, Values) {
          Placement placement(shape);
          place_soundly(placement);
          return placement;
        }) == "");
  CHECK(placing([](Shape shape, Counts, Values) {
          Placement placement(shape);
          place_soundly(placement);
          placement.remove(2, 0, 3);
          return placement;
        }) == kSays + "puts expert 3 of layer 0 on 1 server, it is to be on 2");
  CHECK(placing([](Shape shape, Counts, Values) {
          Placement placement(shape);
          place_soundly(placement);
          placement.place(3, 0, 3);
          return placement;
        }) == kSays + "puts expert 3 of layer 0 on server 2, which is down");
  CHECK(placing([](Shape shape, Counts, Values) {
          Placement placement(shape);
          place_soundly(placement);
          placement.place(1, 0, 2);
          return placement;
        }) == kSays + "puts 3 experts (30 B) on GPU 1, which has 20 B for them");
  CHECK(placing([](Shape given, Counts, Values) {
          PlacementShape shape = given;
          shape.servers[1].gpu_bytes.pop_back();
          return Placement(shape);
        }) == kSays +
                  "gives a placement of 1 layer of 4 experts on 3 GPUs of 3 servers, which is not the "
                  "cluster's");
  CHECK(placing([](Shape, Counts, Values) -> Placement { fail_by(Failure::standard); }) ==
        kSays + "throws: no expert 12");
  CHECK_THROWS_AS(placing([](Shape, Counts, Values) -> Placement { fail_by(Failure::input); }), InputError);
}

TEST_CASE("guard: a plan stays within the memory, the pools and the experts there are") {
  CHECK(planning_with([](Plan&) {}) == "");
  CHECK(planning_with([](Plan& p) { p.capacity[0] = 2; }) ==
        kSays + "plans pools of 55 B, the memory is 40 B");
  CHECK(planning_with([](Plan& p) {
          p.capacity = {0, 0, 0, 5, 0};
        }) == kSays + "plans places for 5 experts, a layer has 4");
  CHECK(planning_with([](Plan& p) { p.capacity[2] = 1; }) ==
        kSays + "gives memory to pool S, which may not be used");
  CHECK(planning_with([](Plan& p) { p.ratios[4] = 0.5; }) ==
        kSays + "gives memory to pool M, which may not be used");
  CHECK_THAT(planning_with([](Plan& p) { p.ratios[0] = 0.25; }),
             Contains("gives pools shares that add up to 0.75"));
  CHECK_THAT(planning_with([](Plan& p) {
               p.ratios = {1.5, -0.5, 0, 0, 0};
             }),
             Contains("gives pool F a share of 1.5"));
  CHECK_THAT(planning_with([](Plan& p) { p.ratios[1] = std::nan(""); }), Contains("gives pool C a share of"));
  CHECK_THAT(planning_with([](Plan& p) { p.expected_makespan_s = -1; }),
             Contains("expects a makespan of -1"));
  CHECK(planning_with([](Plan& p) { p.selection_probability = {1}; }) ==
        kSays + "gives selection probabilities of 1 expert, a layer has 4");
  CHECK(planning_with([](Plan& p) {
          p.selection_probability = {1, 2, 0, 0};
        }) == kSays + "gives a selection probability outside [0, 1]");
  CHECK(planning_with([](Plan&) { fail_by(Failure::foreign); }) ==
        kSays + "throws what is no std::exception");
}

TEST_CASE("guard: under pressure one request at least is planned for, and none that is not there") {
  static std::size_t requests = 0;
  const PressurePolicyEntry entry{.info = from_library(),
                                  .requests = [](const PressureTerms&, const PolicyParameters&) {
                                    if (requests == 9) fail_by(Failure::standard);
                                    return requests;
                                  }};
  const PressureTerms terms{.kv_bytes = {1, 2, 3}};
  const auto asked = [&](std::size_t answer) {
    requests = answer;
    return complaint([&] {
      const std::size_t planned = requests_under_pressure(entry, terms, {});
      CHECK(planned == answer);
    });
  };
  CHECK(asked(1) == "");
  CHECK(asked(3) == "");
  CHECK(asked(0) == kSays + "gives the KV cache room for 0 requests, expected 1 to 3");
  CHECK(asked(4) == kSays + "gives the KV cache room for 4 requests, expected 1 to 3");
  CHECK(asked(9) == kSays + "throws: no expert 12");
}

}  // namespace moelab::guard_storage_test
