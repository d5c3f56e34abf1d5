#include "hw/io/processor_time.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

namespace moelab {

namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

std::optional<ProcessorTime> processor_time(const std::filesystem::path& root) {
  // proc(5): user, nice, system, idle, iowait, irq, softirq, steal; what follows is in user and nice already.
  enum : std::size_t { idle = 3, iowait = 4, kFields = 8 };
  std::ifstream lines(root / "proc/stat");
  std::string name;
  std::array<double, kFields> ticks{};
  if (!(lines >> name) || name != "cpu") return {};
  for (double& field : ticks)
    if (!(lines >> field)) return {};
  rusage own{};
  if (::getrusage(RUSAGE_SELF, &own) != 0) return {};
  const double a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  ProcessorTime time;
  for (std::size_t i = 0; i < ticks.size(); ++i)
    (i == idle || i == iowait ? time.idle : time.busy) += ticks[i] / a_second;
  time.own = seconds_of(own.ru_utime) + seconds_of(own.ru_stime);
  return time;
}

}  // namespace moelab
