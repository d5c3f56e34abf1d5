#include "hw/io/ring_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace moelab {

RingReader::RingReader(ReadFile file, std::size_t depth, std::string why)
    : Reader(std::move(why)), file_(std::move(file)), ring_(static_cast<unsigned>(depth)), slots_(depth) {
  for (std::size_t slot = depth; slot > 0; --slot) free_.push_back(slot - 1);
  try_reading();
}

RingReader::~RingReader() {
  // The kernel must not write into buffers that their owner believes to be free.
  try {
    while (under_way()) release(static_cast<std::size_t>(ring_.take().id));
  } catch (const std::system_error&) {
    // It takes no more waiting: closing the ring cancels what is left.
  }
}

/// A kernel may have io_uring and neither this kind of read nor the permission for it.
void RingReader::try_reading() {
  alignas(kReadAlignment) std::byte first[kReadAlignment];
  int error = ring_.put_read(file_.descriptor(), 0, first, 0);
  if (error == 0) error = -std::min(ring_.take().value, 0);
  if (error != 0) throw std::system_error(error, std::generic_category(), "io_uring refused");
}

void RingReader::submit(const ReadRequest& request) {
  require_sound(request);
  const std::lock_guard lock(mutex_);
  if (free_.empty()) throw std::logic_error("as many reads as the depth are under way already");
  const std::size_t slot = free_.back();
  slots_[slot] = {request, file_.within(request.offset, request.destination.size()), 0};
  if (const int error = put(slot); error != 0) file_.fail_read(request.offset, error);
  free_.pop_back();
}

int RingReader::put(std::size_t slot) {
  const Slot& read = slots_[slot];
  return ring_.put_read(file_.descriptor(), read.request.offset + read.done,
                        read.request.destination.subspan(read.done), slot);
}

void RingReader::release(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

bool RingReader::under_way() {
  const std::lock_guard lock(mutex_);
  return free_.size() < slots_.size();
}

ReadCompletion RingReader::wait() {
  if (!under_way()) throw std::logic_error("no read is under way");
  for (;;) {
    const IoRing::Result result = ring_.take();
    const auto slot = static_cast<std::size_t>(result.id);
    Slot read;
    int error = result.value < 0 ? -result.value : 0;
    std::size_t before = 0;
    const std::size_t got = result.value < 0 ? 0 : static_cast<std::size_t>(result.value);
    {
      const std::lock_guard lock(mutex_);
      before = slots_[slot].done;
      slots_[slot].done = file_.progress(before, got, slots_[slot].due);
      read = slots_[slot];
      const bool again = error == EINTR || error == EAGAIN || (read.done > before && read.done < read.due);
      if (again) {
        error = put(slot);
        if (error == 0) continue;
      }
      free_.push_back(slot);
    }
    if (error != 0) file_.fail_read(read.request.offset + read.done, error);
    if (read.done < read.due) file_.fail_short(read.request.offset + before + got, read.due - before - got);
    return {read.request.tag, read.done};
  }
}

}  // namespace moelab
