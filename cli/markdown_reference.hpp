// Pages of the reference, from the tables that readers, results and the command line are made of. Markdown,
// in UTF-8.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace moelab::cli {

/// Every key of scenarios, systems, devices and clusters.
std::string keys_page();
/// Every policy by family.
std::string policies_page();
/// Every figure of a result.
std::string metrics_page();
/// Every command of `program`, which is asked for its definitions and not run.
std::string commands_page(const CLI::App& program);

}  // namespace moelab::cli
