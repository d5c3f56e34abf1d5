// Experts that move while serving: the memory that experts and KV cache share, and what moving takes.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/serving_checks.hpp"

namespace moelab::paged_residency_test {

using namespace moelab::test;

namespace {

/// Budget-aware residency that moves often, from any split, under a KV cache that presses.
SmallRun random_moving_run(std::uint64_t seed) {
  Random random(seed);
  SmallRun run = random_paged_run(seed, true);
  PagingConfig& p = paging_of(run);
  p.backends = {"huff", "host"};
  run.scenario.systems.front().kv.grows = coin(random);
  p.residency = {"budget-aware",
                 {{"theta", 0.2 + 0.8 * random.uniform()},
                  {"interval", from(random, 1, 4)},
                  {"step", 1},
                  {"staggered", from(random, 0, 1)},
                  {"pressure", coin(random) ? 0.0 : random.uniform()}}};
  if (coin(random)) run.scenario.device.gpu->own->link.to_device.value = Curve::affine(3e-6, 4e9);
  give_blocks(run, from(random, 8, 60));
  return run;
}

/// What the samples of all steps say that moved, and for how long the link was busy with it.
void check_moves(const SmallRun& run, const RunResult& r, const Recorder& record, double all_compressed) {
  const PagedPlan plan = plan_of(run);
  const double experts = 1.0 * plan.split.shape().layers * plan.split.shape().experts;
  double before = plan.split.gpu_share(), moved = 0, promoted = 0;
  for (const ServingSample& sample : r.metrics.series.samples()) {
    moved += std::abs(sample.residency - before) * experts;
    promoted += std::max(sample.residency - before, 0.0) * all_compressed;
    before = sample.residency;
  }
  CHECK(static_cast<double>(r.metrics.serving.moved_experts) == Approx(moved));
  CHECK(r.metrics.serving.promoted_bytes == Approx(promoted).margin(1e-6));
  double seconds = 0, most = 0;
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops)
      if (op.label.kind == OpKind::promote) {
        seconds += op.end - op.start;
        most += 1;
      }
  const Curve& link = run.scenario.device.gpu->own->link.to_device.value;
  const double latency = link(0), rate = 1e6 / (link(1e6) - latency);
  // The last of them may end after the run.
  CHECK((seconds - most * latency) * rate <= promoted * (1 + 1e-9) + 1e-6);
  if (promoted > 0 && r.metrics.series.samples().size() > 30) CHECK(seconds > 0);
}

}  // namespace

TEST_CASE("paged: experts and KV cache together never take more than there is for both") {
  int ran = 0, moved = 0, grew = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(600u); ++seed) {
    const SmallRun run = random_moving_run(seed);
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    const PagedPlan plan = plan_of(run);
    const StorageShape& shape = plan.split.shape();
    const double all_compressed = gpu_bytes(shape, {std::uint64_t{shape.layers} * shape.experts, 0});
    Recorder record;
    const RunResult r = run.run(&record);
    const double both = (r.memory.kv_cache + r.memory.expert_cache).value();
    REQUIRE(r.metrics.serving.steps < ServingSeries::kMost);  // every step is a sample
    for (const ServingSample& sample : r.metrics.series.samples()) {
      CHECK(sample.residency * all_compressed +
                static_cast<double>(sample.blocks) * r.memory.kv_block.value() <=
            both * (1 + 1e-12));
      CHECK(sample.blocks <= sample.all_blocks);
      if (sample.all_blocks > r.memory.kv_blocks) ++grew;
    }
    CHECK(r.metrics.serving.most_kv_use <= 1);  // of what there was then, also where it grew
    check_moves(run, r, record, all_compressed);
    moved += r.metrics.serving.moved_experts > 0 ? 1 : 0;
  }
  INFO(ran << " ran, experts moved in " << moved << ", the KV cache grew in " << grew);
  CHECK(ran > moelab::test::random_runs(300));
  CHECK(moved > moelab::test::random_runs(100));
  CHECK(grew > moelab::test::random_runs(100));
}

TEST_CASE("paged: experts that come back from an SSD are read there before they cross the link") {
  int came = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(1000u, 200u); ++seed) {
    SmallRun run = random_moving_run(seed);
    paging_of(run).backends = {"huff", "ssd"};
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    Recorder record;
    const ServingCounts c = run.run(&record).metrics.serving;
    CHECK(c.ssd_bytes == Approx(c.loaded_bytes + c.promoted_bytes));
    const TimingModel timing(run.scenario.device);
    const Curve& link = run.scenario.device.gpu->own->link.to_device.value;
    const double latency = link(0), rate = 1e6 / (link(1e6) - latency);
    for (const DoneGraph& graph : record.graphs) {
      std::vector<DoneOp> reads, crossings;
      for (const DoneOp& op : graph.ops)
        if (op.label.kind == OpKind::promote) (op.label.tier == Tier::ssd ? reads : crossings).push_back(op);
      REQUIRE(reads.size() == crossings.size());
      came += reads.empty() ? 0 : 1;
      for (std::size_t i = 0; i < reads.size(); ++i) {
        CHECK(crossings[i].start >= reads[i].end);
        const Bytes bytes((crossings[i].end - crossings[i].start - latency) * rate);
        CHECK(reads[i].end - reads[i].start ==
              Approx(timing.ssd_read(bytes * run.scenario.tensor_parallel).value()).epsilon(1e-6));
      }
    }
  }
  CHECK(came > moelab::test::random_runs(50, 5));
}

TEST_CASE("paged: where experts move, the window holds whole layers") {
  SmallRun run = paged_run(small_model({}), {"resident", "host"});
  PagingConfig& p = paging_of(run);
  p.storage = {"fixed", {{"offloaded", 0.5}}};
  const double layer = 4 * expert_bytes(run.scenario.model).value();
  CHECK(plan_of(run).memory.staging.value() == 2 * 0.5 * layer);
  p.residency.name = "budget-aware";
  CHECK(plan_of(run).memory.staging.value() == 2 * layer);
}

}  // namespace moelab::paged_residency_test
