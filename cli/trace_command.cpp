// moelab trace: what can be done with routing traces.
#include "cli/commands.hpp"

namespace moelab::cli {

void add_trace(CLI::App& program) {
  CLI::App* trace = program.add_subcommand("trace", "Routing traces");
  trace->require_subcommand(1);
  add_trace_hits(*trace);
}

}  // namespace moelab::cli
