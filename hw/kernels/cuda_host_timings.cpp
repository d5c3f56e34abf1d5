// What the host is part of: launches and remapping.
#include <cuda.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "hw/kernels/cuda_error.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

class LaunchTiming final : public CudaTiming {
 public:
  explicit LaunchTiming(LaunchEnd end) : end_(end), counter_(sizeof(std::uint32_t)) {
    stream_.fill(counter_.data(), 0, counter_.size());
  }
  /// That every launch so far has run.
  void check() override {
    launch();
    check_on_device(counter_.data(), std::as_bytes(std::span(&launched_, 1)), stream_,
                    "counting by launches");
  }
  double run(std::size_t operations) override {
    return end_ == LaunchEnd::queued ? queued(operations) : completed(operations);
  }

 private:
  void launch() {
    cuda_count(counter_.as<std::uint32_t>(), stream_.get());
    ++launched_;
  }
  double queued(std::size_t operations) {
    double sum = 0;
    for (std::size_t left = operations; left > 0;) {
      const std::size_t now = std::min(left, kMaxQueued);
      gate_.close(stream_);
      const HostTimer timer;
      for (std::size_t i = 0; i < now; ++i) launch();
      sum += timer.seconds();
      gate_.open();
      stream_.wait();
      left -= now;
    }
    return sum;
  }
  double completed(std::size_t operations) {
    const HostTimer timer;
    for (std::size_t i = 0; i < operations; ++i) {
      launch();
      stream_.wait();
    }
    return timer.seconds();
  }

  LaunchEnd end_;
  CudaStream stream_;
  DeviceMemory counter_;
  StreamGate gate_;
  std::uint32_t launched_ = 0;
};

}  // namespace

std::unique_ptr<CudaTiming> launch_timing(LaunchEnd end) {
  return std::make_unique<LaunchTiming>(end);
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

class RemapTiming final : public CudaTiming {
 public:
  RemapTiming(std::size_t bytes, RemapStep step) : step_(step), memory_(bytes) {}

  /// Fills both pieces with bytes of their own and finds them again at the one address.
  void check() override {
    for (const std::size_t piece : {0, 1}) {
      memory_.show(piece);
      stream_.fill(memory_.address(), value_of(piece), memory_.bytes());
      stream_.wait();
      memory_.hide();
    }
    for (const std::size_t piece : {0, 1}) {
      const std::vector<std::byte> expected(memory_.bytes(), std::byte{value_of(piece)});
      memory_.show(piece);
      check_on_device(memory_.address(), expected, stream_, "remapping");
      memory_.hide();
    }
  }
  double run(std::size_t operations) override {
    double mapping = 0, unmapping = 0;
    for (std::size_t i = 0; i < operations; ++i) {
      const HostTimer map_timer;
      memory_.show(i % 2);
      mapping += map_timer.seconds();
      const HostTimer unmap_timer;
      memory_.hide();
      unmapping += unmap_timer.seconds();
    }
    return step_ == RemapStep::map ? mapping : unmapping;
  }

 private:
  static unsigned char value_of(std::size_t piece) { return static_cast<unsigned char>(0x5A + piece); }

  RemapStep step_;
  CudaStream stream_;
  Remapped memory_;
};

}  // namespace

std::string remap_missing() {
  try {
    const int device = memory_of_current_device().location.id;
    int supported = 0;
    driver_check(MOELAB_DRIVER(cuDeviceGetAttribute)(
                     &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
                 "ask whether the GPU manages virtual memory");
    return supported != 0 ? "" : "the GPU does not support virtual memory management";
  } catch (const CudaError& error) {
    if (error.code() != cudaErrorNotSupported) throw;
    return error.what();  // a driver without the question
  }
}

std::unique_ptr<CudaTiming> remap_timing(std::size_t bytes, RemapStep step) {
  if (bytes == 0) throw std::invalid_argument("a mapping of 0 bytes");
  return std::make_unique<RemapTiming>(bytes, step);
}

}  // namespace moelab
