#include "hw/kernels/cuda_paged_memory.hpp"

#include <cuda.h>

#include <stdexcept>
#include <string>

#include "hw/kernels/cuda_error.hpp"

namespace moelab {

namespace {

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
#define MOELAB_DRIVER(name) \
  decltype(&(name)) name##_ = driver_function(static_cast<decltype(&(name))>(nullptr), #name)

struct Driver {
  MOELAB_DRIVER(cuDeviceGetAttribute);
  MOELAB_DRIVER(cuMemGetAllocationGranularity);
  MOELAB_DRIVER(cuMemAddressReserve);
  MOELAB_DRIVER(cuMemAddressFree);
  MOELAB_DRIVER(cuMemCreate);
  MOELAB_DRIVER(cuMemRelease);
  MOELAB_DRIVER(cuMemMap);
  MOELAB_DRIVER(cuMemUnmap);
  MOELAB_DRIVER(cuMemSetAccess);
};
#undef MOELAB_DRIVER

const Driver& driver() {
  static const Driver found;
  return found;
}

void driver_check(CUresult code, const char* doing) {
  if (code == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string("could not ") + doing + ": CUDA driver error " + std::to_string(code));
}

/// The driver's functions want a context, in each thread that calls them.
void use(int device) {
  cuda_check(cudaSetDevice(device), "start CUDA");
}

int current_device() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "ask for the current GPU");
  use(device);
  return device;
}

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

std::string cuda_paging_missing() {
  try {
    const int device = current_device();
    int supported = 0;
    driver_check(driver().cuDeviceGetAttribute_(
                     &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
                 "ask whether the GPU manages virtual memory");
    return supported != 0 ? "" : "the GPU does not support virtual memory management";
  } catch (const CudaError& error) {
    if (error.code() != cudaErrorNotSupported) throw;
    return error.what();  // a driver without the question
  }
}

std::size_t CudaPagedMemory::granularity() {
  const CUmemAllocationProp properties = memory_of(current_device());
  std::size_t unit = 0;
  driver_check(driver().cuMemGetAllocationGranularity_(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "ask for the granularity of mappings");
  return unit;
}

CudaPagedMemory::CudaPagedMemory(std::size_t addresses, std::span<const std::size_t> pieces)
    : device_(current_device()), addresses_(addresses) {
  const CUmemAllocationProp properties = memory_of(device_);
  try {
    driver_check(driver().cuMemAddressReserve_(&begin_, addresses_, 0, 0, 0), "reserve addresses");
    for (const std::size_t bytes : pieces) {
      CUmemGenericAllocationHandle handle = 0;
      driver_check(driver().cuMemCreate_(&handle, bytes, &properties, 0), "allocate physical memory");
      pieces_.emplace(bytes_, Piece{handle, bytes, false, 0});
      bytes_ += bytes;
    }
  } catch (...) {
    release();
    throw;
  }
}

CudaPagedMemory::~CudaPagedMemory() {
  release();
}

void CudaPagedMemory::release() {
  static_cast<void>(cudaSetDevice(device_));
  for (auto& [frame, piece] : pieces_) {
    if (piece.mapped) static_cast<void>(driver().cuMemUnmap_(begin_ + piece.address, piece.bytes));
    static_cast<void>(driver().cuMemRelease_(piece.handle));
  }
  if (begin_ != 0) static_cast<void>(driver().cuMemAddressFree_(begin_, addresses_));
}

CudaPagedMemory::Piece& CudaPagedMemory::piece_at(std::size_t frame) {
  const auto found = pieces_.find(frame);
  if (found == pieces_.end()) throw std::invalid_argument("paged memory: no piece begins at that frame");
  return found->second;
}

void CudaPagedMemory::map(std::size_t address, std::size_t frame) {
  Piece& piece = piece_at(frame);
  if (piece.mapped || piece.bytes > addresses_ || address > addresses_ - piece.bytes)
    throw std::invalid_argument("paged memory: a piece that is mapped already, or no such addresses");
  const CUmemAccessDesc access = {memory_of(device_).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  use(device_);
  driver_check(driver().cuMemMap_(begin_ + address, piece.bytes, 0, piece.handle, 0), "map memory");
  piece.mapped = true;
  piece.address = address;
  driver_check(driver().cuMemSetAccess_(begin_ + address, piece.bytes, &access, 1),
               "allow access to mapped memory");
}

void CudaPagedMemory::unmap(std::size_t address, std::size_t frame) {
  Piece& piece = piece_at(frame);
  if (!piece.mapped || piece.address != address)
    throw std::invalid_argument("paged memory: a piece that is not mapped there");
  use(device_);
  driver_check(driver().cuMemUnmap_(begin_ + address, piece.bytes), "unmap memory");
  piece.mapped = false;
}

}  // namespace moelab
