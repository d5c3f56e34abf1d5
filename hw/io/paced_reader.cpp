#include "hw/io/paced_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "hw/io/pread_reader.hpp"
#include "hw/io/system_memory.hpp"
#include "models/input_error.hpp"

namespace moelab {

PaceSchedule::PaceSchedule(const Pace& pace) : pace_(pace) {
  const double rate = pace.rate.value(), latency = pace.latency.value();
  if (!std::isfinite(rate) || rate <= 0) throw std::invalid_argument("a pace's rate is above 0");
  if (!std::isfinite(latency) || latency < 0) throw std::invalid_argument("a pace's latency is at least 0");
  if (pace.depth < 1 || pace.depth > kMostReads)
    throw std::invalid_argument("a pace's depth is 1 ... " + std::to_string(kMostReads));
}

PaceClock::Time PaceSchedule::next(PaceClock::Time now, std::size_t bytes) {
  const auto time = [](Seconds seconds) { return PaceClock::Time(std::llround(seconds.value() * 1e9)); };
  const Seconds transfer = Bytes(static_cast<double>(bytes)) / pace_.rate;
  last_ = std::max(now + time(pace_.latency), last_) + time(transfer);
  return last_;
}

PacedReader::PacedReader(std::string source, std::shared_ptr<const AlignedMemory> memory, const Pace& pace,
                         std::shared_ptr<PaceClock> clock)
    : Reader({}),
      source_(std::move(source)),
      memory_(std::move(memory)),
      depth_(pace.depth),
      clock_(std::move(clock)),
      schedule_(pace) {}

void PacedReader::submit(const ReadRequest& request) {
  require_sound(request);
  const std::lock_guard lock(mutex_);
  if (reads_.size() == depth_) throw std::logic_error("as many reads as the depth are under way already");
  reads_.push_back({request, schedule_.next(clock_->now(), request.destination.size())});
}

ReadCompletion PacedReader::wait() {
  Read read;
  {
    const std::lock_guard lock(mutex_);
    if (reads_.empty()) throw std::logic_error("no read is under way");
    read = reads_.front();
  }
  const auto& [request, due] = read;
  std::memcpy(request.destination.data(), memory_->bytes().data() + request.offset,
              request.destination.size());
  clock_->wait_until(due);
  const std::lock_guard lock(mutex_);
  reads_.pop_front();
  return {request.tag, request.destination.size()};
}

namespace {

/// The whole file, through the page cache.
std::shared_ptr<const AlignedMemory> load(const std::filesystem::path& path) {
  ReadFile file(path, false);
  const std::uint64_t bytes = file.size(), available = system_memory().available;
  if (available > 0 && bytes > available)
    throw InputError(file.name(), "needs " + to_string(Bytes(static_cast<double>(bytes))) +
                                      " of memory to be read at a pace, there are " +
                                      to_string(Bytes(static_cast<double>(available))));
  const auto memory = std::make_shared<AlignedMemory>(bytes);
  if (bytes == 0) return memory;
  PreadReader reader(std::move(file), {});
  reader.submit({0, memory->bytes(), 0});
  reader.wait();
  return memory;
}

}  // namespace

std::unique_ptr<Reader> open_paced_reader(const std::filesystem::path& file, const Pace& pace) {
  return std::make_unique<PacedReader>(file.string(), load(file), pace, std::make_shared<SteadyPaceClock>());
}

}  // namespace moelab
