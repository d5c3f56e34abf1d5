#include "sim/serving/serving_loop.hpp"

#include <stdexcept>

#include "sim/engine/change_bell.hpp"

namespace moelab {
namespace {

/// co_await ended(engine, wait)
struct StageAwaiter {
  engine::Engine& engine;
  StageWait wait;
  bool await_ready() const {
    return wait.graph != nullptr ? wait.graph->finished() : engine.until(wait.until).await_ready();
  }
  void await_suspend(std::coroutine_handle<> handle) const {
    if (wait.graph != nullptr)
      engine.finished(*wait.graph).await_suspend(handle);
    else
      engine.until(wait.until).await_suspend(handle);
  }
  void await_resume() const {}
};

StageAwaiter ended(engine::Engine& engine, const StageWait& wait) {
  return {engine, wait};
}

}  // namespace

ServingLoop::ServingLoop(ServerState& state, ServingStage& stage, const Architecture& model, Bytes kv_block)
    : state_(state), stage_(stage), model_(model), moe_numbers_(model.moe_numbers()) {
  if (kv_block > Bytes(0)) account_.emplace(state.metrics, kv_block);
}

engine::Process ServingLoop::serve() {
  engine::Engine& engine = state_.engine;
  for (;;) {
    if (stage_.lost()) {
      while (const StageWait wait = stage_.away()) co_await ended(engine, wait);
      if (stage_.lost()) break;
      continue;
    }
    stage_.between_steps();
    if (!state_.stream->next(engine.now(), state_.pass)) {
      if (ChangeBell* bell = state_.stream->source().bell(); bell != nullptr) {
        co_await bell->next();
        continue;
      }
      if (!state_.stream->next_arrival()) break;
      co_await engine.until(*state_.stream->next_arrival());
      continue;
    }
    begin_step();
    if (submit_swaps()) {
      co_await engine.finished(swaps_.graph);
      state_.account(swaps_, -1);
    }
    for (StageWait wait = stage_.begin_drafting(); wait; wait = stage_.next()) co_await ended(engine, wait);
    for (std::size_t layer = 0; layer < model_.layers.size() && !stage_.lost(); ++layer) {
      if (model_.layers[layer].stack != state_.pass.stack) continue;
      const double began = engine.now();
      for (StageWait wait = stage_.begin_layer(layer); wait; wait = stage_.next())
        co_await ended(engine, wait);
      end_layer(layer, began);
    }
    if (stage_.lost()) continue;
    for (StageWait wait = stage_.begin_head(); wait; wait = stage_.next()) co_await ended(engine, wait);
    if (!stage_.lost()) end_step();
  }
  end();
  for (StageWait wait = stage_.begin_end(); wait; wait = stage_.next()) co_await ended(engine, wait);
}

void ServingLoop::begin_step() {
  ++state_.steps;
  if (account_) account_->begin(state_.stream->step(), state_.batching->use(), stage_.kv_blocks());
  stage_.begin_step();
}

// The blocks of requests that give way leave before the step's kernels, those of requests that go on come.
bool ServingLoop::submit_swaps() {
  if (!account_) return false;
  if (account_->swapped_out() == Bytes(0) && account_->swapped_in() == Bytes(0)) return false;
  swaps_.clear();
  for (std::size_t gpu = 0; gpu < stage_.gpus(); ++gpu)
    add_swaps(swaps_, account_->swapped_out(gpu), account_->swapped_in(gpu), stage_.swap_path(gpu),
              stage_.timing());
  state_.engine.submit(swaps_.graph, engine::kDemand);
  return true;
}

void ServingLoop::end_layer(std::size_t layer, double began) {
  if (moe_numbers_[layer] < 0 || state_.pass.prompt) return;
  const auto moe_layer = static_cast<std::size_t>(moe_numbers_[layer]);
  state_.metrics.layers.stall_s[moe_layer] += state_.engine.now() - began;
}

void ServingLoop::end_step() {
  const double now = state_.engine.now();
  const KvUse use = state_.batching->use();  // of the step, before what it answered leaves
  state_.stream->complete(now, state_.metrics, state_.observer);
  if (account_) account_->end(now, use, stage_.kv_blocks(), [this] { return stage_.resident_share(); });
  stage_.end_step(use);
  if (state_.observer != nullptr) state_.observer->pass_ended(now, state_.step(), state_.metrics.tokens);
  if (state_.progress) state_.progress(state_.metrics.tokens);
}

void ServingLoop::end() {
  state_.metrics.wall_s = state_.engine.now();
  if (account_) account_->finish(stage_.resident_share());
  const KvUse use = state_.batching->use();
  if (!stage_.lost() && use.running + use.waiting + use.swapped > 0)
    throw std::logic_error("requests wait for a KV cache that nothing will free");
}

}  // namespace moelab
