// A case whose points are operations on one or more threads (bench_work.hpp), all of the same kind.
#pragma once

#include <vector>

#include "hw/bench/bench_work.hpp"
#include "hw/bench/bench_workspace.hpp"

namespace moelab {

/// What derives from it adds its points in prepare().
class OperationsCase : public BenchCase {
 public:
  explicit OperationsCase(BenchWorkspace& workspace) : workspace_(workspace) {}

  std::string filter() const override { return workspace_.why_no_memory(); }
  std::vector<BenchPoint> points() const override { return points_; }
  std::string check(std::size_t point) override { return check_operations(operations_[point]); }
  double run(std::size_t point, std::size_t operations) override {
    return team_seconds(works_of(operations_[point]), {}, operations);
  }

 protected:
  BenchWorkspace& workspace() const { return workspace_; }
  void add(BenchPoint point, BenchOperations operations) {
    points_.push_back(std::move(point));
    operations_.push_back(std::move(operations));
  }

 private:
  BenchWorkspace& workspace_;
  std::vector<BenchPoint> points_;
  std::vector<BenchOperations> operations_;
};

}  // namespace moelab
