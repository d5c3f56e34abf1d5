// moelab trace export: write a trace as the accesses of a cache, for cache simulators of others.
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "cli/import_progress.hpp"
#include "cli/trace_import_options.hpp"
#include "traces/default_trace.hpp"
#include "traces/import/cache_trace_export.hpp"

namespace moelab::cli {
namespace {

struct TraceExportArguments {
  std::string trace, out;
  CacheTraceKind kind = CacheTraceKind::oracle_general;
  std::optional<std::uint32_t> layer;
};

const std::map<std::string, CacheTraceKind> kKinds{{"oracleGeneral", CacheTraceKind::oracle_general},
                                                   {"csv", CacheTraceKind::csv}};

}  // namespace

void add_trace_export(CLI::App& trace) {
  const auto options = std::make_shared<TraceExportArguments>();
  CLI::App* command = trace.add_subcommand(
      "export", "Write a trace as cache accesses: tokens in order, a layer's experts by ascending number");
  command->add_option("FILE", options->trace, "Routing trace")->required();
  add_choice(*command, "--kind", options->kind, kKinds, "oracleGeneral is libCacheSim's binary format")
      ->required();
  command->add_option("--layer", options->layer, "Only this layer; all: object = layer * experts + expert");
  command->add_option("--out", options->out, "File to write")->required()->check(names_a_file);
  add_example(*command,
              "moelab trace export routing.safetensors --kind oracleGeneral --layer 0 --out layer0.bin");
  command->callback([options] {
    check_outputs({options->out}, {options->trace});
    const std::uint64_t accesses =
        export_cache_trace(open_routing_trace(options->trace), options->kind, options->layer, options->out,
                           terminal_progress(options->out));
    std::cout << options->out << ": " << accesses << " accesses\n";
  });
}

}  // namespace moelab::cli
