// moelab tune residency: how much expert residency to give up for KV cache, as a curve with its knee.
#include <memory>

#include "cli/commands.hpp"
#include "cli/residency_report.hpp"
#include "cli/terminal_line.hpp"
#include "cli/tune_subject.hpp"
#include "models/nothing_fits.hpp"
#include "sim/scenario_trace.hpp"

namespace moelab::cli {
namespace {

struct TuneResidencyArguments {
  TuneOptions common;
  std::uint32_t steps = 16;
  double most = 1;
  double tolerance = 0.02;
};

class LevelRunner {
 public:
  LevelRunner(const Scenario& scenario, const RoutingTrace& trace)
      : tuning_(scenario, scenario.systems.front(), trace) {}

  ResidencyLevel run(std::uint32_t offloaded, const std::string& place) {
    return tuning_.level(offloaded, [&](std::string_view run, std::uint64_t tokens, std::uint64_t all) {
      line_.show(place + ", " + std::string(run) + ": " + std::to_string(tokens) + " of " +
                 std::to_string(all) + " tokens");
    });
  }
  const ResidencyTuning& tuning() const { return tuning_; }

 private:
  ResidencyTuning tuning_;
  TerminalLine line_;
};

void run_grid(const TuneResidencyArguments& options, LevelRunner& runner, ResidencyReport& report) {
  const std::vector<std::uint32_t> grid = residency_grid(report.experts, options.steps, options.most);
  for (const std::uint32_t offloaded : grid)
    report.levels.push_back(runner.run(offloaded, "level " + std::to_string(report.levels.size() + 1) +
                                                      " of " + std::to_string(grid.size())));
  report.choice = choose_residency(report.levels, options.tolerance);
}

/// Between two levels of the grid, down to a single expert.
void find_knee(const TuneResidencyArguments& options, LevelRunner& runner, ResidencyReport& report) {
  while (const auto offloaded = nearer_to_knee(report.levels, report.choice)) {
    ResidencyLevel level = runner.run(*offloaded, "towards the knee");
    if (!level.fits()) return;
    const auto place = report.levels.begin() + static_cast<std::ptrdiff_t>(*report.choice.past_knee);
    report.levels.insert(place, std::move(level));
    report.choice = choose_residency(report.levels, options.tolerance);
  }
}

ResidencyReport run_levels(const TuneResidencyArguments& options, const Scenario& scenario) {
  const SystemConfig& system = scenario.systems.front();
  const RoutingTrace trace = scenario_trace(scenario);
  LevelRunner runner(scenario, trace);
  ResidencyReport report{.scenario = scenario.name,
                         .system = system.name,
                         .model = scenario.model.name,
                         .on_gpu = system.paging->backends.front(),
                         .off_gpu = system.paging->backends.back(),
                         .experts = runner.tuning().experts(),
                         .tolerance = options.tolerance};
  run_grid(options, runner, report);
  find_knee(options, runner, report);
  report.warnings = runner.tuning().warnings();
  return report;
}

void tune(const TuneResidencyArguments& options) {
  const ResidencyReport report = run_levels(options, load_tune_subject(options.common));
  finish_tuning(options.common, residency_figure(report),
                options.common.format == "json" ? residency_json(report) : residency_table(report));
  if (!report.choice.best) throw NothingFits(report.scenario, "no residency level fits");
}

}  // namespace

void add_tune_residency(CLI::App& tune_app) {
  const auto options = std::make_shared<TuneResidencyArguments>();
  CLI::App* command = tune_app.add_subcommand(
      "residency",
      "Find how much expert residency to give up for KV cache (FluxMoE, section 4.3): runs a system that "
      "pages "
      "its experts with more and more of them off the GPU, in place of its own storage and residency "
      "policies. "
      "The knee is the lowest residency at which loading still hides behind computing: there, and at all "
      "higher levels that fit, a step takes at most --tolerance longer than the same step, of the same "
      "requests, with all experts on the first backend, were there memory for them");
  add_tune_subject(
      *command, options->common,
      "System of the scenario, with 'weights: paged': experts move from its first storage backend "
      "to its last, 'host'");
  command
      ->add_option(
          "--steps", options->steps,
          "Steps from no expert off the GPU to --most; at most as many as a layer has experts. The knee is "
          "then searched for between two of them, down to a single expert")
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{1000}))
      ->capture_default_str();
  command->add_option("--most", options->most, "Largest share of the experts off the GPU, at most 1")
      ->check(number_from(0.001, 1))
      ->capture_default_str();
  command
      ->add_option(
          "--tolerance", options->tolerance,
          "Share that a step may take longer at the knee, and that tokens/s may be below the best's at "
          "the leanest level")
      ->check(number_from(0, 0.5))
      ->capture_default_str();
  add_tune_outputs(*command, options->common);
  add_format(*command, options->common.format);
  add_policy_library(*command);
  add_example(
      *command,
      "moelab tune residency fluxmoe-qwen3-next --system fluxmoe --most 0.25 --plot out/residency.svg");
  command->callback([options] { tune(*options); });
}

}  // namespace moelab::cli
