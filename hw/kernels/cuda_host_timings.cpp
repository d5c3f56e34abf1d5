// What the host is part of: launches, remapping, copies beside computing.
#include <cuda.h>

#include <chrono>
#include <string>
#include <vector>

#include "hw/kernels/cuda_error.hpp"
#include "hw/kernels/cuda_expert.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

LaunchTimes time_kernel_launch(const CudaSampling& sampling) {
  const CudaStream stream;
  const DeviceMemory counter(sizeof(std::uint32_t));
  stream.fill(counter.data(), 0, counter.size());
  std::uint32_t launched = 0;
  const auto launch = [&] {
    cuda_count(counter.as<std::uint32_t>(), stream.get());
    ++launched;
  };
  LaunchTimes times;
  check_sampling(sampling);
  for (std::size_t s = 0; s < sampling.warm_up + sampling.samples; ++s) {
    StreamGate gate;  // the stream has work all the time
    gate.close(stream);
    const Clock::time_point start = Clock::now();
    for (std::size_t r = 0; r < sampling.repeats; ++r) launch();
    const double taken = seconds_since(start);
    gate.open();
    stream.wait();
    if (s >= sampling.warm_up) times.queued.push_back(taken / static_cast<double>(sampling.repeats));
  }
  times.completed = sample_by_clock(sampling, [&](std::size_t) {
    launch();
    stream.wait();
  });
  check_on_device(counter.data(), std::as_bytes(std::span(&launched, 1)), stream, "counting by launches");
  return times;
}

namespace {

void driver_check(CUresult code, const char* doing) {
  if (code == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string("could not ") + doing + ": CUDA driver error " + std::to_string(code));
}

/// A function of the driver, found through the runtime: the program starts where there is no driver too.
template <class Function>
Function* driver_function(Function*, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cuda_check(cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result),
             name);
  if (result != cudaDriverEntryPointSuccess || found == nullptr)
    throw CudaError(std::string("find the driver's ") + name, cudaErrorNotSupported);
  return reinterpret_cast<Function*>(found);
}
#define MOELAB_DRIVER(name) driver_function(static_cast<decltype(&(name))>(nullptr), #name)

CUmemAllocationProp memory_of_current_device() {
  int device = 0;
  cuda_check(cudaFree(nullptr), "start CUDA");  // the driver's functions want a context
  cuda_check(cudaGetDevice(&device), "ask for the current GPU");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  return properties;
}

/// Two pieces of physical memory and one range of addresses that shows one of them, or none.
class Remapped {
 public:
  explicit Remapped(std::size_t bytes) : properties_(memory_of_current_device()) {
    std::size_t unit = 0;
    driver_check(
        MOELAB_DRIVER(cuMemGetAllocationGranularity)(&unit, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "ask for the granularity of mappings");
    bytes_ = (bytes + unit - 1) / unit * unit;
    try {
      driver_check(MOELAB_DRIVER(cuMemAddressReserve)(&address_, bytes_, 0, 0, 0), "reserve addresses");
      for (CUmemGenericAllocationHandle& piece : pieces_) {
        driver_check(MOELAB_DRIVER(cuMemCreate)(&piece, bytes_, &properties_, 0), "allocate physical memory");
        ++made_;
      }
    } catch (...) {
      release();
      throw;
    }
  }
  Remapped(const Remapped&) = delete;
  Remapped& operator=(const Remapped&) = delete;
  ~Remapped() { release(); }

  std::size_t bytes() const { return bytes_; }
  void* address() const { return reinterpret_cast<void*>(address_); }
  void show(std::size_t piece) {
    const CUmemAccessDesc access = {properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    driver_check(map_(address_, bytes_, 0, pieces_[piece], 0), "map memory");
    shown_ = true;
    driver_check(set_access_(address_, bytes_, &access, 1), "allow access to mapped memory");
  }
  void hide() {
    driver_check(unmap_(address_, bytes_), "unmap memory");
    shown_ = false;
  }

 private:
  void release() {
    if (shown_) static_cast<void>(unmap_(address_, bytes_));
    for (std::size_t i = 0; i < made_; ++i) static_cast<void>(release_(pieces_[i]));
    if (address_ != 0) static_cast<void>(free_(address_, bytes_));
  }

  decltype(&cuMemMap) map_ = MOELAB_DRIVER(cuMemMap);
  decltype(&cuMemUnmap) unmap_ = MOELAB_DRIVER(cuMemUnmap);
  decltype(&cuMemSetAccess) set_access_ = MOELAB_DRIVER(cuMemSetAccess);
  decltype(&cuMemRelease) release_ = MOELAB_DRIVER(cuMemRelease);
  decltype(&cuMemAddressFree) free_ = MOELAB_DRIVER(cuMemAddressFree);
  CUmemAllocationProp properties_;
  std::size_t bytes_ = 0, made_ = 0;
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle pieces_[2] = {};
  bool shown_ = false;
};

/// Fills both pieces with bytes of their own and finds them again at the one address.
void check_remapping(Remapped& memory) {
  const CudaStream stream;
  for (const bool filling : {true, false}) {
    for (const std::size_t piece : {0, 1}) {
      const auto value = static_cast<unsigned char>(0x5A + piece);
      memory.show(piece);
      if (filling) {
        stream.fill(memory.address(), value, memory.bytes());
        stream.wait();
      } else {
        const std::vector<std::byte> expected(memory.bytes(), std::byte{value});
        check_on_device(memory.address(), expected, stream, "remapping");
      }
      memory.hide();
    }
  }
}

}  // namespace

RemapTimes time_remap(std::size_t bytes, const CudaSampling& sampling) {
  check_sampling(sampling);
  Remapped memory(bytes);
  check_remapping(memory);
  RemapTimes times = {{}, {}, memory.bytes()};
  for (std::size_t s = 0; s < sampling.warm_up + sampling.samples; ++s) {
    double mapped = 0, unmapped = 0;
    for (std::size_t r = 0; r < sampling.repeats; ++r) {
      const Clock::time_point start = Clock::now();
      memory.show(r % 2);
      mapped += seconds_since(start);
      const Clock::time_point middle = Clock::now();
      memory.hide();
      unmapped += seconds_since(middle);
    }
    if (s < sampling.warm_up) continue;
    times.mapped.push_back(mapped / static_cast<double>(sampling.repeats));
    times.unmapped.push_back(unmapped / static_cast<double>(sampling.repeats));
  }
  return times;
}

}  // namespace moelab
