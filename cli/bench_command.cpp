// moelab bench: microbenchmarks of this machine.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "hw/bench/bench_report.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"
#include "sim/version.hpp"

namespace moelab::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a read or shard

struct BenchArguments {
  std::vector<std::string> cases, sizes, experts;
  BenchOptions bench;
  std::string folder = ".", format = "table", out;
};

void list_cases() {
  for (const BenchRow& row : bench_table())
    std::printf("%-14s %s\n%-14s   by %s\n", std::string(row.name).c_str(), std::string(row.help).c_str(), "",
                std::string(row.parameters).c_str());
}

/// "512 KiB": whole pages, as reads past the page cache want them.
std::size_t bytes_of(const std::string& text) {
  Bytes bytes;
  std::string expected;
  if (!parse(text, bytes, expected)) throw InputError("--size " + text, "expected " + expected);
  const double value = bytes.value();
  if (value < 4096 || value > static_cast<double>(kMostBytes) || static_cast<std::size_t>(value) % 4096 != 0)
    throw InputError("--size " + text, "expected a multiple of 4 KiB from 4 KiB to 1 GiB");
  return static_cast<std::size_t>(value);
}

/// "2048x1408x3".
ExpertShape shape_of(const std::string& text) {
  std::size_t numbers[3] = {};
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    const bool separated = i < 2 ? next != end && *next == 'x' : next == end;
    if (error != std::errc() || !separated || numbers[i] == 0 || numbers[i] > 100'000)
      throw InputError("--expert " + text, "expected HIDDENxWIDTHxMATRICES, such as 2048x1408x3");
    at = next + (i < 2 ? 1 : 0);
  }
  if (numbers[2] != 2 && numbers[2] != 3)
    throw InputError("--expert " + text, "an expert has 2 matrices (up, down) or 3 (gate, up, down)");
  return {numbers[0], numbers[1], static_cast<int>(numbers[2])};
}

void print_result(const BenchResult& result) {
  const std::string what = result.title();
  if (!result.measured()) {
    std::printf("%-66s %s: %s\n", what.c_str(), std::string(to_string(result.status)).c_str(),
                result.reason.c_str());
    return;
  }
  const SampleStatistics& found = result.statistics;
  std::string rate;
  if (result.bytes > 0) rate = to_string(BytesPerSecond(result.bytes_per_second()));
  if (result.flops > result.bytes) rate += "  " + to_string(FlopsPerSecond(result.flops_per_second()));
  std::printf("%-66s %10s %10s %10s %6.1f %%%s  %s\n", what.c_str(), to_string(Seconds(found.median)).c_str(),
              to_string(Seconds(found.p10)).c_str(), to_string(Seconds(found.p90)).c_str(),
              found.variation * 100, result.noisy() ? " !" : "  ", rate.c_str());
}

void print_table(const BenchReport& report) {
  const MachineContext& context = report.context;
  std::printf("%s, %u cores, %s of memory (%s available), %s\n", context.cpu.c_str(), context.cores,
              to_string(Bytes(static_cast<double>(context.memory))).c_str(),
              to_string(Bytes(static_cast<double>(context.available_memory))).c_str(),
              context.kernel.c_str());
  std::printf("files on %s; %s, %s\n", context.filesystem.c_str(), context.program.c_str(),
              context.date.c_str());
  if (!context.gpu.empty()) std::printf("%s; %s\n", context.gpu.c_str(), context.driver.c_str());
  for (const std::string& warning : context.warnings()) std::printf("warning: %s\n", warning.c_str());
  std::printf("\n%-66s %10s %10s %10s %8s\n", "one operation", "median", "p10", "p90", "variation");
  std::size_t noisy = 0;
  for (const BenchResult& result : report.results) {
    print_result(result);
    noisy += result.noisy() ? 1 : 0;
  }
  if (noisy > 0)
    std::printf("\n! %zu of %zu vary by more than %.0f %%: do not trust them to more than that\n", noisy,
                report.results.size(), kNoisyVariation * 100);
}

/// A result that failed is printed with the others, and makes the command fail.
void require_none_failed(const std::vector<BenchResult>& results) {
  std::vector<Problem> problems;
  for (const BenchResult& result : results)
    if (result.status == BenchStatus::failed)
      problems.push_back({"bench " + result.title(), 0, 0, result.reason});
  if (!problems.empty()) throw InputError(std::move(problems));
}

void run_bench(BenchArguments options) {
  check_outputs({options.out});
  for (const std::string& size : options.sizes) options.bench.sizes.push_back(bytes_of(size));
  for (const std::string& expert : options.experts) options.bench.experts.push_back(shape_of(expert));
  options.bench.folder = options.folder;
  if (!std::filesystem::is_directory(options.folder))
    throw InputError("--dir " + options.folder, "is not a folder");
  BenchReport report{machine_context(options.folder, "moelab " + program_version()), options.bench.quick, {}};
  {
    TerminalLine line;
    report.results = run_cases(
        options.cases, options.bench, [&](std::size_t done, std::size_t all, const std::string& doing) {
          line.show("bench: " + std::to_string(100 * done / std::max<std::size_t>(all, 1)) + " %, " + doing);
        });
  }
  if (!options.out.empty()) write_outputs({{options.out, to_json(report)}});
  if (options.format == "json")
    std::cout << to_json(report);
  else
    print_table(report);
  std::fflush(stdout);
  require_none_failed(report.results);
}

void add_bench_run(CLI::App& bench) {
  const auto options = std::make_shared<BenchArguments>();
  CLI::App* command = bench.add_subcommand(
      "run", "Measure; answers are checked first, samples taken in turns over all that is measured");
  command->add_option("CASES", options->cases, "Cases to run, see 'moelab bench list'; all");
  command->add_flag("--quick", options->bench.quick, "Fewer sizes, less data, fewer samples");
  command->add_option("--dir", options->folder, "Folder of the storage to read from")->capture_default_str();
  command->add_option("--size", options->sizes, "Size of reads and shards, such as '1 MiB'; may be repeated");
  command->add_option("--codec", options->bench.codecs, "Codec, see 'moelab pack'; may be repeated; all");
  command->add_option("--expert", options->experts,
                      "Shape of an expert, HIDDENxWIDTHxMATRICES; may be repeated");
  command->add_option("--out", options->out, "File for the results as JSON")->check(names_a_file);
  add_format(*command, options->format);
  add_example(*command, "moelab bench run read decompress --quick --dir /data --out bench.json");
  command->callback([options] { run_bench(*options); });
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* bench =
      program.add_subcommand("bench", "Microbenchmarks: how fast this machine is, and how steadily");
  bench->require_subcommand(1);
  add_example(*bench, "moelab bench run --quick");
  CLI::App* list = bench->add_subcommand("list", "List the cases and what they vary");
  add_example(*list, "moelab bench list");
  list->callback([] { list_cases(); });
  add_bench_run(*bench);
}

}  // namespace moelab::cli
