// moelab: how fast does a Mixture-of-Experts model decode when it is larger than the device's memory, and
// why?
#include <unistd.h>
#include <system_error>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <span>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/plain_output.hpp"
#include "cli/unknown_word.hpp"
#include "cli/wrapped_text.hpp"
#include "models/nothing_fits.hpp"
#include "models/units.hpp"
#include "policies/load_library.hpp"
#include "sim/results/problem_lines.hpp"
#include "sim/results/timeline.hpp"
#include "sim/version.hpp"
#include "traces/atomic_file.hpp"
#include "traces/mapped_file.hpp"

namespace moelab::cli {
namespace {

constexpr const char* kPolicyLibrary = "--policy-library";

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// While it lives, SIGINT and SIGTERM only set the flag.
class InterruptsHeld {
 public:
  InterruptsHeld() {
    interrupted.store(false);
    const auto handler = [](int) { interrupted.store(true); };
    old_interrupt_ = std::signal(SIGINT, handler);
    old_terminate_ = std::signal(SIGTERM, handler);
  }
  ~InterruptsHeld() {
    std::signal(SIGINT, old_interrupt_);
    std::signal(SIGTERM, old_terminate_);
  }
  InterruptsHeld(const InterruptsHeld&) = delete;
  InterruptsHeld& operator=(const InterruptsHeld&) = delete;

 private:
  void (*old_interrupt_)(int);
  void (*old_terminate_)(int);
};

/// The one name of the file behind an output's, which need not exist.
std::filesystem::path place_of(const std::string& name) {
  try {
    // Absolute first: weakly_canonical leaves a bare name, whose folder is not written, as it is.
    return std::filesystem::weakly_canonical(std::filesystem::absolute(behind_links(name)));
  } catch (const std::filesystem::filesystem_error& error) {
    throw InputError(name, "cannot be written: " + error.code().message());
  }
}

/// The innermost folder of a file that is there: those missing in it are made when the file is written.
std::filesystem::path folder_there(const std::filesystem::path& file) {
  std::error_code none;
  std::filesystem::path folder = file.parent_path();
  while (!std::filesystem::exists(folder, none) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

}  // namespace

std::string names_a_file(const std::string& name) {
  return name.empty() ? "expected the name of a file, found nothing" : "";
}

std::string is_a_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && rest == end) return "";
  return "expected a whole number from 0 to 18446744073709551615, found " + text;
}

/// "8k" -> ": write 8000"; nothing for what is no number with such an end.
std::string without_unit(const std::string& text, double low, double high) {
  const std::size_t last = text.find_first_of("kKM");
  double value = 0;
  if (last == std::string::npos || last + 1 != text.size() ||
      !CLI::detail::lexical_cast(text.substr(0, last), value))
    return "";
  value *= text[last] == 'M' ? 1e6 : 1e3;
  return value >= low && value <= high ? ": write " + shortest_text(value) : "";
}

CLI::Validator number_from(double low, double high) {
  std::ostringstream range;
  range << low << " to " << high;
  const auto problem = [low, high, range = range.str()](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
    return "expected a number from " + range + ", found " + text + without_unit(text, low, high);
  };
  return CLI::Validator(problem, "from " + range.str(), "");
}

std::string is_above_zero(const std::string& text) {
  double value = 0;
  if (CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value)) return "";
  return "expected a number above 0, found " + text;
}

void add_format(CLI::App& command, std::string& format) {
  command.add_option("--format", format, "How to print: table (for people) or json (for programs)")
      ->check(CLI::IsMember({"table", "json"}))
      ->default_str("table");
}

void add_text_format(CLI::App& command, std::string& format,
                     const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> names = {"table", "markdown", "json"};
  std::string help = "How to print: table (for people), markdown (for issues and papers)";
  for (const auto& [name, words] : more) {
    names.push_back(name);
    help += ", " + name + " (" + words + ")";
  }
  command.add_option("--format", format, help + " or json (for programs)")
      ->check(CLI::IsMember(names))
      ->default_str("table");
}

void add_plot(CLI::App& command, std::string& file, const std::string& help, bool pages) {
  const auto problem = [pages](const std::string& name) -> std::string {
    std::string format = std::filesystem::path(name).extension().string();
    std::ranges::transform(format, format.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (format == ".svg" || (pages && format == ".html") || (!pages && format.empty())) return "";
    return std::string("expected a file that ends in .svg (a picture)") +
           (pages ? " or .html (a page with the table, too)" : "") + ", found " + name;
  };
  command.add_option("--plot", file, help)->check(problem);
}

TextForm text_form(const std::string& format) {
  return {.markdown = format == "markdown", .width = line_width()};
}

void add_policy_library(CLI::App& command) {
  command
      .add_option(
          kPolicyLibrary,
          "A library with policies of your own ('moelab new policy' begins one), whose code runs here; "
          "also: policy_libraries in a scenario, and MOELAB_POLICY_PATH")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_example(CLI::App& command, const std::string& example) {
  command.footer("Example:\n  " + example);
}

TimelineWindow token_window(const std::string& option, const std::string& text) {
  TimelineWindow window;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, window.first_token);
  const bool two = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  const auto last = two ? std::from_chars(first.ptr + 1, end, window.last_token) : first;
  if (!two || last.ec != std::errc() || last.ptr != end || window.first_token < 1 ||
      window.last_token < window.first_token)
    throw InputError(option + " " + text,
                     "expected FIRST:LAST, such as 100:120, with numbers of tokens from 1 on");
  return window;
}

std::vector<std::string> parts_between_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::pair<std::string, std::string> split_setting(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw InputError("--set " + text,
                     "expected PATH=VALUE, such as budget=\"16 GB\" or overrides.system.threads=4");
  return {text.substr(0, at), text.substr(at + 1)};
}

void check_outputs(const std::vector<std::string>& paths, const std::vector<std::string>& inputs) {
  std::vector<std::filesystem::path> seen;
  for (const std::string& name : paths) {
    if (name.empty()) continue;
    std::error_code none;  // of a file that is not there: an output yet to be, an input its reader misses
    if (std::filesystem::exists(name, none) && !std::filesystem::is_regular_file(name, none))
      throw InputError(name, "is not a regular file; results are written to files only");
    const std::filesystem::path path = place_of(name);
    const std::filesystem::path folder = folder_there(path);
    if (!std::filesystem::is_directory(folder, none))
      throw InputError(name, "cannot be written: " + folder.string() + " is no folder");
    if (access(folder.c_str(), W_OK) != 0)
      throw InputError(name, "cannot be written: no permission in folder " + folder.string());
    if (std::find(seen.begin(), seen.end(), path) != seen.end())
      throw InputError(name, "is named for two outputs");
    for (const std::string& input : inputs)
      if (std::filesystem::equivalent(path, input, none))
        throw InputError(name, "is an input; it would be lost under the result");
    seen.push_back(path);
  }
}

void write_outputs(const std::vector<std::pair<std::string, std::string>>& files) {
  const InterruptsHeld held;
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& [path, text] : files) {
    written.push_back(std::make_unique<AtomicFile>(path));
    written.back()->write(std::as_bytes(std::span(text)));
  }
  if (interrupted.load()) throw Interrupted();
  for (const auto& file : written) file->commit();
}

/// For the commands of the line that take --policy-library.
void load_libraries_of(const CLI::App& program) {
  for (const CLI::App* command : program.get_subcommands()) {
    load_libraries_of(*command);
    const CLI::Option* const named = command->get_option_no_throw(kPolicyLibrary);
    if (named == nullptr) continue;
    load_policy_path();
    for (const std::string& file : named->results()) load_policy_library(file);
  }
}

/// What a command line without a command is told.
constexpr const char* kFirstCommands =
    "moelab simulates Mixture-of-Experts models that are larger than their device's memory. To begin with:\n"
    "  moelab run zipmoe-orin                                    thirteen systems on one device, side by "
    "side\n"
    "  moelab advise --model qwen3-30b-a3b --gpu rtx-4090-24gb   how to serve a model on your machine\n"
    "  moelab scenarios                                          the questions that come with the program\n"
    "moelab: a command is missing; 'moelab --help' lists all commands\n";

int run_program(int argc, char** argv) {
  CLI::App program(
      "moelab simulates Mixture-of-Experts models that are larger than the memory of the device that serves "
      "them.");
  program.set_version_flag("--version", program_version());
  program.require_subcommand(1);
  add_example(program, "moelab run zipmoe-orin --out out/result.json --timeline out/timeline.pftrace");
  add_run(program);
  add_report(program);
  add_check(program);
  add_sweep(program);
  add_point(program);
  add_schedule(program);
  add_plan(program);
  add_models(program);
  add_devices(program);
  add_clusters(program);
  add_systems(program);
  add_policies(program);
  add_check_policy(program);
  add_parts(program);
  add_advise(program);
  add_trace(program);
  add_pack(program);
  add_bench(program);
  add_calibrate(program);
  add_validate(program);
  add_records(program);
  add_tune(program);
  add_results(program);
  add_load(program);
  add_explain(program);
  add_compare(program);
  add_leaderboard(program);
  add_new(program);
  add_scenarios(program);
  add_sweeps(program);
  add_experiments(program);
  add_laws(program);
  add_traces(program);
  add_show(program);
  add_keys(program);
  add_metrics(program);
  add_reference(program);
  add_schema(program);
  add_completion(program);
  add_man(program);
  program.parse_complete_callback([&program] { load_libraries_of(program); });
  try {
    program.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {  // a command that said what happened
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (argc < 2) {
      std::cerr << kFirstCommands;
      return 2;
    }
    const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
    if (code == CLI::ExitCodes::RequiredError || code == CLI::ExitCodes::ExtrasError)
      if (const std::string unknown = unknown_word(program); !unknown.empty()) {
        std::cerr << unknown << "\nRun with --help for more information.\n";
        return 2;
      }
    if (code == CLI::ExitCodes::RequiredError)
      if (const std::string missing = missing_word(program); !missing.empty()) {
        std::cerr << missing << "\nRun with --help for more information.\n";
        return 2;
      }
    return program.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

/// Where a file was changed meanwhile, that is what is wrong, whatever was read of it.
int run_on_unchanged_files(int argc, char** argv) {
  try {
    const int status = run_program(argc, argv);
    check_files_once_mapped();
    return status;
  } catch (const InputError&) {
    check_files_once_mapped();
    throw;
  }
}

}  // namespace moelab::cli

int main(int argc, char** argv) {
  const moelab::cli::PlainOutput plain_output(std::cout), plain_errors(std::cerr);
  try {
    const int status = moelab::cli::run_on_unchanged_files(argc, argv);
    std::cout.flush();
    if (!std::cout) {
      std::cerr << "moelab: the output could not be written completely\n";
      return 1;
    }
    return status;
  } catch (const moelab::NothingFits& error) {
    for (const std::string& line : moelab::problem_lines(error.problems()))
      std::cerr << "moelab: nothing fits: " << moelab::cli::one_line(line) << "\n";
    return 1;
  } catch (const moelab::InputError& error) {
    for (const std::string& line : moelab::problem_lines(error.problems()))
      std::cerr << "moelab: " << moelab::cli::one_line(line) << "\n";
    return 2;
  } catch (const moelab::cli::Interrupted& error) {
    std::cerr << "moelab: " << error.what() << "\n";
    return 130;
  } catch (const std::bad_alloc&) {
    std::cerr << "moelab: out of memory\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "moelab: internal error: " << error.what() << "\n";
    return 1;
  }
}
