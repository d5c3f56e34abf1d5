// moelab advise: how to serve a model on a machine of catalogue parts.
#include <cmath>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "models/json.hpp"
#include "models/model_import.hpp"
#include "sim/advise/advice.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AdviseArguments {
  std::string model;
  MachineText machine;
  std::vector<std::string> runtimes, weights;
  double prompt = 512, context = 4096, users = 1;
  std::string format = "table";
};

AdviceRequest request_of(const AdviseArguments& a) {
  AdviceRequest request;
  request.model = find_model(a.model);
  if (a.model.ends_with(".gguf")) request.gguf = a.model;
  request.machine = machine_of(a.machine);
  request.runtimes = a.runtimes;
  request.weights = a.weights;
  request.prompt = a.prompt;
  request.context = a.context;
  request.users = a.users;
  return request;
}

std::string speed(double per_second) {
  return fixed(per_second, per_second < 10 ? 1 : 0);
}

std::string place_of(const Advice& a, const AdviceRequest& q) {
  if (a.split.cpu_only) return "CPU";
  if (a.split.cpu_expert_layers > 0)
    return "experts of " + std::to_string(a.split.cpu_expert_layers) + " of " +
           std::to_string(q.model.moe_layers().size()) + " layers on the CPU";
  if (a.split.gpu_expert_share < 1)
    return std::to_string(std::lround(a.split.gpu_expert_share * q.model.moe().experts)) + " of " +
           std::to_string(q.model.moe().experts) + " experts a layer on the GPU";
  return "all on the GPU";
}

void print_table(const std::vector<Advice>& list, const AdviceRequest& q) {
  const Advice& best = list.front();
  const double rate = 1 / best.decode_s;
  std::cout << q.model.title << " on " << q.machine.title() << ": fastest is " << best.title << " with "
            << best.weights << ", " << speed(rate) << " tokens/s a user (" << speed(rate / (1 + best.error))
            << " to " << speed(rate * (1 + best.error)) << "), bound by " << best.bound << ".\n\n";
  std::vector<std::vector<std::string>> table{
      {"runtime", "weights", "where", "decode tok/s", "prompt tok/s", "GPU", "host"}};
  for (const Advice& a : list)
    table.push_back({a.runtime, a.weights, place_of(a, q), speed(1 / a.decode_s),
                     speed(q.prompt / a.prompt_s), to_string(Bytes(a.memory.gpu())),
                     to_string(Bytes(a.memory.host_total()))});
  std::cout << align_columns(table, 3) << "\n"
            << best.command << "\n\n"
            << "From data sheets and each runtime's constants, fitted and assumed (moelab runtimes). The "
               "range is what "
               "nine in ten of 25 published runs stayed within; constants were set with them in view "
               "(experiments/world).\n";
}

void print_json(const std::vector<Advice>& list) {
  Json all = Json::array();
  for (const Advice& a : list)
    all.push_back({{"runtime", a.runtime},
                   {"weights", a.weights},
                   {"cpu_only", a.split.cpu_only},
                   {"cpu_expert_layers", a.split.cpu_expert_layers},
                   {"gpu_expert_share", a.split.gpu_expert_share},
                   {"micro_batch", a.micro_batch},
                   {"decode_tokens_per_s", 1 / a.decode_s},
                   {"decode_error", a.error},
                   {"prompt_s", a.prompt_s},
                   {"gpu_bytes", a.memory.gpu()},
                   {"gpu_weights_bytes", a.memory.gpu_weights},
                   {"gpu_kv_bytes", a.memory.gpu_kv},
                   {"gpu_compute_bytes", a.memory.gpu_compute},
                   {"gpu_context_bytes", a.memory.gpu_context},
                   {"gpu_reserve_bytes", a.memory.gpu_reserve},
                   {"host_bytes", a.memory.host_total()},
                   {"host_weights_bytes", a.memory.host},
                   {"host_compute_bytes", a.memory.host_compute},
                   {"bound", a.bound},
                   {"command", a.command}});
  std::cout << all.dump(2) << "\n";
}

}  // namespace

void add_advise(CLI::App& program) {
  const auto a = std::make_shared<AdviseArguments>();
  CLI::App* command = program.add_subcommand(
      "advise", "How to serve a model on a machine of catalogue parts: runtime, weight format, split, speed");
  command
      ->add_option("--model", a->model, "A model by name, a model file, a GGUF file or a Hugging Face folder")
      ->required();
  command->add_option("--gpu", a->machine.gpu, "GPU, as `moelab parts` has it: rtx-4090-24gb");
  command->add_option("--gpus", a->machine.gpus, "GPUs of that kind")->check(CLI::Range(1, 64));
  command->add_option("--cpu", a->machine.cpu, "CPU, as its maker or /proc/cpuinfo calls it");
  command->add_option("--sockets", a->machine.sockets, "CPUs of that kind")->check(CLI::Range(1, 8));
  command->add_option("--memory", a->machine.memory,
                      "Host memory: 'ddr5-6000 x 2' (channels); default: the CPU's fastest");
  command->add_option("--ram", a->machine.ram,
                      "Size of the host's memory: '64 GiB'; default: as much as is needed");
  command->add_option("--runtime", a->runtimes, "Only these (`moelab runtimes` lists them)");
  command->add_option("--weights", a->weights, "Only these weight formats (`moelab formats` lists them)");
  command->add_option("--prompt", a->prompt, "Tokens of a prompt")
      ->check(number_from(1, 1e6))
      ->capture_default_str();
  command->add_option("--context", a->context, "Tokens of each user's KV cache, all of them attended to")
      ->check(number_from(1, 1e8))
      ->capture_default_str();
  command->add_option("--users", a->users, "Users who decode at once")
      ->check(number_from(1, 1e5))
      ->capture_default_str();
  add_format(*command, a->format);
  add_example(*command,
              "moelab advise --model gpt-oss-120b --gpu rtx-3090-24gb --cpu i9-14900K --memory ddr5-6000");
  command->callback([a] {
    const AdviceRequest request = request_of(*a);
    const std::vector<Advice> list = advise(request);
    if (a->format == "json")
      print_json(list);
    else
      print_table(list, request);
  });
}

}  // namespace moelab::cli
