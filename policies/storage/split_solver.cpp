#include "policies/storage/split_solver.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// Experts of a layer, at most all, that a backend makes ready in `seconds`.
std::uint32_t experts_within(const StorageShape& shape, std::size_t backend, double seconds) {
  const double guess =
      seconds / load_seconds(shape, backend, 1);  // infinite or no number where a load takes 0 s
  std::uint32_t n = guess < shape.experts ? static_cast<std::uint32_t>(guess) : shape.experts;
  while (n < shape.experts && load_seconds(shape, backend, n + 1.0) <= seconds) ++n;  // what rounding took
  while (n > 0 && load_seconds(shape, backend, n) > seconds) --n;                     // or gave
  return n;
}

}  // namespace

SplitSolver::SplitSolver(const StorageShape& shape, std::string_view policy)
    : shape_(shape), leanest_first_(shape.backends.size()) {
  check_storage_shape(shape);
  std::iota(leanest_first_.begin(), leanest_first_.end(), std::size_t{0});
  std::stable_sort(leanest_first_.begin(), leanest_first_.end(), [&shape](std::size_t a, std::size_t b) {
    const StorageBackend &x = shape.backends[a], &y = shape.backends[b];
    return x.gpu_bytes_per_byte != y.gpu_bytes_per_byte ? x.gpu_bytes_per_byte < y.gpu_bytes_per_byte
                                                        : x.bytes_per_second > y.bytes_per_second;
  });
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    for (std::uint32_t n = 0; n <= shape.experts; ++n) times_.push_back(load_seconds(shape, k, n));
  std::sort(times_.begin(), times_.end());
  times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
  check_feasible(policy);
}

void SplitSolver::check_feasible(std::string_view policy) const {
  const std::string who = "storage: policy '" + std::string(policy) + "': ";
  const Totals most = most_within(kForever);
  const std::uint64_t capacity = std::accumulate(most.begin(), most.end(), std::uint64_t{0});
  if (capacity < experts_of_all_layers())
    throw InputError("", who + "the backends have capacity for " + std::to_string(capacity) +
                             " experts, expected all " + std::to_string(experts_of_all_layers()) +
                             ": raise a capacity or add a backend");
  const double least = least_gpu_bytes(kForever);
  if (least > shape_.gpu_budget_bytes)
    throw InputError("", who + "the experts take at least " + to_string(Bytes(least)) +
                             " of GPU memory, the budget is " + to_string(Bytes(shape_.gpu_budget_bytes)) +
                             ": needs " + to_string(Bytes(least - shape_.gpu_budget_bytes)) +
                             " more, or capacity off the GPU");
}

SplitSolver::Totals SplitSolver::most_within(double seconds) const {
  Totals most(shape_.backends.size());
  for (std::size_t k = 0; k < most.size(); ++k)
    most[k] = std::min(expert_capacity(shape_, k),
                       std::uint64_t{shape_.layers} * experts_within(shape_, k, seconds));
  return most;
}

/// Adds to `totals` what is missing of all experts, leanest backends first. False: there is no room for all.
bool SplitSolver::fill(Totals& totals, const Totals& most) const {
  std::uint64_t left =
      experts_of_all_layers() - std::accumulate(totals.begin(), totals.end(), std::uint64_t{0});
  for (const std::size_t k : leanest_first_) {
    const std::uint64_t taken = std::min(left, most[k] - totals[k]);
    totals[k] += taken;
    left -= taken;
  }
  return left == 0;
}

double SplitSolver::least_gpu_bytes(double seconds) const {
  Totals totals(shape_.backends.size(), 0);
  return fill(totals, most_within(seconds)) ? gpu_bytes(shape_, totals) : kForever;
}

double SplitSolver::least_load_seconds(double budget) const {
  const auto first = std::partition_point(times_.begin(), times_.end(), [this, budget](double seconds) {
    Totals totals(shape_.backends.size(), 0);
    return !fill(totals, most_within(seconds)) || gpu_bytes(shape_, totals) > budget;
  });
  return *first;  // the longest time is enough, check_feasible has seen to it
}

StorageSplit SplitSolver::leanest(double seconds) const {
  Totals totals(shape_.backends.size(), 0);
  fill(totals, most_within(seconds));
  return deal(totals);
}

/// Whether a backend can have at least `more` experts more, with places for all others within `most` and the
/// budget. Where it can, it can for every lower number too: the completion is the same.
bool SplitSolver::can_be_completed(Totals totals, std::size_t backend, std::uint64_t more,
                                   const Totals& most) const {
  totals[backend] += more;
  return fill(totals, most) && gpu_bytes(shape_, totals) <= shape_.gpu_budget_bytes;
}

/// The backend that would be done first with one more expert of each layer, of those below their `most`.
std::size_t SplitSolver::next_in_proportion(const Totals& totals, const Totals& most) const {
  std::size_t best = totals.size();
  double earliest = 0;
  for (const std::size_t k : leanest_first_) {
    if (totals[k] >= most[k]) continue;
    const double done = load_seconds(shape_, k, static_cast<double>(totals[k] / shape_.layers + 1));
    if (best < totals.size() && done >= earliest) continue;
    best = k;
    earliest = done;
  }
  return best;
}

StorageSplit SplitSolver::fastest() const {
  Totals most = most_within(least_load_seconds(shape_.gpu_budget_bytes));
  Totals totals(most.size(), 0);
  for (std::uint64_t left = experts_of_all_layers(); left > 0;) {
    const std::size_t k = next_in_proportion(totals, most);
    // One more of each layer, or of as many layers as there is room for, found by bisection.
    const std::uint64_t wanted =
        std::min({shape_.layers - totals[k] % shape_.layers, most[k] - totals[k], left});
    std::uint64_t fits = 0;
    for (std::uint64_t beyond = wanted + 1, tried = wanted; fits + 1 < beyond;) {
      (can_be_completed(totals, k, tried, most) ? fits : beyond) = tried;
      tried = fits + (beyond - fits) / 2;
    }
    totals[k] += fits;
    left -= fits;
    if (fits < wanted) most[k] = totals[k];  // nor will more fit later
  }
  return deal(totals);
}

/// Gives every layer the same number of each backend's experts, rounded down, and the rest to the layers in
/// turn, going on where the backend before left off.
StorageSplit SplitSolver::deal(const Totals& totals) const {
  StorageSplit split(shape_);
  std::uint32_t turn = 0;
  const auto layers = shape_.layers;
  for (std::size_t k = 1; k < totals.size(); ++k) {
    const auto each = static_cast<std::uint32_t>(totals[k] / layers);
    for (std::uint32_t layer = 0; layer < layers; ++layer) split.move(layer, 0, k, each);
    for (std::uint64_t rest = totals[k] % layers; rest > 0; --rest, turn = (turn + 1) % layers)
      split.move(turn, 0, k, 1);
  }
  return split;
}

}  // namespace moelab
