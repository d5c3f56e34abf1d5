#include "policies/placement/placement.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "models/input_error.hpp"
#include "policies/placement/migration.hpp"
#include "policies/placement/prism.hpp"
#include "tests/policies/placement_cases.hpp"
#include "tests/random_runs.hpp"

namespace moelab::placement_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

template <class Do>
std::string error_of(Do what) {
  try {
    what();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}
std::string error_of(const PlacementShape& shape) {
  return error_of([&] { check_placement_shape(shape); });
}

using Experts = std::vector<std::uint32_t>;

Experts on_gpu(const Placement& placement, std::uint32_t gpu, std::uint32_t layer) {
  Experts result;
  for (std::uint32_t expert = 0; expert < placement.experts(); ++expert)
    if (placement.on_gpu(gpu, layer, expert)) result.push_back(expert);
  return result;
}

std::multiset<Experts> all_gpus(const Placement& placement, std::uint32_t layer) {
  std::multiset<Experts> result;
  for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu) result.insert(on_gpu(placement, gpu, layer));
  return result;
}

/// One server's worth of counts, all on server 0.
ActivationCounts load_of(const PlacementShape& shape, const std::vector<double>& load) {
  return counts_of(shape, {load});
}

/// `fixed` slots of a layer on each GPU; experts to the least loaded with a slot left, in the order given,
/// each weighing weights[item]. The published balanced_packing, in quadratic time. [gpus]
std::vector<Experts> packed(const Experts& items, const std::vector<double>& weights, std::size_t gpus,
                            std::size_t slots) {
  Experts order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  std::vector<Experts> packs(gpus);
  std::vector<double> load(gpus, 0);
  for (const std::uint32_t item : order) {
    std::size_t best = gpus;
    for (std::size_t gpu = 0; gpu < gpus; ++gpu)
      if (packs[gpu].size() < slots && (best == gpus || load[gpu] < load[best])) best = gpu;
    packs[best].push_back(items[item]);
    load[best] += weights[item];
  }
  for (Experts& pack : packs) std::sort(pack.begin(), pack.end());
  return packs;
}

/// The published replicate_experts and balanced_packing of one layer.
std::vector<Experts> published_eplb(const std::vector<double>& load, std::size_t gpus, std::size_t slots) {
  Experts items(load.size());
  std::iota(items.begin(), items.end(), 0U);
  std::vector<double> count(load.size(), 1);
  while (items.size() < gpus * slots) {
    std::uint32_t most = 0;
    for (std::uint32_t e = 1; e < load.size(); ++e)
      if (load[e] / count[e] > load[most] / count[most]) most = e;
    items.push_back(most);
    ++count[most];
  }
  std::vector<double> weights;
  for (const std::uint32_t e : items) weights.push_back(load[e] / count[e]);
  return packed(items, weights, gpus, slots);
}

bool has_twice(const std::vector<Experts>& packs) {
  for (const Experts& pack : packs)
    if (std::adjacent_find(pack.begin(), pack.end()) != pack.end()) return true;
  return false;
}

}  // namespace

TEST_CASE("one server with room for all calls nothing remotely, under every policy", "[placement]") {
  PlacementShape shape = one_gpu_servers(3, 8, {24});
  shape.servers[0].gpu_bytes = {10e6, 14e6};
  Random random(1);
  const ActivationCounts counts = random_counts(random, shape);
  for (const PlacementPolicyEntry& entry : placement_policies()) {
    INFO(entry.info.name);
    CHECK(remote_mass(counts, entry.place(shape, counts, {})) == 0);
  }
}

TEST_CASE("local and remote mass add up to all counts", "[placement]") {
  Random random(2);
  for (int round = 0; round < moelab::test::random_runs(1000); ++round) {
    const PlacementShape shape = random_cluster(random, 5, 3, 8);
    const ActivationCounts counts = random_counts(random, shape);
    const Placement placement = place("random", shape, counts);
    double all = 0, local = 0;
    for (std::size_t n = 0; n < shape.servers.size(); ++n) {
      for (const double count : counts.of_server(n)) all += count;
      local += local_mass(counts, placement, n);
    }
    REQUIRE(local + remote_mass(counts, placement) == Approx(all));
  }
}

TEST_CASE("servers with room for all copy everything where policies copy", "[placement]") {
  const PlacementShape shape = one_gpu_servers(2, 4, {8, 8, 8});
  Random random(3);
  const ActivationCounts counts = random_counts(random, shape);
  for (const char* name : {"prism", "redundance", "eplb", "optimal"}) {
    INFO(name);
    CHECK(remote_mass(counts, place(name, shape, counts)) == 0);
  }
}

// Algorithm 1, by hand: entropies of 2 bits and 1 bit, 6 slots: 4 and 2 of them.
TEST_CASE("prism gives layers slots in proportion to their entropy", "[placement]") {
  const PlacementShape shape = one_gpu_servers(2, 4, {6, 8});
  const ActivationCounts counts = counts_of(shape, {{5, 5, 5, 5, 0, 9, 0, 9}, {1, 0, 0, 0, 1, 0, 0, 0}});
  CHECK(activation_entropy(counts.layer(0, 0)) == Approx(2));
  CHECK(activation_entropy(counts.layer(0, 1)) == Approx(1));
  CHECK(activation_entropy(counts.layer(1, 0)) == 0);
  const LayerQuotas layer_counts = entropy_layer_counts(shape, counts);
  CHECK(layer_counts[0] == std::vector<std::uint32_t>{4, 2});
  CHECK(layer_counts[1] == std::vector<std::uint32_t>{4, 4});  // all entropies 0: layers alike
  const Placement placement = place("prism", shape, counts);
  CHECK(on_gpu(placement, 0, 0) == Experts{0, 1, 2, 3});
  CHECK(on_gpu(placement, 0, 1) == Experts{1, 3});
}

// Both layers have 1 of the 2 that they need, so none can lend: the paper's loop would go on for ever.
TEST_CASE("prism uses room that floors left where no layer can lend", "[placement]") {
  const PlacementShape shape = one_gpu_servers(2, 2, {1, 3});
  const ActivationCounts counts = counts_of(shape, {{1, 1, 1, 1}, {1, 1, 1, 1}});
  LayerQuotas layer_counts = entropy_layer_counts(shape, counts);
  CHECK(layer_counts == LayerQuotas{{0, 0}, {1, 1}});
  rebalance_layer_counts(shape, layer_counts);
  CHECK(layer_counts == LayerQuotas{{0, 1}, {2, 1}});
  CHECK(wrong_with(shape, place("prism", shape, counts, {{"fill", 0}})) == "");
}

// 3 of 4 slots would go to layer 0 by entropy (log 4 : log 1), of which there are 2 experts only.
TEST_CASE("prism never counts more experts of a layer than it has", "[placement]") {
  const PlacementShape shape = one_gpu_servers(2, 2, {4});
  const ActivationCounts counts = counts_of(shape, {{7, 7, 7, 0}});
  CHECK(entropy_layer_counts(shape, counts)[0] == std::vector<std::uint32_t>{2, 0});
  CHECK(remote_mass(counts, place("prism", shape, counts, {{"fill", 0}})) == 0);
}

// Server 1 has room, but all of layer 0 already, and no other layer has more than it needs: it takes one of
// layer 1, which then has one too many, and server 0 gives its own of layer 1 to layer 0.
TEST_CASE("prism passes room on through a layer that the server with room has not all of", "[placement]") {
  PlacementShape shape = one_gpu_servers(2, 2, {3, 4, 1});
  shape.copies = 2;  // 4 of each layer
  LayerQuotas layer_counts = {{1, 2}, {2, 1}, {0, 1}};
  rebalance_layer_counts(shape, layer_counts);
  CHECK(layer_counts == LayerQuotas{{2, 1}, {2, 2}, {0, 1}});
}

// Both servers prefer 0 and 1, so 2 lacks. In the paper's pass both take 2 for 1, then both 1 for 2, for
// ever.
TEST_CASE("prism replaces one duplicate for one expert that lacks", "[placement]") {
  const PlacementShape shape = one_gpu_servers(1, 3, {2, 2});
  const ActivationCounts counts = counts_of(shape, {{3, 2, 1}, {3, 2, 1}});
  const Placement placement = place("prism", shape, counts);
  CHECK(on_gpu(placement, 0, 0) == Experts{0, 2});
  CHECK(on_gpu(placement, 1, 0) == Experts{0, 1});
}

// Server 0 uses one expert of layer 0, so entropy 0 and no slot, and all of layer 1 evenly: its 2 slots go
// there, whatever layer 0's counts. Server 1 uses all alike and covers both layers.
TEST_CASE("prism leaves out a layer with one expert in use, unless there is room to fill", "[placement]") {
  PlacementShape shape = one_gpu_servers(2, 4, {2, 8});
  const ActivationCounts counts = counts_of(shape, {{0, 900, 0, 0, 1, 1, 1, 1}, std::vector<double>(8, 1)});
  CHECK_FALSE(place("prism", shape, counts).on_server(0, 0, 1));
  CHECK(place("optimal", shape, counts).on_server(0, 0, 1));
  shape.servers[0].gpu_bytes = {5e6};  // 5 to layer 1, which has 4 experts
  CHECK(place("prism", shape, counts).on_server(0, 0, 1));
  CHECK_FALSE(place("prism", shape, counts, {{"fill", 0}}).on_server(0, 0, 1));
}

TEST_CASE("prism splits a server's experts over its GPUs by memory, layer by layer", "[placement]") {
  PlacementShape shape = one_gpu_servers(3, 12, {36});
  shape.servers[0].gpu_bytes = {9e6, 27e6};  // 1 : 3
  const Placement placement = place("prism", shape, ActivationCounts(1, 3, 12));
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    CHECK(on_gpu(placement, 0, layer).size() == 3);
    CHECK(on_gpu(placement, 1, layer).size() == 9);
  }
}

TEST_CASE("uniform is Megatron's split on equal GPUs, and fits smaller ones", "[placement]") {
  PlacementShape shape = one_gpu_servers(2, 8, {8, 8, 8, 8});
  const Placement even = place("uniform", shape, ActivationCounts(4, 2, 8));
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
      CHECK(on_gpu(even, gpu, layer) == Experts{2 * gpu, 2 * gpu + 1});
  // 16 experts: GPU 2 has room for 1 of them, the others share 15.
  shape.servers[2].gpu_bytes = {1.5e6};
  const Placement small = place("uniform", shape, ActivationCounts(4, 2, 8));
  for (const std::uint32_t gpu : {0, 1, 3}) CHECK(small.held(gpu) == 5);
  CHECK(small.held(2) == 1);
}

TEST_CASE("random, uniform and smartmoe hold each expert once where memory is ample", "[placement]") {
  const PlacementShape shape = one_gpu_servers(4, 16, {64, 64, 64});
  Random random(4);
  const ActivationCounts counts = random_counts(random, shape);
  for (const char* name : {"random", "uniform", "smartmoe"}) {
    const Placement placement = place(name, shape, counts);
    for (std::uint32_t layer = 0; layer < 4; ++layer)
      for (std::uint32_t expert = 0; expert < 16; ++expert) CHECK(placement.copies(layer, expert) == 1);
  }
}

TEST_CASE("random and redundance draw from the seed, redundance fills all memory", "[placement]") {
  PlacementShape shape = one_gpu_servers(4, 16, {40, 30, 50});
  const ActivationCounts counts(3, 4, 16);
  for (const char* name : {"random", "redundance"}) {
    shape.seed = 1;
    const Placement first = place(name, shape, counts);
    CHECK(place(name, shape, counts) == first);
    shape.seed = 2;
    CHECK_FALSE(place(name, shape, counts) == first);
  }
  const Placement filled = place("redundance", shape, counts);
  CHECK(std::vector{filled.held(0), filled.held(1), filled.held(2)} ==
        std::vector<std::uint64_t>{40, 30, 50});
}

// Experts 3 to 8 of layer 0 and 6 to 11 of layer 1 of the example in EPLB's README, and the others: its
// policy packs groups of experts to two nodes first, and each node is then a global problem of 4 GPUs with 2
// slots. The GPUs are those of the printed phy2log, in any order.
TEST_CASE("eplb gives the GPUs of its published example", "[placement]") {
  struct Node {
    std::vector<double> load;
    std::multiset<Experts> gpus;
  };
  const std::vector<Node> nodes = {
      {{61, 104, 165, 39, 4, 73}, {{2, 3}, {2, 4}, {1, 5}, {0, 1}}},     // {5,6} {5,7} {8,4} {3,4}
      {{90, 132, 40, 56, 183, 86}, {{3, 4}, {2, 4}, {0, 1}, {1, 5}}},    // {10,9} {10,2} {0,1} {11,1}
      {{187, 157, 172, 86, 16, 27}, {{1, 4}, {0, 2}, {0, 5}, {2, 3}}},   // {7,10} {6,8} {6,11} {8,9}
      {{20, 107, 104, 64, 19, 197}, {{2, 4}, {1, 5}, {0, 5}, {1, 3}}}};  // {2,4} {5,1} {5,0} {3,1}
  for (const Node& node : nodes) {
    const PlacementShape shape = one_gpu_servers(1, 6, {2, 2, 2, 2});
    CHECK(all_gpus(place("eplb", shape, load_of(shape, node.load)), 0) == node.gpus);
  }
}

TEST_CASE("eplb is the published algorithm on equal GPUs wherever that puts no expert on a GPU twice",
          "[placement]") {
  Random random(5);
  int compared = 0;
  for (int round = 0; round < moelab::test::random_runs(5000); ++round) {
    const std::uint32_t gpus = 1 + below(random, 6), slots = 2 + below(random, 5);
    const std::uint32_t experts = 1 + below(random, gpus * slots), layers = 1 + below(random, 3);
    const PlacementShape shape =
        one_gpu_servers(layers, experts, std::vector<std::uint32_t>(gpus, slots * layers));
    const ActivationCounts counts = random_counts(random, shape);
    const Placement placement = place("eplb", shape, counts);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      std::vector<double> load(experts, 0);
      for (std::size_t n = 0; n < gpus; ++n)
        for (std::uint32_t e = 0; e < experts; ++e) load[e] += counts.at(n, layer, e);
      const std::vector<Experts> packs = published_eplb(load, gpus, slots);
      if (has_twice(packs)) continue;
      ++compared;
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) REQUIRE(on_gpu(placement, gpu, layer) == packs[gpu]);
    }
  }
  CHECK(compared > moelab::test::random_runs(1000));
}

// 4 GPUs with a slot each, one expert: 4 copies, the first 2 on different servers, then the GPUs left out.
TEST_CASE("eplb puts further copies on servers that have one, once there are enough servers", "[placement]") {
  const PlacementShape shape{.layers = 1,
                             .experts = 1,
                             .expert_bytes = 1e6,
                             .servers = {{.gpu_bytes = {1e6, 1e6}}, {.gpu_bytes = {1e6, 1e6}}},
                             .copies = 2};
  const Placement placement = place("eplb", shape, ActivationCounts(2, 1, 1));
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) CHECK(placement.held(gpu) == 1);
}

TEST_CASE("smartmoe is the published greedy on equal GPUs", "[placement]") {
  Random random(6);
  for (int round = 0; round < moelab::test::random_runs(3000); ++round) {
    const std::uint32_t gpus = 1 + below(random, 6), slots = 1 + below(random, 5),
                        layers = 1 + below(random, 3);
    const std::uint32_t experts = gpus * slots;
    const PlacementShape shape =
        one_gpu_servers(layers, experts, std::vector<std::uint32_t>(gpus, experts * layers));
    const ActivationCounts counts = random_counts(random, shape);
    const Placement placement = place("smartmoe", shape, counts);
    Experts items(experts);
    std::iota(items.begin(), items.end(), 0U);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      std::vector<double> load(experts, 0);
      for (std::size_t n = 0; n < gpus; ++n)
        for (std::uint32_t e = 0; e < experts; ++e) load[e] += counts.at(n, layer, e);
      const std::vector<Experts> packs = packed(items, load, gpus, slots);
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) REQUIRE(on_gpu(placement, gpu, layer) == packs[gpu]);
    }
  }
}

// 4 experts come to server 0 at 2 MB/s (1 MB each), 1 to server 1 at 0.5 MB/s: 2 s and 2 s.
TEST_CASE("migration counts what comes, at the speed of the server it comes to", "[placement]") {
  PlacementShape shape = one_gpu_servers(1, 6, {6, 6});
  shape.servers[0].load_bytes_per_second = 2e6;
  shape.servers[1].load_bytes_per_second = 0.5e6;
  Placement from(shape), to(shape);
  for (const std::uint32_t e : {0, 1}) from.place(0, 0, e), to.place(0, 0, e);
  for (const std::uint32_t e : {2, 3, 4, 5}) from.place(1, 0, e), to.place(0, 0, e);
  to.place(1, 0, 0);
  const MigrationCost cost = migration_cost(shape, from, to);
  CHECK(cost.experts == 5);
  CHECK(cost.bytes == 5e6);
  CHECK(cost.seconds == Approx(4));
  CHECK(cost.longest_seconds == Approx(2));
  CHECK(migration_seconds(shape, from, to) == cost.seconds);
  CHECK(migration_seconds(shape, to, to) == 0);
  shape.servers[1].load_bytes_per_second = 0;
  CHECK_THAT(error_of([&] { migration_cost(shape, from, to); }),
             Contains("1 experts come to server 1") && Contains("state at which speed"));
}

// GPU 0 could keep 1 and 2, but then 0 finds no second GPU: the server stays as planned.
TEST_CASE("experts on several GPUs of a server stay on as many when others keep their place", "[placement]") {
  PlacementShape shape = one_gpu_servers(1, 3, {4});
  shape.servers[0].gpu_bytes = {2e6, 2e6};
  Placement from(shape), to(shape);
  from.place(0, 0, 1), from.place(0, 0, 2), from.place(1, 0, 0);
  to.place(0, 0, 0), to.place(0, 0, 1), to.place(1, 0, 0), to.place(1, 0, 2);
  CHECK(keep_in_place(shape, from, to) == to);
}

// Server 0 uses experts 0 and 1, 300 times each in 60 s; it has 0, and gets 1 in the place of 2: 5 calls a
// second less. 1 MB at 0.1 MB/s: 10 s. A call costs 20 ms: 0.1 s saved a second, so it pays after 100 s.
TEST_CASE("migration pays when the horizon is long enough", "[placement]") {
  PlacementShape shape = one_gpu_servers(1, 3, {2, 3});
  shape.servers[0].load_bytes_per_second = 0.1e6;
  const ActivationCounts counts = counts_of(shape, {{300, 300, 0}});
  Placement from(shape);
  for (const std::uint32_t e : {0, 1, 2}) from.place(1, 0, e);
  from.place(0, 0, 0);
  Placement to = from;
  from.place(0, 0, 2);
  to.place(0, 0, 1);
  MigrationTerms terms{.window_seconds = 60, .remote_call_seconds = 0.02, .horizon_seconds = 101};
  const MigrationDecision longer = decide_migration(shape, counts, from, to, terms);
  CHECK(longer.calls_saved_per_second == Approx(5));
  CHECK(longer.seconds_saved == Approx(10.1));
  CHECK(longer.migration_seconds == Approx(10));
  CHECK(longer.adopt);
  terms.horizon_seconds = 99;
  CHECK_FALSE(decide_migration(shape, counts, from, to, terms).adopt);
  CHECK_FALSE(decide_migration(shape, counts, to, from, terms).adopt);
  CHECK_FALSE(decide_migration(shape, counts, to, to, terms).adopt);
  terms.window_seconds = 0;
  CHECK_THAT(error_of([&] { decide_migration(shape, counts, from, to, terms); }),
             Contains("the window of the counts is 0.000000 s, expected above 0"));
}

TEST_CASE("clusters without room are refused, with the shortfall", "[placement]") {
  PlacementShape shape = one_gpu_servers(26, 64, {500, 600, 500});
  CHECK_THAT(error_of(shape),
             Contains("room for 1600 experts, one copy of 26 layers of 64 experts take 1664") &&
                 Contains("room for 64 experts is missing (64 MB)"));
  shape.servers[1].gpu_bytes = {700e6};
  CHECK(error_of(shape) == "no error");
  shape.servers[1].up = false;
  CHECK_THAT(error_of(shape), Contains("the 2 servers that are up") && Contains("664 experts is missing"));
  shape.copies = 3;
  CHECK_THAT(error_of(shape), Contains("wanted on 3 servers, expected at most 2"));
  // One server is of no use for a second copy, however large.
  shape = one_gpu_servers(1, 4, {400, 2});
  shape.copies = 2;
  CHECK_THAT(error_of(shape), Contains("room for 6 experts, 2 copies on different servers") &&
                                  Contains("room for 2 experts is missing"));
}

TEST_CASE("bad shapes, counts and parameters are refused in words", "[placement]") {
  const PlacementShape good = one_gpu_servers(2, 4, {8, 8});
  PlacementShape shape = good;
  shape.experts = 0;
  CHECK_THAT(error_of(shape), Contains("0 experts a layer, expected 1 to"));
  shape = good;
  shape.servers.clear();
  CHECK_THAT(error_of(shape), Contains("0 servers, expected 1 to"));
  shape = good;
  shape.expert_bytes = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(error_of(shape), Contains("an expert takes nan B"));
  shape = good;
  shape.servers[1].gpu_bytes = {8e6, -1};
  CHECK_THAT(error_of(shape), Contains("server 1: GPU 1 has -1.000000 B for experts"));
  shape = good;
  shape.layers = 60000, shape.experts = 60000;
  CHECK_THAT(error_of(shape), Contains("above 2e9 pairs"));
  shape = good;
  ActivationCounts counts(2, 2, 4);
  CHECK_THAT(error_of([&] { place("prism", shape, ActivationCounts(2, 2, 5)); }),
             Contains("5 experts a layer, expected 2, 2 and 4: use counts of the same model"));
  CHECK_THAT(error_of([&] {
               place("prism", shape, counts, {{"fill", 2}});
             }),
             Contains("parameter 'fill' is 2.000000, expected 0.000000 to 1.000000"));
  counts.add(1, 0, 0, -1);
  CHECK_THAT(error_of([&] { place("eplb", shape, counts); }), Contains("server 1 has a count of -1.000000"));
  const PlacementShape large = one_gpu_servers(26, 64, std::vector<std::uint32_t>(101, 100));
  CHECK_THAT(error_of([&] { place("optimal", large, ActivationCounts(101, 26, 64)); }),
             Contains("101 servers squared * 26 layers * 64 experts is above 16777216"));
}

}  // namespace moelab::placement_test
