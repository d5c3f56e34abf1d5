// moelab trace: what is done with routing traces and request logs.
#include "cli/commands.hpp"

namespace moelab::cli {

void add_trace(CLI::App& program) {
  CLI::App* trace = program.add_subcommand("trace", "Import, measure and export routing traces");
  add_example(*trace, "moelab trace import csv --help");
  trace->require_subcommand(1);
  add_trace_import(*trace);
  add_trace_export(*trace);
}

}  // namespace moelab::cli
