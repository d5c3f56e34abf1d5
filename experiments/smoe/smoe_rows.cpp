// The SMoE paper's figures beside ours (rows S1 to S13): device facts go in, nothing is fitted.
// usage: smoe_rows        prints Markdown tables; see README.md here for what they mean
#include <cstdio>
#include <exception>

#include "experiments/smoe/smoe_tables.hpp"

int main() {
  using namespace moelab::smoe;
  try {
    const std::vector<Point> points = run_all([](const Setting&, int) { return Variant{}; });
    print_paper_table(points);
    print_orders_table(points);
    print_time_tables(points);
    print_exchange_table();
    print_sensitivity_table(points);
    print_recorded_tables();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "smoe_rows: %s\n", error.what());
    return 1;
  }
}
