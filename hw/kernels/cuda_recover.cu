#include <algorithm>
#include <stdexcept>
#include <string>

#include "hw/codec/codec_error.hpp"
#include "hw/kernels/cuda_error.hpp"
#include "hw/kernels/cuda_recover.hpp"
#include "hw/kernels/cuda_team.cuh"

namespace moelab {

namespace kernels {
namespace {

constexpr unsigned kRecoveryThreads = 256;

__global__ void __launch_bounds__(kRecoveryThreads) recover_kernel(const RecoveryJob job) {
  CudaTeam<kRecoveryThreads> team;
  recover_planes(team, job, blockIdx.x, gridDim.x);
}

/// All threads' vector loads from the table in GPU memory to the block's own copy.
__device__ void copy_runs(HuffmanRuns& to, const HuffmanRuns* from) {
  constexpr unsigned vectors = sizeof(HuffmanRuns) / sizeof(uint4);
  for (unsigned i = threadIdx.x; i < vectors; i += blockDim.x)
    reinterpret_cast<uint4*>(&to)[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
  __syncthreads();
}

/// Chunks that one launch decodes, each with blocks of its own, which are numbered on from chunk to chunk. It
/// travels with the launch, whose parameters have 4 KiB.
template <class Job, unsigned most>
struct Batch {
  Job jobs[most];
  const HuffmanRuns* tables[most];  // of Huffman streams
  JoinTarget targets[most];
  std::uint32_t ends[most];  // blocks of the chunks up to this one
  unsigned count;

  __device__ std::uint32_t begin_of(unsigned chunk) const { return chunk == 0 ? 0 : ends[chunk - 1]; }
};
constexpr unsigned kMostTogether = 32;
/// Threads that a multiprocessor holds at once (CUDA C++ Programming Guide, technical specifications per
/// compute capability); more asked of the assembler in `__launch_bounds__` is an error.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100)
constexpr unsigned kThreadsAtOnce = 2048;
#elif __CUDA_ARCH__ == 750
constexpr unsigned kThreadsAtOnce = 1024;
#else
constexpr unsigned kThreadsAtOnce = 1536;
#endif
constexpr unsigned kHuffmanBlocks =
    kThreadsAtOnce / kHuffmanThreads;  // all of them: 32 registers a thread, or 42
static_assert(sizeof(Batch<HuffmanJob, kMostTogether>) < 4000 &&
              sizeof(Batch<Fixed3Job, kMostTogether>) < 4000);

/// A block's share of all: neighbours, so that it changes chunks seldom. The first `rest` blocks take one
/// more.
struct Shares {
  std::uint32_t each, rest;
  __device__ std::uint32_t first() const { return blockIdx.x * each + smaller(blockIdx.x, rest); }
  __device__ std::uint32_t last() const { return first() + each + (blockIdx.x < rest ? 1 : 0); }
};

template <unsigned most>
__global__ void __launch_bounds__(kHuffmanThreads, kHuffmanBlocks)
    huffman_kernel(const __grid_constant__ Batch<HuffmanJob, most> batch, const Shares shares,
                   unsigned window, std::uint32_t* damaged) {
  __shared__ HuffmanRuns runs;
  extern __shared__ uint4 staging[];
  CudaTeam<kHuffmanThreads> team;
  unsigned chunk = 0, loaded = most;
  const std::uint32_t last = shares.last();
  for (std::uint32_t b = shares.first(); b < last; ++b) {
    while (most > 1 && b >= batch.ends[chunk]) ++chunk;
    if (chunk != loaded) {
      __syncthreads();  // nothing reads the table before
      copy_runs(runs, batch.tables[chunk]);
      loaded = chunk;
    }
    const bool sound =
        huffman_recover_block(team, batch.jobs[chunk], runs, b - batch.begin_of(chunk), batch.targets[chunk],
                              reinterpret_cast<std::uint8_t*>(staging), window);
    if (!sound && threadIdx.x == 0) *damaged = 1;
  }
}

template <unsigned most>
__global__ void __launch_bounds__(kFixed3Threads)
    fixed3_kernel(const __grid_constant__ Batch<Fixed3Job, most> batch, const Shares shares,
                  std::uint32_t* damaged) {
  CudaTeam<kFixed3Threads> team;
  unsigned chunk = 0;
  const std::uint32_t last = shares.last();
  for (std::uint32_t b = shares.first(); b < last; ++b) {
    while (most > 1 && b >= batch.ends[chunk]) ++chunk;
    if (!fixed3_recover_block(team, batch.jobs[chunk], b - batch.begin_of(chunk), batch.targets[chunk]) &&
        threadIdx.x == 0)
      *damaged = 1;
  }
}

/// Blocks that the GPU holds at once: what a kernel that strides over its work is launched with.
template <class Kernel>
unsigned blocks_at_once(Kernel kernel, unsigned threads, std::size_t shared_bytes) {
  int device = 0, multiprocessors = 0, each = 0;
  cuda_check(cudaGetDevice(&device), "ask for the current GPU");
  cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
             "ask for the GPU's multiprocessors");
  cuda_check(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, static_cast<int>(threads), shared_bytes),
      "ask for a kernel's occupancy");
  return static_cast<unsigned>(std::max(1, multiprocessors * each));
}

unsigned grid_for(std::uint64_t work_blocks, unsigned at_once) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(work_blocks, 1, at_once));
}

void check_alignment(const JoinTarget& target) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(target.sign_mantissas) | reinterpret_cast<std::uintptr_t>(target.bf16);
  if (addresses % kCopyAlignment != 0)
    throw std::invalid_argument(
        "the sign-mantissa plane and the output of a decoder on the GPU must be at "
        "multiples of 16 bytes");
}

/// A copy of `bytes` in GPU memory, complete.
DeviceMemory copied(const void* from, std::size_t bytes, const CudaStream& stream) {
  DeviceMemory memory(bytes);
  stream.copy(memory.data(), from, bytes);
  stream.wait();
  return memory;
}

}  // namespace
}  // namespace kernels

void cuda_recover(const kernels::RecoveryJob& job, cudaStream_t stream) {
  using namespace kernels;
  if (job.elements == 0) return;
  const std::uint64_t per_block = kRecoveryThreads * (job.pairs() > 0 ? kPairElements / 2 : 1);
  const unsigned grid = grid_for((job.elements + per_block - 1) / per_block,
                                 blocks_at_once(recover_kernel, kRecoveryThreads, 0));
  recover_kernel<<<grid, kRecoveryThreads, 0, stream>>>(job);
  cuda_check_launch("launch the recovery kernel");
}

DecodeStatus::DecodeStatus() : device_(sizeof(std::uint32_t)), host_(sizeof(std::uint32_t)) {}

void DecodeStatus::reset(const CudaStream& stream) {
  stream.fill(device_.data(), 0, device_.size());
}

void DecodeStatus::check(const CudaStream& stream, const char* what) {
  stream.copy(host_.data(), device_.data(), device_.size());
  stream.wait();
  if (*reinterpret_cast<const std::uint32_t*>(host_.data()) != 0)
    throw CodecError(std::string(what) +
                     ": a chunk is damaged: a block does not hold the symbols that its "
                     "index says");
}

CudaHuffmanStream::CudaHuffmanStream(std::span<const std::byte> stored, const CudaStream& stream) {
  const HuffmanStream parsed = huffman_parse(stored);
  stored_ = kernels::copied(stored.data(), stored.size(), stream);
  job_ = kernels::huffman_job(stored, parsed, stored_.data());
  window_ = kernels::huffman_window(parsed);
  if (parsed.symbols == 0) return;
  const HuffmanRuns runs = huffman_runs(parsed.lengths);
  runs_ = kernels::copied(&runs, sizeof runs, stream);
}

void CudaHuffmanStream::recover(const kernels::JoinTarget& target, const DecodeStatus& status,
                                cudaStream_t stream) const {
  const HuffmanDecoding alone = {this, target};
  cuda_recover(std::span(&alone, 1), status, stream);
}

CudaFixed3Chunk::CudaFixed3Chunk(std::span<const std::byte> chunk, const CudaStream& stream) {
  const fixed3::View view = fixed3::parse(chunk);
  chunk_ = kernels::copied(chunk.data(), chunk.size(), stream);
  symbols_ = view.symbols;
  raw_ = view.mode == fixed3::Mode::raw;
  job_ = raw_ ? kernels::Fixed3Job{} : kernels::fixed3_job(chunk, view, chunk_.data());
}

void CudaFixed3Chunk::recover(const kernels::JoinTarget& target, const DecodeStatus& status,
                              cudaStream_t stream) const {
  const Fixed3Decoding alone = {this, target};
  cuda_recover(std::span(&alone, 1), status, stream);
}

namespace kernels {
namespace {

struct Launch {
  unsigned grid;
  Shares shares;
};

/// Of so many blocks of work.
Launch shared_out(std::uint32_t work, unsigned at_once) {
  const unsigned grid = grid_for(work, at_once);
  return {grid, {work / grid, work % grid}};
}

template <unsigned most>
void launch(const Batch<HuffmanJob, most>& batch, unsigned window, const DecodeStatus& status,
            cudaStream_t stream) {
  const Launch by =
      shared_out(batch.ends[batch.count - 1], blocks_at_once(huffman_kernel<most>, kHuffmanThreads, window));
  huffman_kernel<most><<<by.grid, kHuffmanThreads, window, stream>>>(batch, by.shares, window, status.word());
  cuda_check_launch("launch the Huffman kernel");
}

template <unsigned most>
void launch(const Batch<Fixed3Job, most>& batch, unsigned, const DecodeStatus& status, cudaStream_t stream) {
  const Launch by =
      shared_out(batch.ends[batch.count - 1], blocks_at_once(fixed3_kernel<most>, kFixed3Threads, 0));
  fixed3_kernel<most><<<by.grid, kFixed3Threads, 0, stream>>>(batch, by.shares, status.word());
  cuda_check_launch("launch the fixed3 kernel");
}

/// Launches `all` together, as many as fit a launch; `most` at least as many as there are, or kMostTogether.
template <unsigned most, class Job, class Decoding>
void launch_together(std::span<const Decoding> all, const DecodeStatus& status, cudaStream_t stream) {
  Batch<Job, most> batch;
  batch.count = 0;
  unsigned window = 0;
  std::uint32_t blocks = 0;
  const auto go = [&] {
    if (batch.count > 0) launch(batch, window, status, stream);
    batch.count = window = 0;
    blocks = 0;
  };
  for (const Decoding& decoding : all) {
    check_alignment(decoding.target);
    const Job& job = decoding.chunk->job();
    if (job.blocks == 0) continue;
    if (batch.count == most || job.blocks > UINT32_MAX - blocks) go();
    const unsigned i = batch.count++;
    batch.jobs[i] = job;
    batch.tables[i] = decoding.chunk->table();
    batch.targets[i] = decoding.target;
    batch.ends[i] = blocks += static_cast<std::uint32_t>(job.blocks);
    window = std::max(window, decoding.chunk->window());
  }
  go();
}

}  // namespace
}  // namespace kernels

void cuda_recover(std::span<const HuffmanDecoding> all, const DecodeStatus& status, cudaStream_t stream) {
  using namespace kernels;
  if (all.size() <= 1)
    launch_together<1, HuffmanJob>(all, status, stream);
  else
    launch_together<kMostTogether, HuffmanJob>(all, status, stream);
}

void cuda_recover(std::span<const Fixed3Decoding> all, const DecodeStatus& status, cudaStream_t stream) {
  using namespace kernels;
  if (all.size() == 1 && all[0].chunk->raw()) {
    check_alignment(all[0].target);
    cuda_recover(all[0].chunk->plane(all[0].target), stream);
  } else if (all.size() <= 1) {
    launch_together<1, Fixed3Job>(all, status, stream);
  } else {
    for (const Fixed3Decoding& decoding : all)
      if (decoding.chunk->raw()) cuda_recover(std::span(&decoding, 1), status, stream);
    launch_together<kMostTogether, Fixed3Job>(all, status, stream);
  }
}

}  // namespace moelab
