#include "sim/cluster/global_scheduler.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "policies/guard/policy_error.hpp"
#include "policies/placement/migration.hpp"
#include "sim/cluster/home_store.hpp"
#include "sim/engine/invariant.hpp"

namespace moelab {

using engine::OpIndex;

namespace {

constexpr std::uint64_t kMostDecisions = 20'000;  // each looks at all experts: a run is to end

}  // namespace

GlobalScheduler::GlobalScheduler(ClusterWorld& world)
    : world_(world),
      shape_(world.plan.shape),
      target_(world.plan.placement),
      movers_(world.resources.gpus.size()) {}

engine::Process GlobalScheduler::run() {
  if (!world_.placed().migration) co_return;
  const Seconds every = world_.placed().migration->every;
  for (std::uint64_t turn = 1; world_.serving > 0; ++turn) {
    if (turn > kMostDecisions)
      throw InputError(
          world_.scenario.name,
          "system '" + world_.system.name + "' has decided " + std::to_string(kMostDecisions) +
              " times whether to migrate, every " + to_string(every) +
              ", and serves still: expected a longer migration.every, or look for requests that come "
              "too seldom, and for a network or a device far slower than any real one");
    co_await world_.engine.until(static_cast<double>(turn) * every.value());
    if (world_.serving > 0) decide();
  }
}

// Eq. 3 and 4, in seconds.
void GlobalScheduler::decide() {
  const double now = world_.engine.now();
  world_.uses.look(now - looked_at_);
  looked_at_ = now;
  const double remote_call_seconds = world_.remote.of_activation(now);
  if (moving_ > 0 || remote_call_seconds <= 0) return;
  const ActivationCounts& counts = world_.uses.counts();
  const std::optional<Placement> next = place(counts);
  if (!next) return;  // servers are away, and the others cannot hold everything
  const MigrationTerms terms{.window_seconds = world_.uses.seconds(),
                             .remote_call_seconds = remote_call_seconds,
                             .horizon_seconds = world_.placed().migration->horizon.value()};
  const MigrationDecision decision = decide_migration(shape_, counts, target_, *next, terms);
  MigrationRecord record;
  record.at_s = now;
  record.adopted = decision.adopt;
  record.remote_before = remote_mass(counts, target_);
  record.remote_after = remote_mass(counts, *next);
  record.horizon_s = terms.horizon_seconds;
  record.saved_s = decision.seconds_saved;
  record.cost_s = decision.migration_seconds;
  record.experts = migration_cost(shape_, target_, *next).experts;
  records_.push_back(record);
  if (!decision.adopt) return;
  adopt(*next);
  world_.uses.changed();
  world_.remote.changed();
}

// As the policy says, with experts that stay on a server staying on their GPU. Nothing where the servers that
// are up cannot hold one copy of each.
std::optional<Placement> GlobalScheduler::place(const ActivationCounts& counts) const {
  const PolicyChoice& policy = world_.placed().placement;
  try {
    const Placement next =
        place_experts(*find_placement_policy(policy.name), shape_, counts, policy.parameters);
    return keep_in_place(shape_, target_, next);
  } catch (const PolicyError&) {
    throw;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool GlobalScheduler::recover() {
  for (std::size_t server = 0; server < shape_.servers.size(); ++server)
    shape_.servers[server].up = world_.up[server] != 0;
  const auto up = static_cast<std::uint32_t>(std::count(world_.up.begin(), world_.up.end(), 1));
  shape_.copies = std::min(world_.plan.shape.copies, std::max(up, 1U));
  const double now = world_.engine.now();
  world_.uses.look(now - looked_at_);
  looked_at_ = now;
  const std::optional<Placement> next = place(known_counts());
  if (!next) return false;
  MigrationRecord record;
  record.at_s = now;
  record.adopted = record.recovery = true;
  records_.push_back(record);
  adopt(*next);
  return true;
}

// What has been counted since the placement last changed; until then, what the first one was made from.
const ActivationCounts& GlobalScheduler::known_counts() const {
  return world_.uses.seconds() > 0 && world_.placed().migration ? world_.uses.counts() : world_.history;
}

void GlobalScheduler::adopt(Placement target) {
  target_ = std::move(target);
  std::uint64_t experts = 0;
  for (std::uint32_t gpu = 0; gpu < movers_.size(); ++gpu) {
    list_moves(gpu);
    Mover& mover = movers_[gpu];
    experts += mover.coming.size();
    if (mover.busy || (mover.coming.empty() && mover.going.empty())) continue;
    mover.busy = true;
    ++moving_;
    processes_.push_back(std::make_unique<engine::Process>(move(gpu)));
    world_.engine.spawn(*processes_.back());
  }
  records_.back().experts = experts;
  world_.changes.ring();
  if (moving_ == 0) records_.back().done_s = world_.engine.now();
}

// What differs from the target, the most used experts first.
void GlobalScheduler::list_moves(std::uint32_t gpu) {
  Mover& mover = movers_[gpu];
  mover.coming.clear();
  mover.going.clear();
  const std::uint32_t server = world_.resources.server_of[gpu];
  if (!world_.up[server]) return;
  const Placement& live = world_.live.placement();
  for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
    for (std::uint32_t expert = 0; expert < shape_.experts; ++expert) {
      const bool is = live.on_gpu(gpu, layer, expert), shall = target_.on_gpu(gpu, layer, expert);
      if (shall && !is) mover.coming.push_back({layer, expert});
      if (is && !shall) mover.going.push_back({layer, expert});
    }
  const ActivationCounts& counts = known_counts();
  const auto less_used = [&](const Object& a, const Object& b) {
    return counts.at(server, a.layer, a.expert) < counts.at(server, b.layer, b.expert);
  };
  std::stable_sort(mover.coming.begin(), mover.coming.end(), less_used);
  std::stable_sort(mover.going.rbegin(), mover.going.rend(), less_used);
  // What no server has is needed most.
  std::stable_partition(mover.coming.begin(), mover.coming.end(),
                        [&](const Object& o) { return live.copies(o.layer, o.expert) > 0; });
}

std::uint64_t GlobalScheduler::room(std::uint32_t gpu) const {
  const std::uint32_t server = world_.resources.server_of[gpu];
  const std::uint32_t own = gpu - world_.resources.servers[server].first_gpu;
  const auto slots = static_cast<std::uint64_t>(shape_.servers[server].gpu_bytes[own] / shape_.expert_bytes) +
                     (world_.placed().migration ? 1 : 0);
  const std::uint64_t held = world_.live.placement().held(gpu);
  engine::check_invariant(held <= slots, "a GPU holds no more experts than it has room for");
  return slots - held;
}

engine::Process GlobalScheduler::move(std::uint32_t gpu) {
  Mover& mover = movers_[gpu];
  engine::Engine& engine = world_.engine;
  const std::uint32_t server = world_.resources.server_of[gpu];
  // How long to wait for others' experts: about as long as one takes.
  const double patience = shape_.expert_bytes / shape_.servers[server].load_bytes_per_second;
  SteppedLooks looks(world_.changes, patience);
  while (world_.up[server] && !(mover.coming.empty() && mover.going.empty()) && world_.serving > 0) {
    if (mover.coming.empty() || room(gpu) == 0) {
      if (let_go(gpu, false)) continue;
      if (mover.going.empty()) break;  // the target has more than there is room for: never so
      const double looked = engine.now();
      if (!looks.has_changed()) co_await world_.changes.next();
      co_await engine.until(looks.next_after(looked, engine.now()));
      if (!mover.coming.empty() && !any_gpu_loads() && world_.up[server]) let_go(gpu, true);
      continue;
    }
    const Object next = mover.coming.back();
    mover.coming.pop_back();
    if (world_.live.placement().on_gpu(gpu, next.layer, next.expert)) continue;  // came for the target before
    submit_load(gpu, next);
    mover.loading = true;
    co_await engine.finished(mover.load.graph);
    mover.loading = false;
    if (world_.observer) world_.observer->finished(mover.load, 0, static_cast<std::int32_t>(next.layer));
    // The server may have left, or the target have changed, meanwhile.
    const bool wanted = target_.on_gpu(gpu, next.layer, next.expert);
    if (world_.up[server] && wanted && !world_.live.placement().on_gpu(gpu, next.layer, next.expert))
      world_.live.arrive(gpu, next.layer, next.expert);
    world_.changes.ring();
  }
  mover.busy = false;
  --moving_;
  finish_moves();
}

// The least used of those that are not to stay and that another GPU also holds; forced, the least used.
bool GlobalScheduler::let_go(std::uint32_t gpu, bool forced) {
  Mover& mover = movers_[gpu];
  const Placement& live = world_.live.placement();
  for (std::size_t i = mover.going.size(); i > 0; --i) {
    const Object object = mover.going[i - 1];
    // Where experts may be nowhere every server loads what it lacks.
    if (!forced && shape_.copies > 0 && live.holders(object.layer, object.expert).size() < 2) continue;
    mover.going.erase(mover.going.begin() + static_cast<std::ptrdiff_t>(i - 1));
    world_.live.leave(gpu, object.layer, object.expert);
    return true;
  }
  return false;
}

bool GlobalScheduler::any_gpu_loads() const {
  return std::any_of(movers_.begin(), movers_.end(), [](const Mover& mover) { return mover.loading; });
}

std::uint32_t GlobalScheduler::nearest_holder(std::uint32_t gpu, const Object& object) const {
  const std::uint32_t here = world_.resources.server_of[gpu];
  std::uint32_t best = here;
  double best_s = 0;
  for (const std::uint32_t holder : world_.live.placement().holders(object.layer, object.expert)) {
    const std::uint32_t there = world_.resources.server_of[holder];
    if (there == here || !world_.up[there]) continue;
    const double seconds = world_.engine.flow_seconds(there, here, shape_.expert_bytes);
    if (best != here && seconds >= best_s) continue;
    best = there;
    best_s = seconds;
  }
  return best;
}

// An expert's way to a GPU, behind all that is more urgent. Where no other server sends it, it comes from the
// server's own store.
void GlobalScheduler::submit_load(std::uint32_t gpu, const Object& object) {
  using From = MigrationConfig::From;
  const ClusterResources& r = world_.resources;
  const std::uint32_t server = r.server_of[gpu];
  const Bytes bytes(shape_.expert_bytes);
  const From from = world_.placed().migration.value_or(MigrationConfig()).load_from;
  LabelledGraph& load = movers_[gpu].load;
  load.clear();
  load.layer = object.layer;
  engine::Graph& graph = load.graph;
  const OpLabel label{.kind = OpKind::migrate, .expert = object.expert};
  OpIndex last = engine::kNoOp;
  const std::uint32_t holder = from == From::network ? nearest_holder(gpu, object) : server;
  if (holder != server) {
    last = graph.add(graph.lane(r.servers[holder].nic),
                     world_.scenario.cluster->profile.network.latency.value());
    load.labels.push_back(label);
    graph.flow(last, holder, server, bytes.value());
  }
  const bool reads = from == From::ssd || world_.plan.memory[server].store == ExpertStore::ssd;
  if (holder == server && !world_.stores.empty()) {
    world_.stores[server]->add_placing(gpu - r.servers[server].first_gpu, object.layer, object.expert,
                                       from == From::ssd, load);
    std::fill(load.labels.begin(), load.labels.end(), label);
    last = static_cast<OpIndex>(graph.size() - 1);
  } else {
    last = add_store_load(load, {bytes, holder == server && reads, label, label}, r.servers[server],
                          r.gpus[gpu], last);
  }
  // Calls on their way may still read what lay in its room.
  for (LabelledGraph* const call : world_.live.calls(gpu)) graph.depend_on(last, call->graph);
  world_.engine.submit(graph, engine::kPrefetch);
}

void GlobalScheduler::finish_moves() {
  if (moving_ > 0) return;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record)
    if (record->adopted && record->done_s < 0) record->done_s = world_.engine.now();
}

}  // namespace moelab
