// moelab tune alpha: the smallest substitution threshold that meets a budget of time per output token.
#include <algorithm>
#include <memory>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "cli/tune_report.hpp"
#include "cli/tune_subject.hpp"
#include "models/input_error.hpp"
#include "models/physical_bounds.hpp"
#include "models/units.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/sweep/goal_metric.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::cli {
namespace {

struct TuneArguments {
  TuneOptions common;
  std::string tpot, condition;  // one of them
  std::size_t points = 9, degree = 2;
  double max = 0.6;
};

bool has_alpha(const PolicyInfo& info) {
  return std::any_of(info.parameters.begin(), info.parameters.end(),
                     [](const PolicyParameter& p) { return p.name == "alpha"; });
}

/// Of `--for`, which is of the mean TPOT here.
double budget_of_condition(const std::string& text) {
  const GoalCondition condition = parse_goal_condition("--for", text);
  const GoalMetric& metric = condition.metric;
  if (metric.kind != GoalMetric::Kind::latency || metric.latency != Latency::tpot || metric.quantile ||
      !condition.below)
    throw InputError(
        "--for " + text,
        "expected a budget of the mean time per output token, such as 'tpot < 40 ms'; for any other "
        "condition: moelab tune overrides.system.routing.alpha SCENARIO --for ...");
  return condition.limit;
}

double budget_of(const TuneArguments& options) {
  if (!options.condition.empty()) return budget_of_condition(options.condition);
  if (options.tpot.empty())
    throw InputError("moelab tune alpha", "expected --tpot 40ms or --for \"tpot < 40 ms\"");
  const std::string& text = options.tpot;
  Seconds budget;
  std::string expected;
  if (!parse(text, budget, expected)) throw InputError("--tpot " + text, "expected " + expected);
  if (budget.value() <= 0) throw InputError("--tpot " + text, "expected a time above 0");
  if (const std::string beyond = beyond_physical(budget); !beyond.empty())
    throw InputError("--tpot " + text, "it" + beyond);
  return budget.value();
}

/// Throws where the system has no threshold to tune.
void check_routing(const SystemConfig& system) {
  const auto substitute = system.routing.parameters.find("substitute");
  if (substitute != system.routing.parameters.end() && substitute->second == 0)
    throw InputError(
        "--system " + system.name,
        "its routing policy replaces nothing ('substitute: 0'): alpha changes no choice of experts");
  if (has_alpha(find_routing_policy(system.routing.name)->info)) return;
  std::string with;
  for (const RoutingPolicyEntry& entry : routing_policies())
    if (has_alpha(entry.info)) with += (with.empty() ? "'" : ", '") + std::string(entry.info.name) + "'";
  throw InputError("--system " + system.name,
                   "its routing policy, '" + system.routing.name +
                       "', has no alpha; expected a system with one that has: " + with);
}

/// Where prefetching sorts experts into the router's classes, it is given the router's threshold.
SystemConfig with_alpha(SystemConfig system, double alpha) {
  system.routing.parameters["alpha"] = alpha;
  if (has_alpha(find_prefetch_policy(system.prefetch.name)->info))
    system.prefetch.parameters["alpha"] = alpha;
  return system;
}

class Tuner {
 public:
  explicit Tuner(const TuneArguments& options)
      : scenario_(load_tune_subject(options.common)), system_(scenario_.systems.front()) {
    check_routing(system_);
    trace_ = std::make_unique<RoutingTrace>(scenario_trace(scenario_));
    check_scenario(scenario_, *trace_);
  }

  AlphaRun run(double alpha, const std::string& what) {
    RunOptions options;
    options.progress = [&](const SystemConfig&, std::uint64_t tokens, std::uint64_t all) {
      line_.show(what + ": " + std::to_string(tokens) + " of " + std::to_string(all) + " tokens");
    };
    const RunResult result = run_system(scenario_, with_alpha(system_, alpha), *trace_, options);
    check_fits(result);
    line_.clear();
    const RequestLatencies latencies = request_latencies(result.metrics);
    if (latencies.of(Latency::tpot).empty())
      throw InputError(scenario_.name,
                       "no request has a second output token: there is no time per output "
                       "token to tune");
    warnings_ = result.warnings;
    return {alpha, mean(latencies.of(Latency::tpot)), result.metrics.routing};
  }

  const Scenario& scenario() const { return scenario_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Scenario scenario_;
  SystemConfig system_;
  std::unique_ptr<RoutingTrace> trace_;
  TerminalLine line_;
  std::vector<std::string> warnings_;
};

void tune(const TuneArguments& options) {
  const double budget = budget_of(options);
  if (options.points <= options.degree)
    throw InputError("--points " + std::to_string(options.points),
                     "a polynomial of degree " + std::to_string(options.degree) + " takes " +
                         std::to_string(options.degree + 1) + " points at least");
  Tuner tuner(options);

  TuneResult result{.scenario = tuner.scenario().name,
                    .system = options.common.system,
                    .model = tuner.scenario().model.name,
                    .budget_s = budget,
                    .max_alpha = options.max};
  std::vector<AlphaPoint> points;
  for (std::size_t i = 0; i < options.points; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(options.points - 1);
    const double alpha = part * options.max;  // the last one exactly the largest
    result.runs.push_back(
        tuner.run(alpha, "run " + std::to_string(i + 1) + " of " + std::to_string(options.points)));
    points.push_back({alpha, result.runs.back().tpot_s});
  }
  result.choice = choose_alpha(points, options.degree, budget, options.max);
  result.chosen = tuner.run(result.choice.alpha, "run at the alpha found");
  result.warnings = tuner.warnings();

  finish_tuning(options.common, tune_figure(result),
                options.common.format == "json" ? tune_json(result) : tune_table(result));
}

void add_tune_alpha(CLI::App& tune_app) {
  const auto options = std::make_shared<TuneArguments>();
  CLI::App* command = tune_app.add_subcommand(
      "alpha",
      "Find the smallest substitution threshold within a budget of time per output token (SMoE, Eq. 5): runs "
      "a system at several alphas, fits a polynomial to the times, and runs it at the alpha found");
  add_tune_subject(
      *command, options->common,
      "System of the scenario; its routing policy has an alpha (smoe). A prefetch policy that has "
      "one is given the same");
  CLI::Option* const budget =
      command->add_option("--tpot", options->tpot, "Budget of mean time per output token, such as 40ms");
  command->add_option("--for", options->condition, "The same as a condition: \"tpot < 40 ms\"")
      ->excludes(budget);
  command->add_option("--points", options->points, "Runs to fit, with alphas evenly from 0 to --max")
      ->check(CLI::Range(std::size_t{2}, std::size_t{1000}))
      ->capture_default_str();
  command->add_option("--max", options->max, "Largest alpha, above 0 and below 1")
      ->check(number_from(0.001, 0.999))
      ->capture_default_str();
  command->add_option("--degree", options->degree, "Degree of the polynomial")
      ->check(CLI::Range(std::size_t{1}, std::size_t{6}))
      ->capture_default_str();
  add_tune_outputs(*command, options->common);
  add_format(*command, options->common.format);
  add_policy_library(*command);
  add_example(*command,
              "moelab tune alpha smoe-deepseek-3080ti --system smoe --tpot 40ms --plot out/alpha.svg");
  command->callback([options] { tune(*options); });
}

}  // namespace

void add_tune(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "tune",
      "Find the values of a number of the scenario for which a run is as wanted (--for), or best (--max, "
      "--min): by "
      "bisection or golden section, after a look at the ends and points between. alpha and residency have "
      "commands of their own. Exit status 1 where the system fits at none of the values");
  add_example(
      *command,
      "moelab tune budget zipmoe-orin --system zipmoe-lru --for \"tpot < 60 ms\" --plot out/budget.svg\n"
      "  moelab tune threads zipmoe-orin --max tokens_per_s --from 1 --to 12\n"
      "  moelab tune alpha smoe-deepseek-3080ti --system smoe --tpot 40ms");
  command->require_subcommand(0, 1);
  add_tune_goal(*command);
  add_tune_alpha(*command);
  add_tune_residency(*command);
}

}  // namespace moelab::cli
