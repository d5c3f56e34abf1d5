// moelab sweep: run every point of a sweep into a store of results.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>
#include <thread>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/results_rows.hpp"
#include "cli/terminal_line.hpp"
#include "models/json.hpp"
#include "models/nothing_fits.hpp"
#include "sim/results/shell_word.hpp"
#include "sim/simgrid_module.hpp"
#include "sim/sweep/cluster_workers.hpp"
#include "sim/sweep/run_sweep.hpp"
#include "sim/version.hpp"

namespace moelab::cli {
namespace {

struct SweepArguments {
  std::string sweep;
  std::string db;
  std::vector<std::string> settings;
  std::size_t jobs = std::max(1u, std::thread::hardware_concurrency());
  std::string cluster, worker_program;
  std::string verify_share = "0%";
  bool fail_fast = false, again = false, yes = false;
  std::string format = "table";
};

std::atomic<bool> stopped{false};

/// While it lives, Ctrl-C and SIGTERM ask the sweep to stop; a second one ends the program.
class StopsHeld {
 public:
  StopsHeld() {
    stopped.store(false);
    struct sigaction action {};
    action.sa_handler = [](int) { stopped.store(true); };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~StopsHeld() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
  }
  StopsHeld(const StopsHeld&) = delete;
  StopsHeld& operator=(const StopsHeld&) = delete;

 private:
  struct sigaction old_interrupt_ {
  }, old_terminate_{};
};

std::string seconds(double s) {
  std::array<char, 40> text{};
  if (s < 100)
    std::snprintf(text.data(), text.size(), "%.1f s", s);
  else
    std::snprintf(text.data(), text.size(), "%.0f min", s / 60);
  return text.data();
}

std::string progress_text(const SweepProgress& p) {
  std::array<char, 40> rate{};
  std::snprintf(rate.data(), rate.size(), "%.1f",
                p.elapsed_s > 0 ? static_cast<double>(p.ran) / p.elapsed_s : 0);
  return std::to_string(p.done) + " of " + std::to_string(p.all) + " runs" +
         (p.failed > 0 ? ", " + std::to_string(p.failed) + " failed" : "") + ", " + rate.data() +
         " a second" + (p.left_s > 0 ? ", about " + seconds(p.left_s) + " left" : "");
}

double busy_percent(const SweepSummary& s, std::size_t jobs) {
  const double could = s.elapsed_s * static_cast<double>(jobs);
  return could > 0 ? 100 * s.points_s / could : 0;
}

/// "2%" -> 0.02. Throws InputError for what is no percentage from 0 to 100.
double share_of(const std::string& text) {
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || std::string_view(rest, end) != "%" || !(percent >= 0 && percent <= 100))
    throw InputError("--verify-share " + text, "expected a percentage from 0% to 100%, such as 2%");
  return percent / 100;
}

/// Points that run at a time: `jobs`, or what the cluster has.
void print_summary(const SweepArguments& options, const SweepFile& sweep, const SweepSummary& s,
                   std::size_t jobs) {
  std::cout << "sweep " << sweep.name << ": " << s.points << " points, " << s.runs << " runs; " << s.there
            << " were in " << options.db << ", " << s.done << " done now, " << s.failed << " failed\n";
  std::array<char, 160> line{};
  if (s.done + s.failed > 0 && jobs > 0) {
    std::snprintf(line.data(), line.size(), "%s on %zu processes, %.1f %% of the time in points\n",
                  seconds(s.elapsed_s).c_str(), jobs, busy_percent(s, jobs));
    std::cout << line.data();
  }
  if (s.verified > 0) std::cout << s.verified << " runs were run a second time and gave the same bytes\n";
  for (const std::string& worker : s.left_out) std::cout << one_line("left out: " + worker) << "\n";
  constexpr std::size_t kMostShown = 10;
  for (std::size_t i = 0; i < std::min(s.failures.size(), kMostShown); ++i)
    std::cout << one_line("  " + to_string(s.failures[i].run.status) + ": " + s.failures[i].point + ": " +
                          s.failures[i].run.error)
              << "\n";
  if (!s.earlier_version.empty())
    std::cout << "an earlier sweep of this name is of moelab " << s.earlier_version << ", this is "
              << program_version()
              << ": points were run again; the earlier runs stay in the store, without a "
              << "sweep\n";
  else if (s.dropped > 0)
    std::cout << "an earlier sweep of this name had " << s.dropped
              << " points that this one has not; their runs stay in the store, without a sweep\n";
  if (s.stopped)
    std::cout << "stopped: " << s.runs - s.there - s.done - s.failed
              << " runs are missing; the same command goes on\n";
  std::cout << "see: moelab results " << shell_word(options.db) << " --sweep " << shell_word(sweep.name)
            << "\n";
}

void print_json(const SweepArguments& options, const SweepFile& sweep, const SweepSummary& s) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const auto& [point, run] : s.failures)
    failures.push_back(
        {{"run", run.identity}, {"point", point}, {"status", to_string(run.status)}, {"error", run.error}});
  std::cout << nlohmann::ordered_json{{"sweep", sweep.name},    {"db", options.db},
                                      {"points", s.points},     {"runs", s.runs},
                                      {"there", s.there},       {"done", s.done},
                                      {"failed", s.failed},     {"verified", s.verified},
                                      {"left_out", s.left_out}, {"stopped", s.stopped},
                                      {"dropped", s.dropped},   {"elapsed_s", s.elapsed_s},
                                      {"points_s", s.points_s}, {"cpu_s", s.cpu_s},
                                      {"failures", failures}}
                   .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
            << "\n";
}

/// On the workers this program's own path comes first, for file systems that all share.
std::unique_ptr<ClusterWorkers> make_cluster(const SweepArguments& options, ChildLimits limits) {
  std::vector<std::string> programs{options.worker_program};
  if (options.worker_program.empty())
    programs = {std::filesystem::read_symlink("/proc/self/exe").string(), "moelab"};
  return std::make_unique<ClusterWorkers>(ClusterPlace{options.cluster, programs}, limits);
}

void run(const SweepArguments& options) {
  const double verify_share = share_of(options.verify_share);
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& text : options.settings) settings.push_back(split_setting(text));
  const SweepFile sweep = load_sweep(options.sweep, settings);
  if (sweep.combinations() > kAsksFrom && !options.yes)
    throw InputError("sweep " + sweep.name, "has " + std::to_string(sweep.combinations()) +
                                                " combinations; if that is meant, say --yes");
  const StopsHeld held;
  TerminalLine line;
  const CheckedSweep checked = check_sweep(sweep, options.jobs, [&](std::uint64_t looked) {
    line.show("checking: " + std::to_string(looked) + " of " + std::to_string(sweep.combinations()) +
              " points");
    if (stopped.load()) throw Interrupted();
  });
  if (options.cluster.empty() && sweep.executor == "simgrid") engine::load_simgrid();
  ResultStore store(options.db, ResultStore::Access::write, waits_for_lock(options.db, &stopped));
  store.check_whole();
  const ChildLimits limits{sweep.limit_s, sweep.limit_bytes};
  const std::unique_ptr<ClusterWorkers> cluster =
      options.cluster.empty() ? nullptr : make_cluster(options, limits);
  ForkedWorkers own(options.jobs, limits);
  PointWorkers& workers = cluster ? static_cast<PointWorkers&>(*cluster) : own;
  SweepOptions sweep_options;
  sweep_options.fail_fast = options.fail_fast;
  sweep_options.again = options.again;
  sweep_options.verify_share = verify_share;
  sweep_options.stop = &stopped;
  sweep_options.progress = [&](const SweepProgress& p) { line.show(progress_text(p)); };
  const SweepSummary summary = run_sweep(sweep, checked, store, workers, sweep_options);
  line.clear();
  if (options.format == "json")
    print_json(options, sweep, summary);
  else
    print_summary(options, sweep, summary, cluster ? cluster->slots() : options.jobs);
  store.check_whole();
  if (summary.stopped && stopped.load()) throw CLI::RuntimeError(130);
  if (summary.failed > 0) throw CLI::RuntimeError(1);
  const std::vector<StoredOutcome> all = store.outcomes(sweep.name);
  if (!all.empty() && std::all_of(all.begin(), all.end(), is_unfit))
    throw NothingFits("sweep " + sweep.name, "none of its systems has the memory that it needs at any point");
}

}  // namespace

void add_sweep(CLI::App& program) {
  const auto options = std::make_shared<SweepArguments>();
  CLI::App* command = program.add_subcommand(
      "sweep",
      "Run every point of a sweep (models x devices x budgets x policies x traces x seeds) into a store of "
      "results; what the store has already is not run again. Exit status 1 where a run failed, or none fits");
  command->add_option("SWEEP", options->sweep, "Sweep file, or the name of an embedded one")->required();
  command->add_option("--db", options->db, "The store: one SQLite file, made if there is none")
      ->required()
      ->check(names_a_file);
  command->add_option("--jobs", options->jobs, "Points that run at a time; default: the processors here")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}));
  CLI::Option* const cluster = command->add_option(
      "--cluster", options->cluster,
      "Run the points on the workers of this Dask scheduler (tcp://host:8786, or its scheduler file, .json); "
      "needs a Python with dask[distributed], python3 or $MOELAB_PYTHON; --jobs is then for checking");
  cluster->check([](const std::string& address) {
    return std::string(address.empty() ? "expected the address of a Dask scheduler" : "");
  });
  command
      ->add_option("--moelab", options->worker_program,
                   "This program on the workers; default: at its path here, else in their PATH")
      ->needs(cluster);
  command->add_option("--set", options->settings, "Change a value of the sweep, such as repeats=3")
      ->take_all();
  command->add_flag("--fail-fast", options->fail_fast, "Stop at the first point that fails");
  command->add_flag("--again", options->again, "Run what the store has already, too");
  command->add_option(
      "--verify-share", options->verify_share,
      "Run this share of the runs a second time, chosen by chance, on another worker where there "
      "is one, such as 2%; a run whose two results are not the same bytes has failed");
  command->add_flag("--yes", options->yes, "More than 10,000 combinations are meant");
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command, "moelab sweep orin-budgets --db out/results.db --jobs 2");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
