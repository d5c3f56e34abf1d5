#include "sim/serving/draft_times.hpp"

#include <algorithm>

#include "sim/scenario.hpp"

namespace moelab {
namespace {

/// Of a head: a layer's and the output embedding's, as models/architecture_work.cpp counts them.
constexpr int kHeadKernels = 13;
constexpr double kFlopsAByte = 1;  // two a weight of two bytes

void add(const KernelTime& one, KernelTime& all) {
  all.seconds += one.seconds;
  all.bytes += one.bytes;
  all.flops += one.flops;
  all.kernels += one.kernels;
}

/// Of requests that decode, drafts of the one that has most.
std::uint32_t most_drafts(const Pass& pass) {
  std::uint32_t most = 0;
  for (const RowRun& run : pass.runs)
    if (!run.prompt) most = std::max(most, run.rows - 1);
  return most;
}

}  // namespace

std::unique_ptr<DraftTimes> DraftTimes::make(const Scenario& scenario, const SystemConfig& system,
                                             const TimingModel& timing) {
  const SpeculationConfig& s = scenario.speculation;
  if (!s.any() || (!s.model && !s.time && s.head == Bytes(0))) return nullptr;
  return std::unique_ptr<DraftTimes>(new DraftTimes(scenario, system, timing));
}

DraftTimes::DraftTimes(const Scenario& scenario, const SystemConfig& system, const TimingModel& timing)
    : speculation_(scenario.speculation), timing_(timing) {
  if (!speculation_.model) return;
  dense_ = std::make_unique<DenseTimes>(*speculation_.model, timing);
  const auto layers = static_cast<double>(speculation_.model->layers.size());
  host_s_ = layers * system.host_per_layer.value() + system.host_per_pass.value();
}

/// Fills pass_ with the requests that draft more than `number` tokens, at that token. How many they are.
std::uint32_t DraftTimes::begin_pass(const Pass& pass, std::uint32_t number) {
  pass_ = {.rows = {}, .runs = std::move(pass_.runs), .of_ranks = {}};
  pass_.runs.clear();
  for (const RowRun& run : pass.runs)
    if (!run.prompt && run.rows > number + 1) pass_.runs.push_back({.first = run.first + number});
  pass_.tokens = pass_.produces = static_cast<std::uint32_t>(pass_.runs.size());
  return pass_.tokens;
}

/// Of what is in pass_.
KernelTime DraftTimes::pass_of_model() {
  dense_->begin(pass_);
  KernelTime all = dense_->head();
  for (std::size_t layer = 0; layer < speculation_.model->layers.size(); ++layer)
    add(dense_->dense(layer), all);
  all.seconds += host_s_;
  return all;
}

/// The prompts' rows, so that what it drafts behind them knows them.
KernelTime DraftTimes::prompt_time(const Pass& pass) {
  if (pass.prompt_tokens == 0) return {};
  pass_ = {.prompt = true, .rows = {}, .runs = std::move(pass_.runs), .of_ranks = {}};
  pass_.runs.clear();
  for (const RowRun& run : pass.runs)
    if (run.prompt) pass_.runs.push_back(run);
  pass_.tokens = pass_.prompt_tokens = pass.prompt_tokens;
  return pass_of_model();
}

KernelTime DraftTimes::head_time(std::uint32_t requests) const {
  if (speculation_.time) return {speculation_.time->value(), speculation_.head.value()};
  Work work;
  work.weight_bytes = speculation_.head;
  work.flops = Flops(kFlopsAByte * speculation_.head.value() * requests);
  work.kernels = kHeadKernels;
  const Seconds seconds = timing_.kernel(work, requests) + timing_.dispatch();
  return {seconds.value(), work.weight_bytes.value(), work.flops.value(), work.kernels};
}

KernelTime DraftTimes::time(const Pass& pass) {
  KernelTime all = dense_ ? prompt_time(pass) : KernelTime{};
  const std::uint32_t most = most_drafts(pass);
  for (std::uint32_t number = 0; number < most; ++number) {
    const std::uint32_t requests = begin_pass(pass, number);
    add(dense_ ? pass_of_model() : head_time(requests), all);
  }
  return all;
}

}  // namespace moelab
