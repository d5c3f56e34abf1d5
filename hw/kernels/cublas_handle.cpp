#include <dlfcn.h>

#include <stdexcept>
#include <string>

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

/// What is used of it; the names are those of the library, which the headers' macros stand for.
struct Cublas {
  decltype(cublasCreate)* create = function<decltype(cublasCreate)>("cublasCreate_v2");
  decltype(cublasDestroy)* destroy = function<decltype(cublasDestroy)>("cublasDestroy_v2");
  decltype(cublasSetStream)* set_stream = function<decltype(cublasSetStream)>("cublasSetStream_v2");
  decltype(cublasGetStatusString)* text = function<decltype(cublasGetStatusString)>("cublasGetStatusString");
  GemmEx* multiply = function<GemmEx>("cublasGemmEx");
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

CublasHandle::CublasHandle(const CudaStream& stream) {
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

}  // namespace moelab
