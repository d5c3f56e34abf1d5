// The executor behind the hardware engine's dispatcher: see hardware_engine.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "hw/executor/hand_off.hpp"
#include "hw/executor/hardware_engine.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/shared_capacity.hpp"

namespace moelab {

class HardwareExecutor {
 public:
  static constexpr const char* kName = "hardware";
  static constexpr bool kResolvesChains = true;  // the machine does
  static constexpr bool kOwnClock = true;

  HardwareExecutor(std::unique_ptr<Machine> machine, const HardwareOptions& options);
  ~HardwareExecutor();
  HardwareExecutor(const HardwareExecutor&) = delete;
  HardwareExecutor& operator=(const HardwareExecutor&) = delete;

  void add_capacity(const engine::CapacityLaw&) {}
  void set_factor(engine::CapacityId, double, double) {}
  void set_network(const engine::NetworkLaw&) {
    throw std::logic_error("the hardware engine has no network");
  }
  void set_node(engine::NodeId, engine::NetworkLaw::Node, double) {}  // of no node
  double flow_seconds(engine::NodeId, engine::NodeId, double) const { return 0; }
  std::size_t nodes() const { return 0; }
  void prepare(std::size_t most, std::span<const std::uint32_t> slots);
  void start(engine::Graph& graph, engine::OpIndex op, double now);

  template <class Round>
  void drive(double limit, Round round) {
    const Drain drain{*this};
    while (in_flight_ > 0 || limit < kNever || failure_) {
      const double now = wait(limit);
      if (!ended_.empty() || now >= limit) limit = round(now, std::span(ended_));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Task {
    engine::Graph* graph;
    engine::OpIndex op;
    Clock::time_point handed;
  };
  struct Worker {
    engine::ResourceId resource;
    HandOff<Task> tasks;
    std::thread thread;
  };
  struct Done {
    Task task;
    Worker* worker;
    Clock::time_point began, ended;
    std::exception_ptr failure;
  };
  /// However drive() ends, no thread works on a graph any more, whose owner may let it go then.
  struct Drain {
    HardwareExecutor& executor;
    ~Drain() { executor.drain(); }
  };

  void work(Worker& worker);
  double wait(double limit);
  void accept(const Done& done);
  void record(const Done& done, double time) const;
  void drain();
  double now();
  Clock::time_point moment(double seconds) const;

  std::unique_ptr<Machine> machine_;
  HardwareOptions options_;
  std::stop_source stop_;
  HandOff<Done> done_;  // to the engine's thread; all below is that thread's own
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::vector<Worker*>> idle_;  // by resource
  std::vector<Done> taken_;
  std::vector<engine::InFlight> ended_;
  std::exception_ptr failure_;  // of an operation that could not be started
  std::size_t in_flight_ = 0;
  Clock::time_point start_{};
  bool running_ = false;  // since start_
  double last_ = 0;       // seconds
};

}  // namespace moelab
