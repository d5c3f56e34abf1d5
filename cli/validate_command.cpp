// moelab validate: the same runs on this machine and in the simulator.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>
#include <thread>

#include "cli/commands.hpp"
#include "cli/plot/svg_chart.hpp"
#include "cli/quantity_of.hpp"
#include "cli/terminal_line.hpp"
#include "hw/codec/codec.hpp"
#include "hw/validate/machine_record.hpp"
#include "hw/validate/validation_report.hpp"
#include "models/input_error.hpp"
#include "sim/scenario.hpp"
#include "sim/version.hpp"
#include "traces/gzip_text.hpp"

namespace moelab::cli {
namespace {

constexpr const char* kDefaultValidation = "validate-small";

struct ValidateArguments {
  std::string scenario = kDefaultValidation, device, compute = "cpu", reader = "paced",
              store = "moelab-stores", out;
  std::string rate = "800 MB/s", latency = "100 us", format = "table";
  std::vector<std::string> budgets, codecs = {"lz4hc", "fixed3"}, settings;
  std::vector<std::uint32_t> threads = {1, 2};
  std::uint32_t tokens = 0, repeats = 2;
  std::string record, timeline, timeline_tokens = "1:8";
  bool no_dense = false, no_verify = false, as_calibrated = false;
};

Pace pace_of(const ValidateArguments& options) {
  const Pace pace{quantity_of<BytesPerSecond>("--rate", options.rate),
                  quantity_of<Seconds>("--latency", options.latency)};
  if (!(pace.rate.value() > 0)) throw InputError("--rate " + options.rate, "expected a rate above 0");
  if (!(pace.latency.value() >= 0) || pace.latency > Seconds(10))
    throw InputError("--latency " + options.latency, "expected 0 s to 10 s");
  return pace;
}

ValidationOptions validation_options(const ValidateArguments& options, TerminalLine& line) {
  ValidationOptions how;
  for (const std::string& text : options.budgets)
    how.budgets.push_back(quantity_of<Bytes>("--budgets", text));
  for (const std::string& codec : options.codecs) find_codec(codec);
  how.codecs = options.codecs;
  how.threads = options.threads;
  how.pace.reset();
  if (options.reader == "paced") how.pace = pace_of(options);
  how.stores = options.store;
  if (!options.timeline.empty()) {
    how.timeline = token_window("--timeline-tokens", options.timeline_tokens);
    how.timeline_form = timeline_form(options.timeline);
  }
  how.dense = !options.no_dense;
  how.verify = !options.no_verify;
  how.gpu = options.compute == "gpu";
  how.cpu_now = !options.as_calibrated;
  how.repeats = options.repeats;
  how.pack_threads = std::max(1U, std::thread::hardware_concurrency());
  how.progress = [&line](const std::string& text) { line.show("validate: " + text); };
  return how;
}

/// JSON and picture: FOLDER/validate.json, or FILE.json and FILE.svg.
std::pair<std::string, std::string> outputs_of(const std::string& out) {
  if (out.empty()) return {};
  std::error_code none;
  if (std::filesystem::is_directory(out, none)) return {out + "/validate.json", out + "/validate.svg"};
  std::filesystem::path picture = out;
  if (picture.extension() != ".json")
    throw InputError("--out " + out, "expected a folder that is there, or a file that ends in .json");
  return {out, picture.replace_extension(".svg").string()};
}

/// A dot a layer.
std::string picture_of(const Validation& validation) {
  plot::Panel panel;
  panel.title = "Layer makespan";
  panel.x.label = "measured";
  panel.y.label = "predicted";
  for (plot::Axis* const axis : {&panel.x, &panel.y}) {
    axis->unit = "s";
    axis->scale = plot::ScaleKind::log;
  }
  panel.diagonal = true;
  std::map<std::string, std::size_t> place;
  for (const ValidationPoint& point : validation.points) {
    if (point.too_noisy()) continue;
    const auto [found, is_new] = place.emplace(point.system, panel.series.size());
    if (is_new) {
      panel.series.emplace_back().name = point.system;
      panel.series.back().mark = plot::Mark::dots;
    }
    plot::Series& series = panel.series[found->second];
    series.x.insert(series.x.end(), point.measured_layers.begin(), point.measured_layers.end());
    series.y.insert(series.y.end(), point.predicted_layers.begin(), point.predicted_layers.end());
  }
  plot::Figure figure;
  figure.title = "Predicted over measured: " + validation.scenario + " on " + validation.device;
  figure.caption = "Storage " + validation.storage + ". A dot a layer of a pass." +
                   (validation.too_noisy() > 0 ? " Points that are too noisy to say are left out." : "");
  figure.panel_width = 560;
  figure.panel_height = 520;
  figure.panels.push_back(std::move(panel));
  return plot::svg(figure);
}

/// As 'moelab records' finds them in a folder.
void check_record(const std::string& record) {
  if (!record.empty() && std::filesystem::path(record).extension() != ".json")
    throw InputError("--record " + record, "expected a file that ends in .json");
}

void run(const ValidateArguments& options) {
  const auto [json, picture] = outputs_of(options.out);
  check_record(options.record);
  check_outputs({json, picture, options.record, options.timeline}, {options.scenario, options.device});
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& text : options.settings) settings.push_back(split_setting(text));
  if (options.tokens > 0) settings.emplace_back("workload.output_tokens", std::to_string(options.tokens));
  Scenario scenario = load_scenario(options.scenario, settings);
  scenario.device = load_device(options.device);

  TerminalLine line;
  const ValidationOptions how = validation_options(options, line);
  const Validation validation = validate(scenario, how);
  line.clear();

  std::vector<std::pair<std::string, std::string>> files;
  if (!json.empty()) files = {{json, validation_json(validation)}, {picture, picture_of(validation)}};
  if (!options.record.empty()) {
    std::string record = machine_record_json(machine_record(scenario, how, validation, program_version()));
    read_machine_record(options.record, record);  // what is written is what 'moelab records' takes
    files.emplace_back(options.record, std::move(record));
  }
  if (!options.timeline.empty())
    files.emplace_back(options.timeline,
                       packed_by_name(options.timeline,
                                      timeline_file(timeline_form(options.timeline), validation.timeline)));
  write_outputs(files);
  std::cout << (options.format == "json" ? validation_json(validation) : validation_table(validation));
  if (options.format != "json" && !json.empty()) std::cout << "result: " << json << ", " << picture << "\n";
  if (options.format != "json" && !options.record.empty())
    std::cout << "record: " << options.record << ", for 'moelab records'\n";
  if (options.format != "json" && !options.timeline.empty())
    std::cout << "timeline (tokens " << options.timeline_tokens << "): " << options.timeline
              << ", opens in https://ui.perfetto.dev\n";
  std::cout.flush();
  if (!validation.same_work())
    throw std::runtime_error("the runs on hardware did not do what the simulator says they do (see above)");
}

void add_grid(CLI::App& command, ValidateArguments& options) {
  command
      .add_option("--budgets", options.budgets,
                  "Memory budgets; room for a quarter, a half and three quarters of the experts")
      ->delimiter(',');
  command.add_option("--threads", options.threads, "Numbers of decompression threads (L)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--codecs", options.codecs, "Codecs, see 'moelab pack'; a store is packed for each")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--tokens", options.tokens, "Tokens to generate; the scenario's")
      ->check(CLI::Range(2, 1'000'000));
  command.add_option("--repeats", options.repeats, "Timed runs of everything, in turns")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  command.add_option("--set", options.settings, "Change a value of the scenario: PATH=VALUE")->take_all();
}

void add_storage(CLI::App& command, ValidateArguments& options) {
  command
      .add_option("--reader", options.reader,
                  "paced: from memory, at --rate and --latency exactly; disk: as it is")
      ->check(CLI::IsMember({"paced", "disk"}))
      ->capture_default_str();
  command.add_option("--rate", options.rate, "Of the paced reader")->capture_default_str();
  command.add_option("--latency", options.latency, "Of a paced read")->capture_default_str();
  command.add_option("--store", options.store, "Folder that keeps packed experts from one time to the next")
      ->capture_default_str();
  command.add_flag("--no-dense", options.no_dense, "Leave out attention and shared experts, in both");
  command
      .add_option("--compute", options.compute,
                  "Who joins and computes; gpu: by CUDA, and predicted by its figures")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->capture_default_str();
  command.add_flag("--as-calibrated", options.as_calibrated,
                   "Predict by the profile's CPU as it is, not at the speed found right before each run");
  command.add_flag("--no-verify", options.no_verify,
                   "Without the first, untimed run of everything that compares all checksums");
}

}  // namespace

void add_validate(CLI::App& program) {
  const auto options = std::make_shared<ValidateArguments>();
  CLI::App* command = program.add_subcommand(
      "validate", "Run a scenario on this machine and in the simulator: how far apart are they?");
  command->add_option(
      "SCENARIO", options->scenario,
      "Scenario file, or the name of an embedded one (default: " + std::string(kDefaultValidation) + ")");
  command
      ->add_option("--device", options->device, "Profile of this machine, such as moelab calibrate writes it")
      ->required();
  add_grid(*command, *options);
  add_storage(*command, *options);
  command
      ->add_option("--out", options->out,
                   "Folder, or file that ends in .json: the result, and a picture (.svg) beside it")
      ->check(names_a_file);
  command
      ->add_option("--record", options->record,
                   "File that ends in .json: the errors by codec, threads and kind of operation, with what "
                   "machine, program and load they were found on and without whose machine it is, for "
                   "'moelab records'")
      ->check(names_a_file);
  command
      ->add_option(
          "--timeline", options->timeline,
          "Write a timeline for https://ui.perfetto.dev to this file: each system's first timed run, at "
          "the first codec, budget and number of threads, on hardware and simulated, their first "
          "tokens at the same time; in Perfetto's own form where its name ends in .pftrace, else in JSON "
          "(.json.gz: gzipped)")
      ->check(names_a_file);
  command
      ->add_option("--timeline-tokens", options->timeline_tokens,
                   "Passes in the timeline by the tokens that they make: FIRST:LAST")
      ->capture_default_str();
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command,
              "moelab validate validate-small --device here.yaml --codecs fixed3 --out validate.json");
  command->callback([options] { run(*options); });
}

}  // namespace moelab::cli
