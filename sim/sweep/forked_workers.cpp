#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/sweep/point_workers.hpp"

namespace moelab {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

ForkedWorkers::ForkedWorkers(std::size_t jobs, ChildLimits limits)
    : jobs_(jobs), limits_(limits), host_(host_name()) {}

void ForkedWorkers::start(std::uint64_t number, std::function<PointJob()> job, const std::string&) {
  start_work(number, [&job] { return run_point(job()); });
}

void ForkedWorkers::start_work(std::uint64_t number, const std::function<std::string()>& work) {
  running_.emplace_back(number, ChildProcess(work, limits_));
}

std::vector<std::pair<std::uint64_t, PointOutcome>> ForkedWorkers::wait(double seconds) {
  std::vector<pollfd> wanted;
  for (const auto& [number, child] : running_) {
    wanted.push_back({child.descriptor(), POLLIN, 0});
    seconds = std::min(seconds, std::max(child.seconds_left(), 0.0));
  }
  poll(wanted.data(), wanted.size(), static_cast<int>(std::ceil(seconds * 1e3)));  // interrupted: look anyway
  std::vector<std::pair<std::uint64_t, PointOutcome>> done;
  for (std::size_t i = 0; i < running_.size();) {
    ChildProcess& child = running_[i].second;
    if (child.read() || child.seconds_left() <= 0) {
      done.emplace_back(running_[i].first, PointOutcome{child.wait(), host_});
      std::vector<std::pair<std::uint64_t, ChildProcess>> rest;
      for (std::size_t k = 0; k < running_.size(); ++k)
        if (k != i) rest.push_back(std::move(running_[k]));
      running_.swap(rest);
    } else {
      ++i;
    }
  }
  return done;
}

}  // namespace moelab
