// Decoding of exponent-Huffman streams (hw/codec/huffman_stream.hpp) fused with recovery, as DFloat11 does:
// one thread a segment, one block of threads a block of segments. Each thread counts the symbols of its
// segment; their running sums say where each thread's go; each decodes again, into shared memory; the block
// joins from there, in whole vectors.
//
// The stream has passed huffman_parse() on the host. What only decoding shows, a gap or a position that is
// not true, is found by counting, before anything of the block is written: whatever a stream holds, nothing
// outside it is read and nothing outside the block's part of the output is written.
#pragma once

#include "hw/kernels/huffman_runs.hpp"
#include "hw/kernels/recovery_body.hpp"

namespace moelab::kernels {

inline constexpr unsigned kHuffmanThreads = 256;

/// A parsed stream in memory that the kernel reads: the bytes from hw/codec, at an address that is a multiple
/// of 16.
struct HuffmanJob {
  const std::uint8_t* code;
  const std::uint8_t* positions;
  const std::uint8_t* gaps;
  std::uint64_t symbols, code_bits, segments, blocks;
  std::uint32_t segment_bits;

  /// As HuffmanStream's.
  MOELAB_HOST_DEVICE std::uint64_t position(std::uint64_t b) const {
    return b == blocks ? symbols : load_constant(reinterpret_cast<const Word32*>(positions) + b);
  }
  MOELAB_HOST_DEVICE std::uint64_t first_bit(std::uint64_t s) const {
    if (s >= segments) return code_bits;
    return s * segment_bits + (load_constant(gaps + s / 2) >> (s % 2 * 4) & 15U);
  }
};

/// Reads a stream's bits in order. It looks ahead by 8 bytes at most, which the guard after the code allows.
class CodeReader {
 public:
  CodeReader() = default;
  MOELAB_HOST_DEVICE CodeReader(const std::uint8_t* code, std::uint64_t bit)
      : next_(reinterpret_cast<const Word32*>(code) + bit / 32), used_(static_cast<unsigned>(bit % 32)) {
    const std::uint64_t low = load_constant(next_++);
    window_ = std::uint64_t{load_constant(next_++)} << 32 | low;
  }
  /// The next kHuffmanMaxLength bits.
  MOELAB_HOST_DEVICE unsigned peek() const {
    return static_cast<unsigned>(window_ >> used_) & ((1U << kHuffmanMaxLength) - 1);
  }
  MOELAB_HOST_DEVICE void skip(unsigned bits) {
    used_ += bits;
    if (used_ < 32) return;
    used_ -= 32;
    window_ = std::uint64_t{load_constant(next_++)} << 32 | window_ >> 32;
  }

 private:
  const Word32* next_ = nullptr;
  std::uint64_t window_ = 0;
  unsigned used_ = 0;  // bits of the window's low word
};

/// Gathers bytes into words of shared memory. Words that it shares with a neighbour are written by the byte.
class StagingWriter {
 public:
  MOELAB_HOST_DEVICE StagingWriter(std::uint8_t* staging, std::uint32_t at)
      : to_(staging + at / 4 * 4), filled_(at % 4), skipped_(filled_) {}
  /// Up to four bytes, the first the lowest; zeros above.
  MOELAB_HOST_DEVICE void put(std::uint32_t bytes, unsigned count) {
    pending_ |= std::uint64_t{bytes} << (8 * filled_);
    filled_ += count;
    if (filled_ < 4) return;
    if (skipped_ == 0) {
      *reinterpret_cast<Word32*>(to_) = static_cast<std::uint32_t>(pending_);
    } else {
      put_bytes(4);
    }
    to_ += 4;
    pending_ >>= 32;
    filled_ -= 4;
    skipped_ = 0;
  }
  MOELAB_HOST_DEVICE void finish() { put_bytes(filled_); }

 private:
  MOELAB_HOST_DEVICE void put_bytes(unsigned end) {
    for (unsigned i = skipped_; i < end; ++i) to_[i] = static_cast<std::uint8_t>(pending_ >> (8 * i));
  }
  std::uint8_t* to_;
  std::uint64_t pending_ = 0;
  unsigned filled_, skipped_;  // bytes of the pending word: there, of them another thread's
};

/// Where a thread stands in its segment.
struct SegmentCursor {
  CodeReader reader;
  std::int32_t left = 0;  // bits in which codes may still start; below 0: the last code's bits beyond them
  std::uint32_t at = 0;   // of the next symbol, from the block's first output group on
};

/// One lookup: the symbols that it took, at most `room` of them (1 or more), and how many.
struct Step {
  std::uint32_t symbols, count;
};
MOELAB_HOST_DEVICE inline Step take_run(const HuffmanRuns& runs, SegmentCursor& cursor, std::uint32_t room) {
  const unsigned index = cursor.reader.peek(), step = runs.steps[index];
  unsigned bits = step & 15, count = step >> 4 & 7, kept = 0xFFFFFFFF;
  // Codes that end within the segment start within it. Where that is not sure, one code that does.
  if (static_cast<std::int32_t>(bits) > cursor.left || count > room) {
    bits = step >> 8;
    count = 1;
    kept = 0xFF;
  }
  cursor.left -= static_cast<std::int32_t>(bits);
  cursor.reader.skip(bits);
  return {runs.symbols[index] & kept, count};
}

MOELAB_HOST_DEVICE inline SegmentCursor start_of(const HuffmanJob& job, std::uint64_t segment) {
  const std::uint64_t bit = job.first_bit(segment);
  const std::uint64_t end = smaller((segment + 1) * job.segment_bits, job.code_bits);
  return {CodeReader(job.code, bit), static_cast<std::int32_t>(static_cast<std::int64_t>(end - bit)), 0};
}

/// Symbols of the segment. `true_end`: whether its last code ends where the next segment's first starts.
MOELAB_HOST_DEVICE inline std::uint32_t count_symbols(const HuffmanJob& job, const HuffmanRuns& runs,
                                                      std::uint64_t segment, bool& true_end) {
  SegmentCursor cursor = start_of(job, segment);
  std::uint32_t count = 0;
  while (cursor.left > 0) count += take_run(runs, cursor, kMaxRun).count;
  const std::uint64_t end = smaller((segment + 1) * job.segment_bits, job.code_bits);
  true_end =
      end + static_cast<std::uint64_t>(-static_cast<std::int64_t>(cursor.left)) == job.first_bit(segment + 1);
  return count;
}

/// Decodes on until the segment or the window that begins at `begin` ends.
MOELAB_HOST_DEVICE inline void write_symbols(const HuffmanRuns& runs, SegmentCursor& cursor,
                                             std::uint32_t begin, std::uint32_t window,
                                             std::uint8_t* staging) {
  if (cursor.left <= 0 || cursor.at >= begin + window) return;
  StagingWriter writer(staging, cursor.at - begin);
  do {
    const Step step = take_run(runs, cursor, begin + window - cursor.at);
    writer.put(step.symbols, step.count);
    cursor.at += step.count;
  } while (cursor.left > 0 && cursor.at < begin + window);
  writer.finish();
}

/// Block `b` of the stream. `staging` is shared memory of `window` bytes, a multiple of 8, at an address that
/// is one too. False where the block is not sound: nothing is written then.
template <class Team>
MOELAB_HOST_DEVICE bool huffman_recover_block(Team& team, const HuffmanJob& job, const HuffmanRuns& runs,
                                              std::uint64_t b, const JoinTarget& target,
                                              std::uint8_t* staging, std::uint32_t window) {
  static_assert(Team::kThreads == kHuffmanThreads);
  const std::uint64_t first = job.position(b), last = job.position(b + 1);
  const std::uint64_t base = first / kGroupElements * kGroupElements;
  typename Team::template Each<std::uint32_t> before;
  typename Team::template Each<bool> wrong;
  team.each([&](unsigned t) {
    const std::uint64_t segment = b * kHuffmanThreads + t;
    bool true_end = true;
    before[t] = segment < job.segments ? count_symbols(job, runs, segment, true_end) : 0;
    wrong[t] = !true_end;
  });
  const std::uint32_t found = team.exclusive_sum(before);
  if (team.any(wrong) || found != last - first) return false;

  typename Team::template Each<SegmentCursor> cursor;
  team.each([&](unsigned t) {
    const std::uint64_t segment = b * kHuffmanThreads + t;
    cursor[t] = {};
    if (segment >= job.segments) return;
    cursor[t] = start_of(job, segment);
    cursor[t].at = static_cast<std::uint32_t>(first - base) + before[t];
  });
  for (std::uint32_t begin = 0; base + begin < last; begin += window) {
    team.each([&](unsigned t) { write_symbols(runs, cursor[t], begin, window, staging); });
    team.sync();
    team.each([&](unsigned t) {
      for (std::uint32_t at = t * kGroupElements; at < window && base + begin + at < last;
           at += Team::kThreads * kGroupElements) {
        join_group(target, *reinterpret_cast<const Bytes8*>(staging + at), base + begin + at, first, last);
      }
    });
    team.sync();
  }
  return true;
}

}  // namespace moelab::kernels
