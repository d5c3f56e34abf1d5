// The tables of the experiment, in Markdown, and the orders that the paper reports.
#pragma once

#include <string>
#include <vector>

#include "experiments/prism/prism_fit.hpp"

namespace moelab::prism {

/// An order, held against each place where the paper reports it.
struct Order {
  std::string claim;
  int holds = 0, of = 0;
  std::string figures{};
  void add(bool holds_here, const std::string& figure);
};
using Orders = std::vector<Order>;

/// Runs of Table II with some costs of software, by workload and method (kWorkloads, kMethods).
using Table2 = std::vector<std::vector<RunResult>>;
Table2 run_table2(const SoftwareCosts& costs);

void print_alone(const Fit& fit, Orders& orders);                                              // P1
void print_table2(const Table2& plain, const Table2& fitted, const Fit& fit, Orders& orders);  // P2 to P4
void print_local_share(const Table2& plain, Orders& orders);                                   // Figure 6
void print_migration(const Fit& fit, Orders& orders);                                          // P5, Figure 7
void print_scale(const Fit& fit, Orders& orders);                                              // P6, P7
void print_sensitivity(const Fit& fit);
void print_executors();
void print_orders(const Orders& orders);

}  // namespace moelab::prism
