// The prefetching half of the serving loop: wishes -> fetches at low priority -> the cache, or the layer that
// wanted them.
#include <numeric>

#include "sim/serving/server.hpp"

namespace moelab {

void Server::prefetch(std::uint32_t moe_layer, const Pass& pass) {
  if (!prefetch_) return;
  const std::uint64_t here = pass_number_ * trace_.layers() + moe_layer;
  settle_fetches(here);
  cancel_unstarted(here);
  wishes_.clear();
  if (gates_ahead_) look_ahead(moe_layer, pass);
  prefetch_->after_gate(moe_layer, uses_, wishes_);
  for (const Fetch& wish : wishes_) {
    if (fetches_.full()) break;
    // Layers behind this one, and those of the other stack, run in a later pass.
    const bool this_pass = wish.layer > moe_layer && moe_stack_[wish.layer] == moe_stack_[moe_layer];
    start_fetch(wish, (pass_number_ + (this_pass ? 0 : 1)) * trace_.layers() + wish.layer);
  }
}

// Gates of layers that have not run yet, for policies that predict them. Those of the next pass are not known
// to anybody: it has no tokens yet.
void Server::look_ahead(std::uint32_t moe_layer, const Pass& pass) {
  for (std::uint32_t ahead = 1; ahead <= prefetch_->gates_ahead(); ++ahead) {
    const std::uint32_t layer = moe_layer + ahead;
    if (layer >= trace_.layers() || moe_stack_[layer] != moe_stack_[moe_layer]) return;
    gates_ahead_->read(pass, layer);
    find_resident(layer);
    prefetch_->gate_ahead(layer, gates_ahead_->ahead(), resident_);
  }
}

/// Whether the GPU runs the next layer's attention ahead of it, to predict its gate, while this one runs.
bool Server::predicts(std::uint32_t moe_layer) const {
  return runs_attention_ahead_ && moe_layer + 1 < trace_.layers() &&
         moe_stack_[moe_layer + 1] == moe_stack_[moe_layer];
}

// Behind the experts that are on the GPU already, ahead of those that have to be loaded first.
void Server::submit_prediction(std::uint32_t moe_layer) {
  prediction_.clear();
  add_kernel(prediction_, resources_.experts, dense_times_.dense(model_layer_[moe_layer + 1]),
             OpKind::predict);
  engine_.submit(prediction_.graph, engine::kPrefetch);
}

void Server::start_fetch(const Fetch& fetch, std::uint64_t due) {
  const std::uint32_t object = fetch.layer * experts_ + fetch.expert;
  const State state = state_of(fetch.layer, fetch.expert);
  if (state == State::F || fetches_.find(object) != nullptr) return;
  end_taken(taken_bytes_[object], object, false);
  FetchSlot& slot = fetches_.take(object);
  slot.layer = fetch.layer;
  slot.expert = fetch.expert;
  slot.pass = pass_number_;
  slot.due = due;
  slot.offered = slot.taken = false;
  slot.state = state;
  slot.reads = plan_reads(object, state);
  fetch_instance_.experts.assign(1, {fetch.expert, costs_.tensors, state, 0});
  schedule_->order(fetch_instance_, order_);
  slot.load.clear();
  slot.load.layer = fetch.layer;
  const std::uint32_t tokens = 0;
  builder_.build(fetch_instance_, order_, {&slot.reads, 1}, {&tokens, 1}, slot.load);
  if (predicts_)
    for (engine::OpIndex op = 0; op < slot.load.graph.size(); ++op)
      if (slot.load.labels[op].tier != Tier::none) slot.load.graph.depend_on(op, prediction_.graph);
  if (options_.mirror != nullptr) options_.mirror->use({fetch.layer, fetch.expert});
  engine_.submit(slot.load.graph, engine::kPrefetch);
  ++metrics_.prefetch.fetched;
}

// A layer is up: what has not begun for it is demanded instead, or was not wanted after all.
void Server::cancel_unstarted(std::uint64_t here) {
  fetches_.for_each([&](std::uint32_t object, FetchSlot& slot) {
    if (slot.due <= here && !slot.load.graph.finished() && slot.load.graph.started() == 0)
      cancel_fetch(object, slot);
  });
}

// What has arrived is offered to the cache; what was meant for a layer that has passed goes.
void Server::settle_fetches(std::uint64_t now_due) {
  fetches_.for_each([&](std::uint32_t object, FetchSlot& slot) {
    const bool overdue = slot.due < now_due;
    if (!slot.load.graph.finished()) {
      if (overdue && slot.load.graph.started() == 0) cancel_fetch(object, slot);
      return;
    }
    if (!slot.offered) {
      slot.offered = true;
      slot.taken = domain(slot.layer).insert(object_in_domain(slot.layer, slot.expert));
      tell_mirror(slot.layer);
    }
    const State kept = state_of(slot.layer, slot.expert);
    if (slot.taken && (kept == State::F || (overdue && kept != State::M)))
      taken_bytes_[object] = release(slot);
    else if (overdue)
      drop(slot);
  });
}

// The slot becomes free. Returns the bytes that were read for it.
double Server::release(FetchSlot& slot) {
  if (options_.observer != nullptr) options_.observer->finished(slot.load, slot.pass, -1);
  const std::array<double, kTiers> bytes = bytes_read(slot.load);
  for (std::size_t tier = 0; tier < kTiers; ++tier) metrics_.bytes[tier] += bytes[tier];
  free_slot(slot);
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

void Server::drop(FetchSlot& slot) {
  if (slot.load.graph.started() == 0) return cancel_fetch(slot.layer * experts_ + slot.expert, slot);
  ++metrics_.prefetch.unused;
  metrics_.prefetch.wasted_bytes += release(slot);
}

void Server::cancel_fetch(std::uint32_t object, FetchSlot& slot) {
  engine_.cancel(slot.load.graph);
  // It read nothing after all.
  if (!has_sm(slot.state) && slot.reads.sm_tier == Tier::ssd) page_cache_.forget(2 * object);
  if (!has_e(slot.state) && slot.reads.e_tier == Tier::ssd) page_cache_.forget(2 * object + 1);
  --metrics_.prefetch.fetched;
  ++metrics_.prefetch.cancelled;
  free_slot(slot);
}

void Server::free_slot(FetchSlot& slot) {
  if (options_.mirror != nullptr) options_.mirror->release({slot.layer, slot.expert});
  fetches_.release(slot.layer * experts_ + slot.expert);
}

// A prefetched expert that the cache took is used for the first time, or will not be.
void Server::end_taken(double& bytes, std::uint32_t object, bool used) {
  if (bytes == kNotTaken) return;
  if (used && routing_ && !layer_uses_.low_score(object % experts_)) ++metrics_.prefetch.used_top_score;
  ++(used ? metrics_.prefetch.used : metrics_.prefetch.unused);
  if (!used) metrics_.prefetch.wasted_bytes += bytes;
  bytes = kNotTaken;
}

}  // namespace moelab
