// Reading chunks: from a file by the page cache, past it, or through io_uring, or from memory at a stated
// pace. One interface, so that what reads need not know which.
//
//   std::unique_ptr<Reader> reader = open_reader("store/chunks.data", {ReadMode::io_uring, 4});
//   reader->submit({offset, buffer, tag});       // up to depth() of them
//   const ReadCompletion done = reader->wait();  // one of them
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "models/units.hpp"

namespace moelab {

/// Bytes `offset` ... of the source into `destination`. Offset, size and address are multiples of the
/// reader's alignment(). `destination` stays valid until the read has completed, or the reader is gone.
struct ReadRequest {
  std::uint64_t offset;
  std::span<std::byte> destination;
  std::uint64_t tag = 0;  // the caller's; comes back with the completion
};

struct ReadCompletion {
  std::uint64_t tag;
  std::size_t bytes;  // less than the destination only where that reaches past the end of the source
};

/// Reads one source. One thread submits and one waits; they may be two and do so at the same time.
class Reader {
 public:
  virtual ~Reader() = default;
  /// How it really reads: "buffered", "direct", "io_uring", "io_uring (buffered)", "paced".
  virtual std::string name() const = 0;
  /// Why that is not what was asked for; empty where it is.
  const std::string& why() const { return why_; }
  /// Of offsets, sizes and addresses; a power of two, 1 where any will do.
  virtual std::size_t alignment() const = 0;
  /// How many reads may be under way; at least 1.
  virtual std::size_t depth() const = 0;
  /// Bytes of the source, as it was opened.
  virtual std::uint64_t size() const = 0;
  /// What errors call the source: the file's name.
  virtual const std::string& source() const = 0;

  /// Begins a read. Throws std::logic_error where depth() reads are under way already,
  /// std::invalid_argument where the request is empty or not aligned, InputError where it lies beyond the
  /// source's end (rounded up to the alignment) or the system takes no more reads.
  virtual void submit(const ReadRequest& request) = 0;
  /// Waits until a read has completed, any of those under way, and says which. Throws std::logic_error where
  /// there is none, InputError that names file, byte and reason where one failed, such as of a file that has
  /// become shorter: that read is then over, and its destination holds nothing of use.
  virtual ReadCompletion wait() = 0;

 protected:
  explicit Reader(std::string why) : why_(std::move(why)) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  /// What submit() checks of every request.
  void require_sound(const ReadRequest& request) const;

 private:
  std::string why_;
};

enum class ReadMode {
  buffered,  // pread through the page cache; depth 1
  direct,    // pread with O_DIRECT; depth 1
  io_uring,  // io_uring with O_DIRECT
};

/// "buffered", "direct", "io_uring".
std::string_view to_string(ReadMode mode);
/// Throws InputError with the nearest name, or all of them.
ReadMode read_mode_of(std::string_view name);

struct ReadOptions {
  ReadMode mode = ReadMode::buffered;
  std::size_t depth = 1;  // 1 ... kMostReads, as many as io_uring keeps under way
};
inline constexpr std::size_t kMostReads = 4096;

/// Opens a file for reading. Where the file system takes no O_DIRECT the page cache is used, where the system
/// takes no io_uring, pread; why() says so. Throws InputError where the file cannot be opened or read, or is
/// no regular file.
std::unique_ptr<Reader> open_reader(const std::filesystem::path& file, const ReadOptions& options);

/// The most that alignment() can be; buffers of this alignment suit every reader.
inline constexpr std::size_t kReadAlignment = 4096;

/// Storage as it should be: read i, submitted at t[i], is done at
///   done[i] = max(t[i] + latency, done[i - 1]) + bytes[i] / rate
/// a token bucket without a burst: latencies overlap, transfers follow each other in order.
struct Pace {
  BytesPerSecond rate;  // above 0
  Seconds latency;
  std::size_t depth = 1;
  bool operator==(const Pace&) const = default;
};

/// Reads a file's bytes from memory, into which they are all loaded here, at a stated pace. The copying is
/// within the time of the read; a rate beyond what memory copies cannot be kept. Throws InputError as
/// open_reader, and where there is less memory than the file needs.
std::unique_ptr<Reader> open_paced_reader(const std::filesystem::path& file, const Pace& pace);

}  // namespace moelab
