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

__global__ void __launch_bounds__(kHuffmanThreads)
    huffman_kernel(const HuffmanJob job, const HuffmanRuns* table, const JoinTarget target, unsigned window,
                   std::uint32_t* damaged) {
  __shared__ HuffmanRuns runs;
  extern __shared__ uint4 staging[];
  copy_runs(runs, table);
  CudaTeam<kHuffmanThreads> team;
  for (std::uint64_t b = blockIdx.x; b < job.blocks; b += gridDim.x) {
    const bool sound =
        huffman_recover_block(team, job, runs, b, target, reinterpret_cast<std::uint8_t*>(staging), window);
    if (!sound && threadIdx.x == 0) *damaged = 1;
  }
}

__global__ void __launch_bounds__(kFixed3Threads)
    fixed3_kernel(const Fixed3Job job, const JoinTarget target, std::uint32_t* damaged) {
  CudaTeam<kFixed3Threads> team;
  for (std::uint64_t b = blockIdx.x; b < job.blocks; b += gridDim.x) {
    if (!fixed3_recover_block(team, job, b, target) && threadIdx.x == 0) *damaged = 1;
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
  using namespace kernels;
  check_alignment(target);
  if (job_.blocks == 0) return;
  const unsigned grid = grid_for(job_.blocks, blocks_at_once(huffman_kernel, kHuffmanThreads, window_));
  huffman_kernel<<<grid, kHuffmanThreads, window_, stream>>>(job_, runs_.as<HuffmanRuns>(), target, window_,
                                                             status.word());
  cuda_check_launch("launch the Huffman kernel");
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
  using namespace kernels;
  check_alignment(target);
  if (raw_) {
    cuda_recover({chunk_.data() + fixed3::kHeaderBytes, target.sign_mantissas, target.bf16, symbols_},
                 stream);
    return;
  }
  if (job_.blocks == 0) return;
  const unsigned grid = grid_for(job_.blocks, blocks_at_once(fixed3_kernel, kFixed3Threads, 0));
  fixed3_kernel<<<grid, kFixed3Threads, 0, stream>>>(job_, target, status.word());
  cuda_check_launch("launch the fixed3 kernel");
}

}  // namespace moelab
