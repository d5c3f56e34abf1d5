// moelab advise: how to serve a model on a machine of catalogue parts.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include "cli/advise_report.hpp"
#include "cli/commands.hpp"
#include "cli/import_note.hpp"
#include "cli/quantity_of.hpp"
#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/model_import.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"
#include "sim/advise/advice_space.hpp"
#include "sim/results/text_table.hpp"
#include "sim/serving/shown_sizes.hpp"

namespace moelab::cli {
namespace {

struct AdviseArguments {
  std::string model;
  std::string machine;                         // a map of parts, or the file that has one
  MachineText parts{.gpus = 0, .sockets = 0};  // what flags say in its place; 0: nothing
  std::vector<std::string> runtimes, weights;
  std::string kv, budget;
  double prompt = 512, answer = AdviceRequest{}.answer, users = 1;
  double context = 0;  // 0: default_context()
  bool policies = true;
  std::string plot;
  std::string format = "table";
};

MachineText machine_map(const std::string& text) {
  if (text.empty()) return {};
  Problems problems;
  const YamlDocument document = is_config_path(text) ? YamlDocument::from_file(text, problems)
                                                     : YamlDocument::from_text("--machine", text, problems);
  MachineText machine = read_machine_text(
      document.root(), is_config_path(text) ? std::filesystem::path(text).parent_path().string() : "");
  problems.throw_if_any();
  return machine;
}

MachineText machine_text(const AdviseArguments& a) {
  MachineText text = machine_map(a.machine);
  const auto take = [](const std::string& flag, std::string& value) {
    if (!flag.empty()) value = flag;
  };
  take(a.parts.gpu, text.gpu);
  take(a.parts.cpu, text.cpu);
  take(a.parts.memory, text.memory);
  take(a.parts.ram, text.ram);
  take(a.parts.ssd, text.ssd);
  if (a.parts.gpus > 0) text.gpus = a.parts.gpus;
  if (a.parts.sockets > 0) text.sockets = a.parts.sockets;
  return held_machine(std::move(text));
}

double context_of(const AdviseArguments& a) {
  if (a.context == 0) return default_context(a.prompt, a.answer);
  if (a.context < a.prompt)
    throw InputError("--context", fixed(a.context, 0) + " tokens do not hold a prompt of " +
                                      fixed(a.prompt, 0) + ": expected --context " + fixed(a.prompt, 0) +
                                      " or more");
  return a.context;
}

Bytes budget_of(const std::string& text, const MachineParts& machine) {
  const auto bytes = quantity_of<Bytes>("--budget", text);
  if (!(bytes > Bytes(0))) throw InputError("--budget " + text, "expected a size above 0, like '12 GB'");
  const bool own = machine.gpu && !machine.gpu->unified();
  const std::optional<Bytes> there = own ? machine.gpu->memory : machine.usable_ram();
  if (there && bytes > *there)
    throw InputError("--budget " + text, std::string("is more than ") + (own ? "the GPU" : "the host") +
                                             " has to give: " + to_string(rounded_down(*there)));
  return bytes;
}

/// Asks for all at once: what one part of the question lacks does not hide what another does.
class Collected {
 public:
  /// Whether `read` had nothing to say.
  bool read(const std::function<void()>& read) {
    try {
      read();
      return true;
    } catch (const InputError& error) {
      for (const Problem& problem : error.problems()) problems_.add(problem);
      return false;
    }
  }
  void throw_if_any() const { problems_.throw_if_any(); }

 private:
  Problems problems_;
};

void check_kv(const std::string& kv) {
  if (!kv.empty() && !cache_bytes(kv))
    throw InputError("--kv", "unknown format of a KV cache '" + kv + "'" + suggestion(kv, cache_formats()));
}

/// Those that will be tried; none where a name is not known.
std::vector<std::string> runtimes_to_try(const AdviceRequest& request, Collected& all) {
  std::vector<std::string> names;
  all.read([&] { names = runtimes_for(request); });
  return names;
}

AdviceRequest request_of(const AdviseArguments& a, const MachineText& machine) {
  AdviceRequest request;
  Collected all;
  const bool model = all.read([&] { request.model = find_model(a.model); });
  if (a.model.ends_with(".gguf")) request.gguf = a.model;
  request.runtimes = a.runtimes;
  if (all.read([&] { request.machine = machine_of(machine); })) {
    if (!a.budget.empty()) all.read([&] { request.budget = budget_of(a.budget, request.machine); });
    for (const std::string& name : model ? runtimes_to_try(request, all) : std::vector<std::string>())
      all.read([&] { (void)load_runtime(name); });
  }
  request.weights = a.weights;
  if (model)
    for (const std::string& name : a.weights) all.read([&] { (void)stored_as(request.model, name); });
  all.read([&] { check_kv(a.kv); });
  request.kv = a.kv;
  request.prompt = a.prompt;
  request.answer = a.answer;
  all.read([&] { request.context = context_of(a); });
  all.throw_if_any();
  request.users = a.users;
  return request;
}

void add_machine_options(CLI::App& command, AdviseArguments& a) {
  command.add_option(
      "--machine", a.machine,
      "Map of the machine's parts: '{gpu: rtx-4090-24gb, gpus: 1, cpu: ryzen-9-7950x, sockets: "
      "1, memory: ddr5-6000 x 2, ram: 64 GiB, ssd: pcie4-x4}', or a YAML file that has it. The "
      "flags below go before it");
  command.add_option("--gpu", a.parts.gpu,
                     "GPU, as `moelab parts` has it: rtx-4090-24gb; or a YAML file with one of your own");
  command.add_option("--gpus", a.parts.gpus, "GPUs of that kind")->check(CLI::Range(1, 64));
  command.add_option("--cpu", a.parts.cpu, "CPU, as its maker or /proc/cpuinfo calls it");
  command.add_option("--sockets", a.parts.sockets, "CPUs of that kind")->check(CLI::Range(1, 8));
  command.add_option("--memory", a.parts.memory,
                     "Host memory: 'ddr5-6000 x 2' (channels); default: the CPU's fastest");
  command.add_option(
      "--ram", a.parts.ram,
      "Size of the host's whole memory, in whatever use, not what of it is free: '64 GiB' where "
      "modules sold as 4 x 16 GB are in it. 3 GB of it are kept for the system here; where "
      "other programs hold more, --budget says what may be taken. Default: as much as is "
      "needed");
  command.add_option("--ssd", a.parts.ssd, "SSD that experts are read from (--policies): pcie4-x4");
}

void add_workload_options(CLI::App& command, AdviseArguments& a) {
  command
      .add_option("--runtime", a.runtimes,
                  "Only these, between commas or each with its --runtime (`moelab runtimes` lists them)")
      ->delimiter(',');
  command
      .add_option("--weights", a.weights,
                  "Only these weight formats, between commas or each with its --weights (`moelab formats` "
                  "lists them)")
      ->delimiter(',');
  command.add_option("--kv", a.kv,
                     "Format of the KV cache: fp8, q8_0, q4_0, ... (what it takes to convert it is not "
                     "counted); default: 16 bits");
  command.add_option(
      "--budget", a.budget,
      "What weights, KV cache and buffers may take of each GPU's memory, or of the host's where "
      "the GPU works in it: '12 GB'; default: all that the system leaves");
  command.add_option("--prompt", a.prompt, "Tokens of a prompt")
      ->check(number_from(1, 1e6))
      ->capture_default_str();
  command
      .add_option("--answer", a.answer,
                  "Tokens of an answer: of splits and micro-batches, of which a larger one takes memory that "
                  "experts would have, those are chosen that have prompt and answer done soonest")
      ->check(number_from(1, 1e6))
      ->capture_default_str();
  command
      .add_option(
          "--context", a.context,
          "Tokens of each user's KV cache, all of them attended to; default: room for the prompt and the "
          "answer, rounded up to whole 1024s, " +
              fixed(AdviceRequest{}.context, 0) + " at least")
      ->check(number_from(1, 1e8));
  command.add_option("--users", a.users, "Users who decode at once")
      ->check(number_from(1, 1e5))
      ->check([](const std::string& text) {
        return text.find_first_not_of("0123456789") == std::string::npos ? "" : "expected a whole number";
      })
      ->capture_default_str();
}

/// The fastest way; where all would be in one memory but for want of room, that which comes nearest in four
/// bits and more: what the SSD makes of it is the other choice beside fewer bits.
Advice base_of_policies(const AdviseReport& report) {
  const MachineParts& machine = report.request.machine;
  const bool one_memory = !machine.gpu || machine.gpu->unified();
  const bool nearest = report.list.empty() || (one_memory && !report.lacks_of_four_bits.empty());
  return nearest ? nearest_to_fitting(report.request) : report.list.front();
}

/// What only policies could serve, from the SSD, is no failure; what they could not either is.
AdviseReport report_of(const AdviseArguments& a) {
  const MachineText machine = machine_text(a);
  AdviseReport report{request_of(a, machine), {}, {}, {}, {}, {}, {}};
  AdviceList found = find_ways(report.request);
  report.list = std::move(found.ways);
  report.lacks = std::move(found.lacks);
  report.lacks_of_four_bits = std::move(found.lacks_of_four_bits);
  report.four_bits_with_q8_0_cache = std::move(found.four_bits_with_q8_0_cache);
  report.left_out = std::move(found.left_out);
  if (a.policies) report.policies = try_policies(report.request, machine, base_of_policies(report));
  const bool served =
      report.policies && std::any_of(report.policies->rows.begin(), report.policies->rows.end(),
                                     [](const PolicyTrial& t) { return t.why_not.empty(); });
  if (report.list.empty() && !served) throw_nothing_fits(report.request, report.lacks);
  return report;
}

void run_advise(const AdviseArguments& a) {
  std::vector<std::string> inputs{a.model};
  for (const std::string& file : {a.machine, a.parts.gpu, a.parts.cpu, a.parts.ssd})
    if (is_config_path(file)) inputs.push_back(file);
  check_outputs({a.plot}, inputs);
  const AdviseReport report = report_of(a);
  if (!a.plot.empty() && report.list.empty())
    throw InputError("--plot", "draws what runtimes offer, and nothing of it fits: " + report.lacks);
  if (!a.plot.empty()) write_outputs({{a.plot, plot::svg(advise_figure(report))}});
  say_import_note(report.request.model);
  std::cout << (a.format == "json" ? advise_json(report) : advise_text(report, text_form(a.format)));
  if (a.format != "json" && !a.plot.empty()) std::cout << "picture: " << a.plot << "\n";
}

}  // namespace

void add_advise(CLI::App& program) {
  const auto a = std::make_shared<AdviseArguments>();
  CLI::App* command = program.add_subcommand(
      "advise", "How to serve a model on a machine of catalogue parts: runtime, weight format, split, speed");
  command
      ->add_option("--model", a->model, "A model by name, a model file, a GGUF file or a Hugging Face folder")
      ->required();
  add_machine_options(*command, *a);
  add_workload_options(*command, *a);
  command->add_flag(
      "--policies,!--no-policies", a->policies,
      "Whether to simulate what other policies than the runtimes' would do with the fastest way's "
      "runtime and weights (default: yes)");
  add_plot(*command, a->plot,
           "SVG file to draw decoding over GPU memory given to experts into, every split of each runtime");
  add_text_format(*command, a->format);
  add_example(
      *command,
      "moelab advise --model gpt-oss-120b --machine '{gpu: rtx-3090-24gb, cpu: i9-14900K, memory: "
      "ddr5-6000 x 2, ram: 96 GiB}' --plot advice.svg\n"
      "  moelab advise --model qwen3-30b-a3b --gpu apple-m4-max --ram '64 GiB' --no-policies --format json");
  command->callback([a] { run_advise(*a); });
}

}  // namespace moelab::cli
