// The tables that smoe_rows prints, in their order.
#pragma once

#include "experiments/smoe/smoe_runs.hpp"

namespace moelab::smoe {

/// Rows S1 to S13 of the paper beside ours.
void print_paper_table(const std::vector<Point>& points);
/// Whether the paper's orders come out.
void print_orders_table(const std::vector<Point>& points);
/// TPOT of every system, and what the time of decoding goes to.
void print_time_tables(const std::vector<Point>& points);
/// SMoE and HybriMoE with parts of each other.
void print_exchange_table();
/// Orders under what no source states.
void print_sensitivity_table(const std::vector<Point>& points);
/// The same systems on recorded routing, each with the share of experts in its cache that it has in S1.
void print_recorded_tables();

}  // namespace moelab::smoe
