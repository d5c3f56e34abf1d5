// Reads through io_uring, several under way.
#pragma once

#include <mutex>
#include <vector>

#include "hw/io/io_ring.hpp"
#include "hw/io/read_file.hpp"
#include "hw/io/reader.hpp"

namespace moelab {

class RingReader final : public Reader {
 public:
  /// Throws std::system_error where the system refuses io_uring, or the reading of files by it.
  RingReader(ReadFile file, std::size_t depth, std::string why);
  ~RingReader() override;

  std::string name() const override { return file_.direct() ? "io_uring" : "io_uring (buffered)"; }
  std::size_t alignment() const override { return file_.alignment(); }
  std::size_t depth() const override { return slots_.size(); }
  std::uint64_t size() const override { return file_.size(); }
  const std::string& source() const override { return file_.name(); }
  void submit(const ReadRequest& request) override;
  ReadCompletion wait() override;

 private:
  struct Slot {
    ReadRequest request;
    std::size_t due = 0, done = 0;  // bytes
  };
  void try_reading();
  /// Hands the kernel what is left of the slot's read; mutex_ is held. Returns 0 or an errno value.
  int put(std::size_t slot);
  void release(std::size_t slot);
  bool under_way();

  ReadFile file_;
  IoRing ring_;
  std::mutex mutex_;  // of what follows, and of putting into the ring
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace moelab
