// Servers of one task at a time, gone through at every instant: no graphs, no engine.
#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

namespace moelab::test {

enum NaiveServer {
  kComputes,
  kDecodes,
  kLinkIn,
  kLinkOut,
  kReduces,
  kRemaps,
  kHostRuns,
  kReads,  // of the SSD
  kNaiveServers
};

struct NaiveTask {
  NaiveServer server;
  double alone, shared;  // seconds that no other task stretches, then seconds with the GPU's memory
  int urgency, group;    // what starts first; then the order of addition
  std::vector<std::size_t> needs;
  double start = -1, end = -1;
};

/// Servers of one task at a time. Two users of the GPU's memory each take `stretch` times as long.
class NaiveMachine {
 public:
  explicit NaiveMachine(double stretch) : stretch_(stretch) {}
  double now = 0;
  std::vector<NaiveTask> tasks;

  std::size_t add(const NaiveTask& task) {
    tasks.push_back(task);
    return tasks.size() - 1;
  }
  bool done(std::size_t task) const { return tasks[task].end >= 0; }
  /// A task that has not begun never will: nothing waits for it.
  void cancel(std::size_t task) {
    if (tasks[task].start < 0) tasks[task].start = tasks[task].end = 0;
  }
  /// Until all of `wanted` are done, or for want of any until `limit`.
  void run(const std::vector<std::size_t>& wanted, double limit = std::numeric_limits<double>::infinity()) {
    while (!wanted.empty() ? !all_done(wanted) : now < limit) {
      start_what_can();
      step(limit);
    }
  }

 private:
  bool all_done(const std::vector<std::size_t>& wanted) const {
    return std::all_of(wanted.begin(), wanted.end(), [this](std::size_t t) { return done(t); });
  }
  void start_what_can() {
    for (int server = 0; server < kNaiveServers; ++server) {
      if (running_[server] != kNoTask) continue;
      for (std::size_t i = first_open(); i < tasks.size(); ++i) {
        const NaiveTask& t = tasks[i];
        if (t.server != server || t.start >= 0 || !all_done(t.needs)) continue;
        std::size_t& best = running_[server];
        if (best == kNoTask ||
            std::tuple(t.urgency, t.group, i) < std::tuple(tasks[best].urgency, tasks[best].group, best))
          best = i;
      }
      if (running_[server] != kNoTask) tasks[running_[server]].start = now;
    }
  }
  std::size_t first_open() {
    while (first_ < tasks.size() && done(first_)) ++first_;
    return first_;
  }
  /// Time moves on to the next moment at which anything changes.
  void step(double limit) {
    const auto uses_memory = [this](std::size_t t) { return tasks[t].alone == 0 && tasks[t].shared > 0; };
    int users = 0;
    for (const std::size_t t : running_) users += t != kNoTask && uses_memory(t) ? 1 : 0;
    const auto pace = [&](std::size_t t) { return users == 2 && uses_memory(t) ? stretch_ : 1.0; };
    const auto left = [&](std::size_t t) -> double& {
      return tasks[t].alone > 0 ? tasks[t].alone : tasks[t].shared;
    };
    double seconds = limit - now;
    for (const std::size_t t : running_)
      if (t != kNoTask) seconds = std::min(seconds, left(t) * pace(t));
    if (!(seconds < 1e9)) FAIL("nothing runs, and something is waited for");
    now += seconds;
    for (std::size_t& t : running_) {
      if (t == kNoTask) continue;
      double& of_task = left(t);
      of_task -= seconds / pace(t);
      if (of_task < 1e-15) of_task = 0;
    }
    for (std::size_t& t : running_)
      if (t != kNoTask && tasks[t].alone == 0 && tasks[t].shared == 0) {
        tasks[t].end = now;
        t = kNoTask;
      }
  }

  static constexpr std::size_t kNoTask = ~std::size_t{0};
  double stretch_;
  std::size_t first_ = 0;
  std::array<std::size_t, kNaiveServers> running_ = {kNoTask, kNoTask, kNoTask, kNoTask,
                                                     kNoTask, kNoTask, kNoTask, kNoTask};
};

}  // namespace moelab::test
