#include "hw/executor/step_operations.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "hw/io/pace_clock.hpp"

namespace moelab {
namespace {

/// Exactly, but not to the end once it is to stop.
void wait_seconds(double seconds, const std::stop_token& stop) {
  constexpr PaceClock::Time kStep = std::chrono::milliseconds(10);
  SteadyPaceClock clock;
  const auto end =
      clock.now() + std::chrono::duration_cast<PaceClock::Time>(std::chrono::duration<double>(seconds));
  while (clock.now() + kStep < end && !stop.stop_requested()) std::this_thread::sleep_for(kStep / 2);
  if (!stop.stop_requested()) clock.wait_until(end);
}

}  // namespace

const LabelledGraph& labels_of(const engine::Graph& graph) {
  if (graph.labelled() == nullptr)
    throw std::logic_error("hardware: a graph that does not say what it means");
  return *graph.labelled();
}

StepOperations::StepOperations(ComputeDevice& device, const KvSwapRoom& swaps, bool dense)
    : device_(device), dense_(dense) {
  if (swaps.host_bytes > 0) swaps_.emplace(device, swaps);
}

bool StepOperations::begin(const LabelledGraph& graph, engine::OpIndex op) {
  switch (graph.labels[op].kind) {
    case OpKind::swap_out:
      kv().begin_out(graph.swapped.out);
      return true;
    case OpKind::swap_in:
      kv().begin_in(graph.swapped.in);
      return true;
    case OpKind::dense:
    case OpKind::shared_expert:
    case OpKind::predict:
    case OpKind::host:
    case OpKind::wait:
      return true;
    default:
      return false;
  }
}

bool StepOperations::run(const LabelledGraph& graph, engine::OpIndex op, const std::stop_token& stop) {
  switch (graph.labels[op].kind) {
    case OpKind::dense:
    case OpKind::shared_expert:
    case OpKind::predict:
      compute(graph.kernel);
      return true;
    case OpKind::host:
      wait_seconds(graph.graph.seconds(op), stop);
      return true;
    case OpKind::wait:
      return true;
    case OpKind::swap_out:
      kv().out(graph.swapped.out);
      return true;
    case OpKind::swap_in:
      kv().in(graph.swapped.in);
      return true;
    default:
      return false;
  }
}

void StepOperations::compute(const KernelWork& work) {
  if (dense_) device_.dense(work.bytes, work.flops, work.kernels);
}

KvSwaps& StepOperations::kv() {
  if (!swaps_)
    throw std::logic_error("hardware: there is no room for blocks of the KV cache that are swapped");
  return *swaps_;
}

}  // namespace moelab
