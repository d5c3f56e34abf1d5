// The Prism paper's figures beside ours (rows P1 to P7), with nothing fitted and with two costs of software
// fitted to four of Table II's twenty rows.
// usage: prism_rows        prints Markdown tables; see README.md here for what they mean
#include <cstdio>
#include <exception>

#include "experiments/prism/prism_tables.hpp"

int main() {
  using namespace moelab::prism;
  try {
    Orders orders;
    const Fit fit = fit_software();
    const Table2 plain = run_table2({}), fitted = run_table2(fit.costs);
    print_alone(fit, orders);
    print_table2(plain, fitted, fit, orders);
    print_local_share(plain, orders);
    print_migration(fit, orders);
    print_scale(fit, orders);
    print_orders(orders);
    print_sensitivity(fit);
    print_executors();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "prism_rows: %s\n", error.what());
    return 1;
  }
}
