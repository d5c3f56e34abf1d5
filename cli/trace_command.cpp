// moelab trace: what is done with routing traces and request logs.
#include "cli/commands.hpp"

namespace moelab::cli {

void add_trace(CLI::App& program) {
  CLI::App* trace = program.add_subcommand("trace", "Import, measure, draw, cut and export routing traces");
  add_example(*trace, "moelab trace stats debian-moe-8x32");
  trace->require_subcommand(1);
  add_trace_import(*trace);
  add_trace_stats(*trace);
  add_trace_hits(*trace);
  add_trace_fit(*trace);
  add_trace_generate(*trace);
  add_trace_edit(*trace);
  add_trace_export(*trace);
}

}  // namespace moelab::cli
