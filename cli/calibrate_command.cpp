// moelab calibrate: measures this machine and writes its device profile.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "hw/calibrate/calibrate.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/version.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CalibrateArguments {
  std::string out, folder = ".", format = "table";
  std::vector<std::string> models = {"deepseek-v2-lite", "validate-8x16"};
  bool no_gpu = false;
  CalibrationOptions calibration;
};

/// A profile's name is its file's without the ending; other characters would have to be quoted wherever it
/// is used.
void require_name(const std::string& name) {
  const auto usual = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (name.empty() || !std::ranges::all_of(name, usual))
    throw InputError("profile name '" + name + "'",
                     "expected letters, digits, '-', '_' and '.'; give another by --name");
}

/// The options that change what is measured; folders and files stay private.
std::string command_text(const CalibrateArguments& options) {
  const CalibrationOptions& c = options.calibration;
  std::string text = "moelab calibrate";
  if (c.quick) text += " --quick";
  if (options.no_gpu) text += " --no-gpu";
  if (c.stand_in_gpu) text += " --stand-in-gpu";
  for (const Architecture& model : c.models) text += " --model " + model.name;
  text += " --shards " + std::to_string(c.shards);
  for (const std::string& codec : c.codecs) text += " --codec " + codec;
  return text;
}

std::string spread_text(const CalibrationFigure& figure) {
  if (!figure.spread) return "";
  char text[64];
  std::snprintf(text, sizeof text, "x%.2f..%.2f", figure.spread->p10, figure.spread->p90);
  return text;
}

std::string share_text(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string remarks_on(const CalibrationFigure& figure) {
  std::string text;
  const auto add = [&](const std::string& remark) { text += (text.empty() ? "" : ", ") + remark; };
  if (figure.noisy) add("! noisy");
  if (figure.correction > 5e-4) add("corrected by " + share_text(figure.correction));
  if (!figure.in_profile) add("not in the profile");
  return text;
}

void print_table(const CalibrateArguments& options, const CalibrationResult& result) {
  const MachineContext& machine = result.machine;
  std::printf("%s, %u cores, %s\n", machine.cpu.c_str(), machine.cores, machine.kernel.c_str());
  std::printf("files on %s\n", machine.filesystem.c_str());
  if (!machine.gpu.empty()) std::printf("%s; %s\n", machine.gpu.c_str(), machine.driver.c_str());
  for (const std::string& warning : machine.warnings()) std::printf("warning: %s\n", warning.c_str());
  std::printf("\n%-34s %-38s %-13s %9s %9s\n", "figure", "value", "p10..p90", "variation", "fit error");
  std::size_t noisy = 0;
  for (const CalibrationFigure& figure : result.figures) {
    noisy += figure.noisy ? 1 : 0;
    std::printf("%-34s %-38s %-13s %9s %9s  %s\n", figure.path.c_str(), figure.value.c_str(),
                spread_text(figure).c_str(), figure.samples > 0 ? share_text(figure.variation).c_str() : "",
                figure.fit_error ? share_text(*figure.fit_error).c_str() : "", remarks_on(figure).c_str());
  }
  if (noisy > 0)
    std::printf(
        "\n! %zu of %zu vary by more than %.0f %%: they are no good figures, and their sources say so\n",
        noisy, result.figures.size(), kNoisyVariation * 100);
  std::printf("\n%s: device profile '%s', measured in %.0f s\n", options.out.c_str(),
              result.profile.name.c_str(), result.seconds);
}

Json json_of(const CalibrationFigure& figure) {
  Json json = {{"figure", figure.path},         {"value", figure.value},   {"in_profile", figure.in_profile},
               {"source", figure.source},       {"points", figure.points}, {"samples", figure.samples},
               {"variation", figure.variation}, {"noisy", figure.noisy},   {"correction", figure.correction}};
  if (figure.spread)
    json["spread"] = {{"p10", figure.spread->p10}, {"p50", figure.spread->p50}, {"p90", figure.spread->p90}};
  if (figure.fit_error) json.update({{"fit_error", *figure.fit_error}, {"residuals", figure.residuals}});
  return json;
}

void print_json(const CalibrateArguments& options, const CalibrationResult& result) {
  Json figures = Json::array();
  for (const CalibrationFigure& figure : result.figures) figures.push_back(json_of(figure));
  const MachineContext& machine = result.machine;
  const Json all = {{"profile", options.out},           {"name", result.profile.name},
                    {"seconds", result.seconds},        {"cpu", machine.cpu},
                    {"cores", machine.cores},           {"kernel", machine.kernel},
                    {"filesystem", machine.filesystem}, {"gpu", machine.gpu},
                    {"driver", machine.driver},         {"date", machine.date},
                    {"warnings", machine.warnings()},   {"figures", std::move(figures)}};
  std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void run_calibrate(CalibrateArguments options) {
  check_outputs({options.out});
  CalibrationOptions& c = options.calibration;
  if (c.name.empty()) c.name = std::filesystem::path(options.out).stem().string();
  require_name(c.name);
  for (const std::string& model : options.models) c.models.push_back(load_architecture(model));
  c.folder = options.folder;
  c.gpu = !options.no_gpu;
  c.program = "moelab " + program_version();
  c.command = command_text(options);
  const CalibrationResult result = [&] {
    TerminalLine line;
    return calibrate(c, [&](std::size_t done, std::size_t all, const std::string& doing) {
      line.show("calibrate: " + std::to_string(100 * done / std::max<std::size_t>(all, 1)) + " %, " + doing);
    });
  }();
  write_outputs({{options.out, calibrated_text(result.profile)}});
  if (options.format == "json")
    print_json(options, result);
  else
    print_table(options, result);
}

}  // namespace

void add_calibrate(CLI::App& program) {
  const auto options = std::make_shared<CalibrateArguments>();
  options->calibration.name.clear();
  CLI::App* command = program.add_subcommand(
      "calibrate", "Measure this machine: storage, codecs, cores, GPU; write its device profile");
  command->add_option("--out", options->out, "File for the profile")->required()->check(names_a_file);
  command->add_flag("--quick", options->calibration.quick, "Fewer sizes, less data, fewer samples: a minute");
  command->add_option("--name", options->calibration.name, "The profile's name; the file's without ending");
  command
      ->add_option("--model", options->models,
                   "Model whose experts are measured; may be repeated, of the first tensors and shards too")
      ->capture_default_str();
  command->add_option("--dir", options->folder, "Folder of the storage to measure")->capture_default_str();
  command->add_option("--codec", options->calibration.codecs,
                      "Codec, see 'moelab pack'; may be repeated; all");
  command->add_option("--shards", options->calibration.shards, "Shards of an exponent plane")
      ->capture_default_str();
  command->add_flag("--no-gpu", options->no_gpu,
                    "Leave the GPU out: a profile of a CPU that does everything");
  command
      ->add_flag("--stand-in-gpu", options->calibration.stand_in_gpu,
                 "Describe a discrete GPU that the CPU plays: half of the memory, copies for a link")
      ->excludes("--no-gpu");
  add_format(*command, options->format);
  add_example(*command, "moelab calibrate --out here.yaml --dir /data");
  command->callback([options] { run_calibrate(*options); });
}

}  // namespace moelab::cli
