// Reads for benchmark cases: one size, all over a file, as many under way as the reader takes.
#pragma once

#include <memory>
#include <string>

#include "hw/bench/bench_workspace.hpp"
#include "hw/io/reader.hpp"

namespace moelab {

/// Why the workspace's file does not fit its folder; empty where it does.
std::string why_no_room(const BenchWorkspace& workspace);

class BenchReads {
 public:
  /// `file` outlives it and holds `bytes`, which are rounded up to what readers want.
  BenchReads(const ScratchFile& file, const ReadOptions& options, std::size_t bytes);

  /// Why these are not the reads that were asked for; empty where they are.
  const std::string& why() const { return reader_->why(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t depth() const { return depth_; }
  /// Reads so many times, each time elsewhere.
  void run(std::size_t reads);
  /// Reads once and says what is wrong with what was read; empty: nothing.
  std::string check();

 private:
  std::uint64_t next_offset();

  std::unique_ptr<Reader> reader_;
  std::size_t bytes_, depth_;
  std::uint64_t places_, place_ = 0;
  AlignedMemory memory_;  // a buffer for each read under way
};

}  // namespace moelab
