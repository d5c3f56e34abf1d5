// The GPU's cases: in cuda_cases.cpp, or, without CUDA, in no_cuda_cases.cpp.
#pragma once

#include "hw/bench/bench_workspace.hpp"

namespace moelab {

std::unique_ptr<BenchCase> make_cuda_link_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_copy_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_recover_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_expert_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_launch_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_remap_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_overlap_case(BenchWorkspace& workspace);

}  // namespace moelab
