#include "hw/io/io_ring.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

namespace moelab {

namespace {

int enter(int descriptor, unsigned submit, unsigned complete, unsigned flags) {
  return static_cast<int>(
      ::syscall(SYS_io_uring_enter, descriptor, submit, complete, flags, nullptr, std::size_t{0}));
}

[[noreturn]] void fail(const char* doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

}  // namespace

IoRing::IoRing(unsigned reads) {
  descriptor_ = static_cast<int>(::syscall(SYS_io_uring_setup, reads, &params_));
  if (descriptor_ < 0) fail("io_uring refused");
  try {
    submissions_ = map(params_.sq_off.array + params_.sq_entries * sizeof(std::uint32_t), IORING_OFF_SQ_RING);
    completions_ = map(params_.cq_off.cqes + params_.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    entries_ = map(params_.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  } catch (...) {
    close();
    throw;
  }
}

IoRing::~IoRing() {
  close();
}

void IoRing::close() noexcept {
  for (const Mapping& mapping : {submissions_, completions_, entries_})
    if (mapping.begin != nullptr) ::munmap(mapping.begin, mapping.bytes);
  ::close(descriptor_);
}

IoRing::Mapping IoRing::map(std::size_t bytes, std::uint64_t what) {
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_,
                       static_cast<off_t>(what));
  if (begin == MAP_FAILED) fail("io_uring's memory refused");
  return {static_cast<std::byte*>(begin), bytes};
}

int IoRing::put_read(int descriptor, std::uint64_t offset, std::span<std::byte> destination,
                     std::uint64_t id) {
  const std::uint32_t mask = *submissions_.at<std::uint32_t>(params_.sq_off.ring_mask);
  const std::atomic_ref tail(*submissions_.at<std::uint32_t>(params_.sq_off.tail));
  const std::uint32_t place = tail.load(std::memory_order_relaxed);
  io_uring_sqe& entry = entries_.at<io_uring_sqe>(0)[place & mask];
  entry = {};
  entry.opcode = IORING_OP_READ;
  entry.fd = descriptor;
  entry.off = offset;
  entry.addr = reinterpret_cast<std::uintptr_t>(destination.data());
  // The kernel reads no more at a time than this anyway; a short read is gone on with.
  entry.len = static_cast<std::uint32_t>(std::min<std::size_t>(destination.size(), 0x7ffff000));
  entry.user_data = id;
  submissions_.at<std::uint32_t>(params_.sq_off.array)[place & mask] = place & mask;
  tail.store(place + 1, std::memory_order_release);
  int taken;
  do {
    taken = enter(descriptor_, 1, 0, 0);
  } while (taken < 0 && errno == EINTR);
  if (taken == 1) return 0;
  const int error = taken < 0 ? errno : EAGAIN;
  tail.store(place, std::memory_order_release);  // the kernel looks at entries only while it is entered
  return error;
}

IoRing::Result IoRing::take() {
  const std::atomic_ref head(*completions_.at<std::uint32_t>(params_.cq_off.head));
  const std::atomic_ref tail(*completions_.at<std::uint32_t>(params_.cq_off.tail));
  const std::uint32_t place = head.load(std::memory_order_relaxed);
  while (tail.load(std::memory_order_acquire) == place)
    if (enter(descriptor_, 0, 1, IORING_ENTER_GETEVENTS) < 0 && errno != EINTR)
      fail("io_uring does not wait");
  const std::uint32_t mask = *completions_.at<std::uint32_t>(params_.cq_off.ring_mask);
  const io_uring_cqe& entry = completions_.at<io_uring_cqe>(params_.cq_off.cqes)[place & mask];
  const Result result{entry.user_data, entry.res};
  head.store(place + 1, std::memory_order_release);
  return result;
}

}  // namespace moelab
