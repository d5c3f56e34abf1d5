#include "hw/executor/hardware_executor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace moelab {
namespace {

/// Beyond it a resource is one without a bound.
constexpr std::uint32_t kMostThreads = 1024;
/// Later moments are as good as never, and a clock may not count so far.
constexpr double kFarSeconds = 1e9;

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

HardwareExecutor::HardwareExecutor(std::unique_ptr<Machine> machine, const HardwareOptions& options)
    : machine_(std::move(machine)), options_(options) {}

HardwareExecutor::~HardwareExecutor() {
  stop_.request_stop();
  for (const auto& worker : workers_) worker->tasks.close();
  for (const auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

void HardwareExecutor::prepare(std::size_t, std::span<const std::uint32_t> slots) {
  for (std::size_t r = idle_.size(); r < slots.size(); ++r) {
    if (slots[r] > kMostThreads)
      throw std::invalid_argument("hardware: resource " + std::to_string(r) + " has no bound on its threads");
    idle_.emplace_back();
    for (std::uint32_t i = 0; i < slots[r]; ++i) {
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      worker.resource = static_cast<engine::ResourceId>(r);
      worker.thread = std::thread([this, &worker] { work(worker); });
      idle_[r].push_back(&worker);
    }
  }
  if (options_.times != nullptr) options_.times->resize(std::max(options_.times->size(), slots.size()));
  if (!std::exchange(running_, true)) start_ = Clock::now();
}

void HardwareExecutor::work(Worker& worker) {
  std::vector<Task> tasks;
  while (worker.tasks.take(tasks, options_.spin, Clock::time_point::max())) {
    Done done{tasks.front(), &worker, Clock::now(), {}, nullptr};
    try {
      machine_->run(*done.task.graph, done.task.op, stop_.get_token());
    } catch (...) {
      done.failure = std::current_exception();
    }
    done.ended = Clock::now();
    done_.give(std::move(done));
  }
}

// Does not throw: the dispatcher may be in the middle of starting several. What fails here is thrown by the
// wait that follows.
void HardwareExecutor::start(engine::Graph& graph, engine::OpIndex op, double) {
  if (failure_) return;
  try {
    machine_->begin(graph, op);
  } catch (...) {
    failure_ = std::current_exception();
    return;
  }
  std::vector<Worker*>& idle = idle_[graph.resource(op)];
  Worker& worker = *idle.back();
  idle.pop_back();
  ++in_flight_;
  worker.tasks.give({&graph, op, Clock::now()});
}

// Until something has ended or the limit is reached. Returns the time; `ended_` is what has ended by then.
double HardwareExecutor::wait(double limit) {
  ended_.clear();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  done_.take(taken_, options_.spin, moment(limit));
  const double time = now();
  for (const Done& done : taken_) {
    accept(done);
    record(done, time);
    ended_.push_back({time, done.task.graph, done.task.op});
  }
  for (const Done& done : taken_)
    if (done.failure) std::rethrow_exception(done.failure);
  for (const Done& done : taken_) machine_->end(*done.task.graph, done.task.op);
  return time;
}

void HardwareExecutor::accept(const Done& done) {
  --in_flight_;
  idle_[done.worker->resource].push_back(done.worker);
}

void HardwareExecutor::record(const Done& done, double time) const {
  if (options_.times == nullptr) return;
  HandOffTimes& times = (*options_.times)[done.worker->resource];
  ++times.operations;
  times.out_s += seconds_between(done.task.handed, done.began);
  times.work_s += seconds_between(done.began, done.ended);
  times.back_s += time - seconds_between(start_, done.ended);
}

void HardwareExecutor::drain() {
  if (in_flight_ > 0) stop_.request_stop();
  while (in_flight_ > 0) {
    done_.take(taken_, options_.spin, Clock::time_point::max());
    for (const Done& done : taken_) accept(done);
  }
}

double HardwareExecutor::now() {
  return last_ = std::max(last_, seconds_between(start_, Clock::now()));
}

HardwareExecutor::Clock::time_point HardwareExecutor::moment(double seconds) const {
  if (seconds > kFarSeconds) return Clock::time_point::max();
  return start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace moelab
