#include "hw/bench/bench_workspace.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "hw/codec/codec.hpp"
#include "hw/codec/planes.hpp"
#include "hw/io/system_memory.hpp"
#include "hw/store/synthetic_source.hpp"

namespace moelab {

namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kFarStep = 4 * kKiB;    // a page, as memory is taken
constexpr std::size_t kTensorColumns = 2048;  // of the tensor: rows of a usual hidden size

}  // namespace

std::size_t beyond_caches(bool quick) {
  const long last = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t known = last > 0 ? static_cast<std::size_t>(last) : 0;
  const std::size_t usual = (quick ? 64 : 128) * kMiB;
  return std::clamp(4 * known, usual, 512 * kMiB);
}

BenchWorkspace::BenchWorkspace(BenchOptions options) : options_(std::move(options)) {
  if (options_.cores == 0) options_.cores = std::max(1U, std::thread::hardware_concurrency());
  if (options_.sizes.empty()) {
    options_.sizes = options_.quick
                         ? std::vector<std::size_t>{64 * kKiB, 512 * kKiB, 2 * kMiB}
                         : std::vector<std::size_t>{64 * kKiB, 256 * kKiB, kMiB, 2 * kMiB, 4 * kMiB};
  }
  std::ranges::sort(options_.sizes);
  if (options_.experts.empty()) {
    options_.experts = {{2048, 1408, 3}};
    if (!options_.quick) options_.experts.push_back({1024, 4096, 2});
  }
  if (options_.codecs.empty())
    for (const CodecRow& row : codec_table()) options_.codecs.emplace_back(row.name);
  for (std::string& codec : options_.codecs) codec = find_codec(codec)->name();
}

std::vector<unsigned> BenchWorkspace::thread_counts() const {
  std::vector<unsigned> counts;
  for (unsigned threads = 1; threads < cores(); threads *= 2) counts.push_back(threads);
  counts.push_back(cores());
  return counts;
}

std::size_t BenchWorkspace::tensor_elements() const {
  return std::max((options_.quick ? 4 : 8) * kMiB, 2 * sizes().back()) / kTensorColumns * kTensorColumns;
}

std::size_t BenchWorkspace::near_bytes() const {
  return std::max(16 * kMiB, 4 * sizes().back());
}

std::size_t BenchWorkspace::far_bytes() const {
  return std::max(beyond_caches(options_.quick), std::size_t{most_writers()} * 4 * sizes().back());
}

std::size_t BenchWorkspace::ones_bytes() const {
  std::size_t largest = 0;
  for (const ExpertShape& shape : experts()) largest = std::max(largest, 2 * shape.weights());
  return std::max(beyond_caches(options_.quick), largest);
}

std::uint64_t BenchWorkspace::memory_due() const {
  // The tensor with its planes, what is made of it (no larger than it was), what writers write, experts, the
  // two arrays that are copied and the dense layers.
  std::uint64_t due = 4 * std::uint64_t{tensor_elements()} + most_writers() * std::uint64_t{near_bytes()} +
                      far_bytes() + ones_bytes() + 3 * std::uint64_t{beyond_caches(options_.quick)};
  for (const std::size_t bytes : sizes()) due += codecs().size() * std::max(2 * bytes, 4 * kMiB);
  return due;
}

std::string BenchWorkspace::why_no_memory(std::uint64_t due) const {
  const std::uint64_t available = system_memory().available;
  if (available == 0 || available >= due) return {};
  return "needs " + std::to_string(due >> 20) + " MiB of memory, there are " +
         std::to_string(available >> 20);
}

const BenchTensor& BenchWorkspace::tensor() {
  if (tensor_) return *tensor_;
  const std::size_t elements = tensor_elements();
  const SyntheticSource source({"bench", "", {0}, 1, {{"up", elements / kTensorColumns, kTensorColumns}}},
                               kSeed);
  auto made = std::make_unique<BenchTensor>(
      BenchTensor{AlignedMemory(2 * elements), AlignedMemory(elements), AlignedMemory(elements)});
  source.read({0, 0, 0}, made->weights.as<std::uint16_t>());
  split_planes(made->weights.as<std::uint16_t>(), made->exponents.bytes(), made->sign_mantissas.bytes());
  tensor_ = std::move(made);
  return *tensor_;
}

const BenchShards& BenchWorkspace::shards(const std::string& name, std::size_t bytes) {
  const auto [found, inserted] = shards_.try_emplace({name, bytes});
  if (!inserted) return found->second;
  const std::unique_ptr<Codec> codec = find_codec(name);
  BenchShards& made = found->second;
  made.codec = codec->name();
  made.bytes = bytes;
  // Slow encoders need not encode all of it: shards are met again, after many others.
  const std::size_t enough = std::max(2 * bytes, 4 * kMiB);
  const auto plane = tensor().exponents.bytes();
  for (std::size_t at = 0; at + bytes <= std::min(plane.size(), enough); at += bytes)
    made.stored.push_back(codec->encode(plane.subspan(at, bytes)));
  return made;
}

std::span<std::byte> BenchWorkspace::near_output(unsigned thread) {
  AlignedMemory& memory = near_[thread];
  if (memory.size() == 0) memory = AlignedMemory(near_bytes());
  return memory.bytes();
}

std::span<std::byte> BenchWorkspace::far_output(unsigned thread, unsigned threads) {
  if (far_.size() == 0) {
    far_ = AlignedMemory(far_bytes());
    std::ranges::fill(far_.bytes(), std::byte{1});  // pages are there before anything is timed
  }
  const std::size_t each = far_.size() / threads / kFarStep * kFarStep;
  return far_.bytes().subspan(thread * each, each);
}

const std::string& BenchWorkspace::usual_codec() const {
  const auto found = std::ranges::find(codecs(), "fixed3");
  return found != codecs().end() ? *found : codecs().back();
}

const AlignedMemory& BenchWorkspace::ones() {
  if (ones_.size() > 0) return ones_;
  ones_ = AlignedMemory(ones_bytes());
  std::ranges::fill(ones_.as<std::uint16_t>(), std::uint16_t{0x3F80});
  return ones_;
}

std::uint64_t BenchWorkspace::file_bytes() const {
  return std::max<std::uint64_t>((options_.quick ? 128 : 512) * kMiB, 8 * sizes().back()) / 4096 * 4096;
}

const ScratchFile& BenchWorkspace::file() {
  if (!file_) file_ = std::make_unique<ScratchFile>(options_.folder, file_bytes());
  return *file_;
}

}  // namespace moelab
