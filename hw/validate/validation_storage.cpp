#include "hw/validate/validation_storage.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "hw/bench/sample_statistics.hpp"
#include "hw/io/paced_reader.hpp"
#include "hw/io/system_memory.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr int kReadsOfASize = 9;
constexpr std::size_t kBufferBytes = std::size_t{32} << 20;

std::shared_ptr<const AlignedMemory> load(const std::filesystem::path& path) {
  const auto reader = open_reader(path, {ReadMode::buffered, 1});
  const std::uint64_t available = system_memory().available;
  if (available > 0 && reader->size() > available)
    throw InputError(path.string(), "needs " + to_string(Bytes(static_cast<double>(reader->size()))) +
                                        " of memory to be read at a pace, there are " +
                                        to_string(Bytes(static_cast<double>(available))));
  auto memory = std::make_shared<AlignedMemory>(reader->size());
  if (reader->size() == 0) return memory;
  reader->submit({0, memory->bytes()});
  if (reader->wait().bytes < memory->size())
    throw InputError(path.string(), "has become shorter while it was read");
  return memory;
}

}  // namespace

std::unique_ptr<Reader> ValidationStorage::open_paced(const std::filesystem::path& file,
                                                      std::shared_ptr<const AlignedMemory>& memory) {
  if (memory == nullptr) memory = load(file);
  return std::make_unique<PacedReader>(file.string(), memory, *pace_, std::make_shared<SteadyPaceClock>());
}

std::unique_ptr<Reader> ValidationStorage::open(bool whole) {
  const std::filesystem::path& file = whole ? store_.whole_tensors() : store_.chunks().data_path();
  std::unique_ptr<Reader> reader =
      pace_ ? open_paced(file, whole ? whole_ : chunks_) : open_reader(file, {ReadMode::io_uring, 1});
  readers_.insert(reader->name() + (reader->why().empty() ? "" : ": " + reader->why()));
  return reader;
}

SsdProfile ValidationStorage::profile(const SsdProfile& of_device, std::uint32_t reading_threads) {
  SsdProfile ssd = of_device;
  if (pace_) {
    ssd.read.value = Curve::affine(pace_->latency.value(), pace_->rate.value());
    ssd.read.spread.reset();
    ssd.slowdown_while_decompressing.value = 1;
    ssd.readers.value.assign(std::max(1U, reading_threads), 1);  // each thread's reader has a pace of its own
    return ssd;
  }
  time_reads();
  std::vector<CurvePoint> points;
  for (const ReadTimes& size : latest_) {
    // The mean: some reads take half as long again, and a run takes as long as all of them together.
    const double mean = statistics_of(size.seconds).mean;
    points.push_back(
        {static_cast<double>(size.bytes), std::max(mean, points.empty() ? 0 : points.back().seconds)});
  }
  ssd.read.value = Curve(std::move(points));
  ssd.read.spread.reset();
  return ssd;
}

std::function<void()> ValidationStorage::reads() {
  const auto elements = store_.chunks().weights().kinds.front().elements();
  const std::shared_ptr<Reader> reader = open(false);
  const std::uint64_t bytes = std::min(aligned_chunk_bytes(elements), reader->size());
  const std::uint64_t places = (reader->size() - bytes) / kChunkAlignment + 1;
  return [this, reader, bytes, places] {
    reader->submit({next_place(places) * kChunkAlignment, buffer_.bytes().first(bytes)});
    reader->wait();
  };
}

/// Reads as the executor's: the chunks of one tensor after the other, from an expert that was not read
/// before, into memory of large pages that is there. Pages and whole tensors, in turn with these, at places
/// spread over the file.
void ValidationStorage::time_reads() {
  const ChunkStoreReader& store = store_.chunks();
  const auto elements = static_cast<double>(store.weights().kinds.front().elements());
  const std::uint32_t shards = store.description().shards;
  const auto e_chunk = static_cast<std::uint64_t>(elements * store_.ratio() / static_cast<double>(shards));
  const std::set<std::uint64_t> sizes = {kChunkAlignment, aligned_chunk_bytes(e_chunk),
                                         aligned_chunk_bytes(static_cast<std::uint64_t>(elements)),
                                         aligned_chunk_bytes(2 * static_cast<std::uint64_t>(elements))};
  const auto reader = open(false);
  latest_.clear();
  for (const std::uint64_t bytes : sizes)
    if (bytes <= reader->size()) latest_.push_back({bytes, {}});
  if (measured_.empty()) measured_ = latest_;
  if (buffer_.size() < 2 * *sizes.rbegin()) {
    buffer_ = AlignedMemory(std::max<std::size_t>(kBufferBytes, 2 * *sizes.rbegin()));
    std::ranges::fill(buffer_.bytes(), std::byte{1});
  }
  const auto time_read = [&](std::size_t size, std::uint64_t place, std::uint64_t bytes) {
    if (buffer_at_ + bytes > buffer_.size()) buffer_at_ = 0;
    const auto begin = std::chrono::steady_clock::now();
    reader->submit({place, buffer_.bytes().subspan(buffer_at_, bytes)});
    reader->wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    buffer_at_ += bytes;
    latest_[size].seconds.push_back(taken.count());
    measured_[size].seconds.push_back(taken.count());
  };
  for (int turn = 0; turn < kReadsOfASize; ++turn) {
    const TensorPlace tensor = place_of(store.weights(), next_place(store.weights().tensors()));
    for (std::size_t i = 0; i < latest_.size(); ++i) {
      if (latest_[i].bytes == aligned_chunk_bytes(e_chunk)) {
        for (std::uint32_t k = 0; k < shards; ++k) {
          const StoredChunk chunk = store.exponent_chunk(tensor, k);
          if (chunk.record.stored_bytes > 0)
            time_read(i, chunk.offset, aligned_chunk_bytes(chunk.record.stored_bytes));
        }
      } else if (latest_[i].bytes == aligned_chunk_bytes(static_cast<std::uint64_t>(elements))) {
        const StoredChunk chunk = store.sign_mantissa_chunk(tensor);
        time_read(i, chunk.offset, aligned_chunk_bytes(chunk.record.stored_bytes));
      } else {
        const std::uint64_t places = (reader->size() - latest_[i].bytes) / kChunkAlignment + 1;
        time_read(i, next_place(places) * kChunkAlignment, latest_[i].bytes);
      }
    }
  }
}

}  // namespace moelab
