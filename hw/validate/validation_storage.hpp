// The storage that a validation reads from: paced, as exact as its profile, or the disk as it is, measured
// right before each run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hw/io/aligned_memory.hpp"
#include "hw/io/reader.hpp"
#include "hw/validate/validation_store.hpp"
#include "models/device.hpp"

namespace moelab {

/// A read of so many bytes, as often as it was timed.
struct ReadTimes {
  std::uint64_t bytes;
  std::vector<double> seconds;
};

class ValidationStorage {
 public:
  /// `pace` empty: the disk, by io_uring past the page cache where that can be had. Paced, the file is loaded
  /// once, on first use. The store outlives it.
  ValidationStorage(ValidationStore& store, std::optional<Pace> pace) : store_(store), pace_(pace) {}

  /// A reader of the chunks, or of the whole tensors. Throws InputError.
  std::unique_ptr<Reader> open(bool whole);

  /// What a profile would say of it: the pace, or what the disk takes now, at the sizes that are read. The
  /// rest is `of_device`'s. On the disk this reads for some milliseconds.
  SsdProfile profile(const SsdProfile& of_device, std::uint32_t reading_threads);

  /// Reads an SM-chunk's bytes somewhere, each time elsewhere; of the disk, after profile(). The storage
  /// outlives it.
  std::function<void()> reads();

  /// All that the disk was measured at; empty when paced.
  const std::vector<ReadTimes>& measured() const { return measured_; }
  /// How readers really read, and why where that is not what was asked for.
  const std::set<std::string>& readers() const { return readers_; }

 private:
  std::unique_ptr<Reader> open_paced(const std::filesystem::path& file,
                                     std::shared_ptr<const AlignedMemory>& memory);
  void time_reads();
  std::uint64_t next_place(std::uint64_t places) { return ++reads_ * 0x9e3779b97f4a7c15 % places; }

  ValidationStore& store_;
  std::optional<Pace> pace_;
  std::shared_ptr<const AlignedMemory> chunks_, whole_;
  std::vector<ReadTimes> measured_, latest_;
  std::uint64_t reads_ = 0;
  AlignedMemory buffer_;
  std::size_t buffer_at_ = 0;
  std::set<std::string> readers_;
};

}  // namespace moelab
