// tri-state: as little GPU memory as hides the loading (beyond FluxMoE, whose section 5 names the model:
// x resident uncompressed, y compressed, z offloaded, x + y + z = 1, and sets x = 0). Any number of backends.
//
//   T = compute_s of a layer
//   if every layer can be loaded within T in the budget: of the splits that do, one of the least GPU memory,
//     of those one of the least load time
//   else, and where T is not known, 0: the least load time in the budget, as bandwidth-proportional
//
// The first case: for a load time t, backends take experts in the order of GPU bytes a byte, least first,
// each up to t * B_k. That is exact for whole experts (split_solver.hpp). "Load time" is that of the slowest
// layer; layers differ by one expert a backend at most.
//
// When is x > 0 worth it? P bytes a layer; B_c, B_h: bandwidths of the compressed backend and the link;
// r < 1: compressed size; M: GPU budget a layer. Shares of any size.
// - T >= P / (B_c + B_h): compressed and link together hide the layer. z = min(1, B_h T / P), y the rest.
//   x = 0, since every resident byte would take the place of a compressed one, and r < 1.
// - T < P / (B_c + B_h): with x = 0 no split loads within T, whatever the memory: the best is
//   y = B_c / (B_c + B_h), with r P y bytes. Memory beyond that is of no use to x = 0. Resident experts need
//   no bandwidth, so x > 0 makes use of it: t falls until it is T, at x = 1 - (B_c + B_h) T / P.
// - M <= r P B_c / (B_c + B_h): memory runs out before the compressed backend's bandwidth does. z =
//   1 - x - y, x + r y = M / P: a resident byte in the place of a compressed one would send 1 / r - 1 bytes
//   more over the link, which is what layers wait for. x = 0.
// So x > 0 makes a layer, max(T, load), shorter exactly when P / (B_c + B_h) > T and
// M > r P B_c / (B_c + B_h): neither bandwidth hides the layer, and memory is left over.
#include <cmath>

#include "policies/storage/split_check.hpp"
#include "policies/storage/split_solver.hpp"

namespace moelab {
namespace {

StorageSplit split_tri_state(const StorageShape& shape, const PolicyParameters&) {
  const SplitSolver solver(shape, "tri-state");
  const double bytes = solver.least_gpu_bytes(shape.compute_s);
  if (!std::isfinite(bytes) || bytes > shape.gpu_budget_bytes) return solver.fastest();
  return solver.leanest(solver.least_load_seconds(bytes));
}

}  // namespace

StoragePolicyEntry tri_state_entry() {
  return {
      .info = {.name = "tri-state",
               .help = "the least GPU memory whose loading hides behind compute, else the least load time",
               .source = "this project; FluxMoE section 5 names the model, with x = 0"},
      .split = split_tri_state};
}

}  // namespace moelab
