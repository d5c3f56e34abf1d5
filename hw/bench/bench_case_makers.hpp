// The cases that bench_table.cpp lists, each in the file of its name.
#pragma once

#include "hw/bench/bench_workspace.hpp"

namespace moelab {

std::unique_ptr<BenchCase> make_read_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_memory_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_copy_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_decompress_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_interference_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_join_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_recover_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_checksum_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_expert_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_dense_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_sharing_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_link_sharing_case(BenchWorkspace& workspace);  // sharing_case.cpp
std::unique_ptr<BenchCase> make_handoff_case(BenchWorkspace& workspace);

// In cuda_cases.cpp, or, without CUDA, in no_cuda_cases.cpp.
std::unique_ptr<BenchCase> make_cuda_link_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_copy_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_recover_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_expert_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_launch_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_remap_case(BenchWorkspace& workspace);
std::unique_ptr<BenchCase> make_cuda_overlap_case(BenchWorkspace& workspace);

}  // namespace moelab
