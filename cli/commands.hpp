// The subcommands of `moelab`, one file each. Each adds itself to the program with its options, help and
// example.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/results/text_report.hpp"

namespace moelab {
struct TimelineWindow;
}

namespace moelab::cli {

void add_run(CLI::App& program);
void add_report(CLI::App& program);
void add_check(CLI::App& program);
void add_check_policy(CLI::App& program);
void add_sweep(CLI::App& program);
void add_point(CLI::App& program);
void add_policies(CLI::App& program);
void add_trace(CLI::App& program);
void add_trace_import(CLI::App& trace);
void add_trace_export(CLI::App& trace);
void add_trace_stats(CLI::App& trace);
void add_trace_hits(CLI::App& trace);
void add_trace_fit(CLI::App& trace);
void add_trace_law(CLI::App& trace);
void add_trace_generate(CLI::App& trace);
void add_trace_edit(CLI::App& trace);
void add_models(CLI::App& program);
void add_devices(CLI::App& program);
void add_systems(CLI::App& program);
void add_plan(CLI::App& program);
void add_plan_placement(CLI::App& plan_command);
void add_clusters(CLI::App& program);
void add_schedule(CLI::App& program);
void add_pack(CLI::App& program);
void add_bench(CLI::App& program);
void add_calibrate(CLI::App& program);
void add_validate(CLI::App& program);
void add_records(CLI::App& program);
void add_tune(CLI::App& program);
void add_explain(CLI::App& program);
void add_compare(CLI::App& program);
void add_leaderboard(CLI::App& program);
void add_tune_residency(CLI::App& tune);
void add_tune_goal(CLI::App& tune);
void add_results(CLI::App& program);
void add_load(CLI::App& program);
void add_advise(CLI::App& program);
void add_new(CLI::App& program);
void add_parts(CLI::App& program);  // parts, runtimes and formats
void add_scenarios(CLI::App& program);
void add_sweeps(CLI::App& program);
void add_experiments(CLI::App& program);
void add_laws(CLI::App& program);
void add_traces(CLI::App& program);
void add_show(CLI::App& program);
void add_keys(CLI::App& program);
void add_metrics(CLI::App& program);
void add_reference(CLI::App& program);
void add_schema(CLI::App& program);
void add_completion(CLI::App& program);  // add_completion and add_man come after all others, which they list
void add_man(CLI::App& program);

/// A sweep of more combinations than this asks for --yes.
inline constexpr std::uint64_t kAsksFrom = 10'000;

/// Adds `--format table|json`.
void add_format(CLI::App& command, std::string& format);
/// Adds `--format table|markdown|json`, of a command that prints tables by a TextReport, and what the format
/// means for it; `more` are formats besides, each with its words: {"csv", "a line for each run"}.
void add_text_format(CLI::App& command, std::string& format,
                     const std::vector<std::pair<std::string, std::string>>& more = {});
TextForm text_form(const std::string& format);
/// Adds `--plot FILE`, which writes SVG, or with `pages` a page where FILE ends in .html: a name that says
/// another format is refused.
void add_plot(CLI::App& command, std::string& file, const std::string& help, bool pages = false);
/// Adds `--policy-library FILE`, of a command that runs policies or names them: once the whole line is read,
/// and before the command looks at anything, what it names is loaded, and before that what MOELAB_POLICY_PATH
/// does.
void add_policy_library(CLI::App& command);
/// Adds the example that every command's help ends with.
void add_example(CLI::App& command, const std::string& example);

/// For CLI11's check(), of an output that must be given and of a seed (which CLI11 would cut down to the
/// largest number without a word): what is wrong, or "".
std::string names_a_file(const std::string& name);
std::string is_a_seed(const std::string& text);
/// For CLI11's check(), of a number that need not be whole: CLI11's own ranges let "nan" through. Both ends
/// belong to it.
CLI::Validator number_from(double low, double high);
/// The same for one above 0 and finite.
std::string is_above_zero(const std::string& text);

/// "100:120", of what `option` gives. Throws InputError for anything but two numbers from 1 on in their
/// order.
TimelineWindow token_window(const std::string& option, const std::string& text);

/// "a.b=value" -> ("a.b", "value"). Throws InputError when there is no '='.
std::pair<std::string, std::string> split_setting(const std::string& text);
/// "a, b" -> {"a", " b"}: as they stand; of "" one that is empty.
std::vector<std::string> parts_between_commas(const std::string& text);

/// Throws InputError when an output cannot be written: a file in the place of a folder, no permission, not a
/// regular file (a device, a folder), or two outputs in one file, or an output in the file of an input.
/// Called before anything is computed. Empty paths are outputs that are not asked for, or inputs that are not
/// given.
void check_outputs(const std::vector<std::string>& paths, const std::vector<std::string>& inputs = {});

/// Writes all files or none (path, text), through symbolic links, with the folders that are missing. An
/// interrupt (Ctrl-C) that comes while it writes is noticed before the file gets its name: Interrupted is
/// thrown and nothing is left. At any other time nothing is on disk yet, and an interrupt simply ends the
/// program.
void write_outputs(const std::vector<std::pair<std::string, std::string>>& files);

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted; nothing was written") {}
};

}  // namespace moelab::cli
