// The window's protocol, broken on purpose: in builds that check invariants each breach is caught.
#include <catch2/catch.hpp>

#include "sim/serving/expert_window.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::expert_window_test {

using namespace moelab::test;

#ifdef MOELAB_CHECK_INVARIANTS

namespace {

/// A window of a model of three MoE layers, and an engine in which loads take their time.
struct WindowAlone {
  SmallRun run = paged_run(small_model({.moe_layers = 3}), {"host"});
  TimingModel timing{run.scenario.device};
  PagedPlan plan = plan_of(run);
  std::unique_ptr<engine::Engine> engine = engine::make_fast_engine();
  PagedResources resources = add_paged_resources(*engine, timing, plan);
  ExpertWindow window{*engine, resources, timing, plan, 3, 1};
  WindowExperts experts{run.scenario, run.system(), plan, {}, 1};
  ServingCounts counts;

  void load(std::uint32_t layer) {
    std::vector<WindowStream> streams(1);
    experts.find_stream(plan.split, 0, layer, streams.front());
    window.load(layer, streams, counts);
  }
};

engine::Process breach(WindowAlone& w, int which) {
  w.load(0);
  if (which == 0) w.load(0);  // mapped twice
  w.load(1);
  if (which == 1) w.load(2);                  // both halves are taken
  if (which == 2) w.window.loading(2);        // of a layer that is in neither
  if (which == 3) w.window.release(0, 0, 1);  // before its load is done
  co_await w.engine->finished(w.window.loading(0).graph);
  if (which == 4) w.window.release(0, 0, w.engine->now());  // computed before
  const double now = w.engine->now();
  w.window.release(0, now, which == 5 ? now + 1 : now);  // 5: still computes
  w.load(2);
  while (LabelledGraph* const load = w.window.any()) {
    co_await w.engine->finished(load->graph);
    w.window.drop(*load);
  }
}

std::string said(int which) {
  WindowAlone w;
  engine::Process process = breach(w, which);
  w.engine->spawn(process);
  try {
    w.engine->run();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("expert window: every breach of the protocol is caught") {
  using Catch::Contains;
  CHECK_THAT(said(0), Contains("mapped twice"));
  CHECK_THAT(said(1), Contains("a load into blocks that are still read"));
  CHECK_THAT(said(2), Contains("whose pages are not mapped"));
  CHECK_THAT(said(3), Contains("compute before they are loaded"));
  CHECK_THAT(said(4), Contains("compute before they are loaded"));
  CHECK_THAT(said(5), Contains("a load into blocks that are still read"));
  CHECK(said(6).empty());
}

#endif

}  // namespace moelab::expert_window_test
