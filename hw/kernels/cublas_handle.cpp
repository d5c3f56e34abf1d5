#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "hw/kernels/cuda_expert.hpp"

namespace moelab {

namespace {

/// The library that the headers belong to, for as long as the program runs: where the system looks for
/// libraries, or where it was when this was built.
void* library() {
  static void* const found = [] {
    const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) handle = dlopen((MOELAB_CUDA_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(std::string("could not load cuBLAS: ") + dlerror());
    return handle;
  }();
  return found;
}

template <class Function>
Function* function(const char* name) {
  void* const found = dlsym(library(), name);
  if (found == nullptr) throw std::runtime_error(std::string("could not find ") + name + " in cuBLAS");
  return reinterpret_cast<Function*>(found);
}

/// In C++ the header has an overload of it too.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                              const void* alpha, const void* a, cudaDataType, int lda, const void* b,
                              cudaDataType, int ldb, const void* beta, void* c, cudaDataType, int ldc,
                              cublasComputeType_t, cublasGemmAlgo_t);

/// In cuBLAS since 12.5.
using GemmGroupedBatchedEx = cublasStatus_t(cublasHandle_t, const cublasOperation_t*,
                                            const cublasOperation_t*, const int* m, const int* n,
                                            const int* k, const void* alphas, const void* const* a,
                                            cudaDataType, const int* lda, const void* const* b, cudaDataType,
                                            const int* ldb, const void* betas, void* const* c, cudaDataType,
                                            const int* ldc, int groups, const int* sizes,
                                            cublasComputeType_t);

/// What is used of it; the names are those of the library, which the headers' macros stand for.
struct Cublas {
  decltype(cublasCreate)* create = function<decltype(cublasCreate)>("cublasCreate_v2");
  decltype(cublasDestroy)* destroy = function<decltype(cublasDestroy)>("cublasDestroy_v2");
  decltype(cublasSetStream)* set_stream = function<decltype(cublasSetStream)>("cublasSetStream_v2");
  decltype(cublasGetStatusString)* text = function<decltype(cublasGetStatusString)>("cublasGetStatusString");
  GemmEx* multiply = function<GemmEx>("cublasGemmEx");
  GemmGroupedBatchedEx* multiply_all =  // nullptr: not in this one
      reinterpret_cast<GemmGroupedBatchedEx*>(dlsym(library(), "cublasGemmGroupedBatchedEx"));
};

const Cublas& cublas() {
  static const Cublas loaded;
  return loaded;
}

void check(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("could not ") + doing + ": " + cublas().text(status));
}

}  // namespace

CublasHandle::CublasHandle(const CudaStream& stream) : stream_(stream) {
  check(cublas().create(&handle_), "start cuBLAS");
  const cublasStatus_t status = cublas().set_stream(handle_, stream.get());
  if (status != CUBLAS_STATUS_SUCCESS) static_cast<void>(cublas().destroy(handle_));
  check(status, "bind cuBLAS to a stream");
}

CublasHandle::~CublasHandle() {
  static_cast<void>(cublas().destroy(handle_));
}

void CublasHandle::multiply(const void* matrix, const void* in, void* out, std::size_t m, std::size_t n,
                            std::size_t k) const {
  // cuBLAS counts by columns: to it, the matrix is [k, m], the activations [k, n].
  const float one = 1, zero = 0;
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), inner = static_cast<int>(k);
  check(cublas().multiply(handle_, CUBLAS_OP_T, CUBLAS_OP_N, rows, columns, inner, &one, matrix, CUDA_R_16BF,
                          inner, in, CUDA_R_16BF, inner, &zero, out, CUDA_R_16BF, rows, CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT),
        "multiply by an expert's matrix");
}

CublasHandle::Addresses& CublasHandle::next_addresses(std::size_t bytes) {
  Addresses& next = addresses_[turn_++ % addresses_.size()];
  if (next.host.size() > 0) next.read.wait();
  if (next.host.size() < bytes) {
    next.host = PinnedMemory(bytes);
    next.gpu = DeviceMemory(bytes);
  }
  return next;
}

void CublasHandle::multiply_all(std::span<const CublasProduct> products) {
  if (cublas().multiply_all == nullptr || products.size() < 2) {
    for (const CublasProduct& p : products) multiply(p.matrix, p.in, p.out, p.m, p.n, p.k);
    return;
  }
  const std::size_t count = products.size(), bytes = count * sizeof(void*);
  Addresses& addresses = next_addresses(3 * bytes);
  const auto at = [&](auto* memory, std::size_t which) {
    return reinterpret_cast<void**>(memory + which * bytes);
  };
  std::vector<int> rows, columns, inner;
  for (std::size_t i = 0; i < count; ++i) {
    const CublasProduct& p = products[i];
    at(addresses.host.data(), 0)[i] = const_cast<void*>(p.matrix);
    at(addresses.host.data(), 1)[i] = const_cast<void*>(p.in);
    at(addresses.host.data(), 2)[i] = p.out;
    rows.push_back(static_cast<int>(p.m));
    columns.push_back(static_cast<int>(p.n));
    inner.push_back(static_cast<int>(p.k));
  }
  stream_.copy(addresses.gpu.data(), addresses.host.data(), 3 * bytes);
  const std::vector<cublasOperation_t> transposed(count, CUBLAS_OP_T), as_it_is(count, CUBLAS_OP_N);
  const std::vector<float> ones(count, 1), zeros(count, 0);
  const std::vector<int> alone(count, 1);
  check(cublas().multiply_all(handle_, transposed.data(), as_it_is.data(), rows.data(), columns.data(),
                              inner.data(), ones.data(), at(addresses.gpu.data(), 0), CUDA_R_16BF,
                              inner.data(), at(addresses.gpu.data(), 1), CUDA_R_16BF, inner.data(),
                              zeros.data(), at(addresses.gpu.data(), 2), CUDA_R_16BF, rows.data(),
                              static_cast<int>(count), alone.data(), CUBLAS_COMPUTE_32F),
        "multiply by many experts' matrices");
  addresses.read.record(stream_);
}

}  // namespace moelab
