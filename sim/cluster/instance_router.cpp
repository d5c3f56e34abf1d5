#include "sim/cluster/instance_router.hpp"

#include <algorithm>

#include "sim/engine/change_bell.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

class InstanceRouter::Source final : public RequestSource {
 public:
  Source(InstanceRouter& router, std::uint32_t instance)
      : bell_(router.engine_), router_(router), instance_(instance) {}

  std::span<const Arrival> take(double now) override {
    router_.assign_until(now);
    taken_.swap(waiting_);
    waiting_.clear();
    return taken_;
  }
  std::optional<double> next_time() const override { return std::nullopt; }
  ChangeBell* bell() override { return router_.all_answered() ? nullptr : &bell_; }
  void finished(std::uint32_t number, double, double now) override {
    router_.finished(number, instance_, now);
  }
  void has_blocks(std::uint32_t number) override { router_.start(router_.transfer(number)); }

  void send(const Arrival& arrival) {
    waiting_.push_back(arrival);
    bell_.ring();
  }
  void ring() { bell_.ring(); }

  BatchingPolicy* policy = nullptr;

 private:
  ChangeBell bell_;
  InstanceRouter& router_;
  std::uint32_t instance_;
  std::vector<Arrival> waiting_, taken_;
};

InstanceRouter::InstanceRouter(engine::Engine& engine, RequestSource& requests, const InstancesConfig& config,
                               const KvShape& kv, Bytes kv_block)
    : engine_(engine),
      requests_(requests),
      config_(config),
      kv_(kv),
      kv_block_(kv_block),
      loads_(config.count(), 0) {
  for (std::uint32_t i = 0; i < config_.count(); ++i) sources_.push_back(std::make_unique<Source>(*this, i));
  if (!config_.disaggregated()) return;
  engine::NetworkLaw star;
  const double rate = config_.link.bandwidth.value();
  star.nodes.assign(config_.count(), {rate, rate});
  engine_.set_network(star);
  for (std::uint32_t i = 0; i < config_.prefill; ++i)
    networks_.push_back(engine_.add_resource(config_.name(i) + "/network", engine::kUnlimitedSlots));
}

InstanceRouter::~InstanceRouter() = default;

RequestSource& InstanceRouter::source(std::uint32_t instance) {
  return *sources_[instance];
}

void InstanceRouter::set_policy(std::uint32_t instance, BatchingPolicy& policy) {
  sources_[instance]->policy = &policy;
}

void InstanceRouter::begin() {
  expect_next();
}

const HandOver* InstanceRouter::handed_over(std::uint32_t number) const {
  const HandOver& over = sent_[number].over;
  return over.end_s < 0 ? nullptr : &over;
}

std::uint32_t InstanceRouter::least_loaded(std::uint32_t first, std::uint32_t end) const {
  return static_cast<std::uint32_t>(std::min_element(loads_.begin() + first, loads_.begin() + end) -
                                    loads_.begin());
}

void InstanceRouter::assign_until(double now) {
  for (RequestSource::Arrival arrival : requests_.take(now)) {
    if (arrival.number >= sent_.size()) sent_.resize(arrival.number + std::size_t{1});
    const std::uint32_t to = least_loaded(0, config_.colocated + config_.prefill);
    sent_[arrival.number] = {arrival, {.from = to}};
    ++unanswered_;
    if (runs_prompts_only(to)) {
      loads_[to] += arrival.request.prompt_tokens;
      arrival.request.kept = arrival.request.output_tokens > 1;
      arrival.request.output_tokens = 1;
    } else {
      ++loads_[to];
    }
    sources_[to]->send(arrival);
  }
}

void InstanceRouter::finished(std::uint32_t number, std::uint32_t instance, double now) {
  assign_until(now);  // what came before is judged by how it was then
  Sent& sent = sent_[number];
  if (runs_prompts_only(instance)) {
    loads_[instance] -= sent.arrival.request.prompt_tokens;
    if (sent.arrival.request.output_tokens > 1) return hand_over(sent, now);
  } else {
    --loads_[instance];
  }
  --unanswered_;
  requests_.finished(number, sent.arrival.request.arrival_s, now);
  expect_next();
  if (!all_answered()) return;
  for (const auto& source : sources_) source->ring();
}

void InstanceRouter::hand_over(Sent& sent, double now) {
  sent.over.to = least_loaded(config_.prefill, config_.count());
  ++loads_[sent.over.to];
  RequestSource::Arrival rest = sent.arrival;
  rest.request.prefilled = rest.request.fetched = true;
  rest.request.first_token_s = now;
  --rest.request.output_tokens;
  sources_[sent.over.to]->send(rest);
}

void InstanceRouter::start(engine::Process process) {
  while (!processes_.empty() && processes_.front().done()) processes_.pop_front();
  engine_.spawn(processes_.emplace_back(std::move(process)));
}

/// Requests that come to instances of which none is at work.
void InstanceRouter::expect_next() {
  const std::optional<double> at = requests_.next_time();
  if (!at || *at >= expected_) return;
  expected_ = *at;
  start(wake(*at));
}

engine::Process InstanceRouter::wake(double at) {
  co_await engine_.until(at);
  assign_until(engine_.now());
  if (at == expected_) {  // else another one came first, and looks for the next
    expected_ = std::numeric_limits<double>::infinity();
    expect_next();
  }
}

engine::Process InstanceRouter::transfer(std::uint32_t number) {
  const std::uint32_t from = sent_[number].over.from, to = sent_[number].over.to;
  const std::uint64_t blocks = request_blocks(sent_[number].arrival.request.prompt_tokens, kv_);
  const double bytes = static_cast<double>(blocks) * kv_block_.value();
  sent_[number].over.bytes = bytes;
  sent_[number].over.begin_s = engine_.now();
  LabelledGraph graph;
  const engine::OpIndex op = graph.graph.add(graph.graph.lane(networks_[from]), config_.link.latency.value());
  graph.labels.push_back({OpKind::message});
  graph.labels.back().bytes = bytes;
  graph.graph.flow(op, from, to, bytes);
  engine_.submit(graph.graph, engine::kDemand);
  co_await engine_.finished(graph.graph);
  sent_[number].over.end_s = engine_.now();
  sources_[from]->policy->release(number);
  sources_[from]->ring();
  sources_[to]->policy->receive(number);
  sources_[to]->ring();
}

}  // namespace moelab
