#include "models/machine_parts.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {

FlopsPerSecond MachineParts::cpu_peak() const {
  return cpu ? cpu->peak() * sockets : FlopsPerSecond(0);
}

std::string MachineParts::title() const {
  std::string text;
  if (gpu) text = (gpus > 1 ? std::to_string(gpus) + " x " : "") + gpu->title;
  if (!cpu) return text;
  text += (text.empty() ? "" : ", ") + (sockets > 1 ? std::to_string(sockets) + " x " : std::string()) +
          cpu->title;
  if (memory.channels > 0 || memory.stated)
    text += ", " + (memory.type.empty() ? "memory" : memory.type) + " of " + to_string(memory.bandwidth()) +
            (sockets > 1 ? " a socket" : "");
  return text;
}

MachineParts machine_of(const MachineText& text) {
  MachineParts machine;
  if (!text.gpu.empty() && text.gpus > 0) {
    machine.gpu = find_gpu(text.gpu);
    machine.gpus = text.gpus;
  }
  if (!text.cpu.empty()) machine.cpu = find_cpu(text.cpu);
  if (!machine.gpu && !machine.cpu)
    throw InputError("", "a machine needs a GPU or a CPU: give 'gpu: rtx-4090-24gb' or 'cpu: ryzen-9-7950x'");
  if (machine.gpu && machine.gpu->unified() && machine.gpus > 1)
    throw InputError("", machine.gpu->title + " works in the host's memory: there is one in a machine");
  machine.sockets = std::max(1, text.sockets);
  if (machine.cpu && machine.sockets > machine.cpu->sockets)
    throw InputError(
        "", machine.cpu->title + " works in machines of " + std::to_string(machine.cpu->sockets) + " socket" +
                (machine.cpu->sockets == 1 ? "" : "s") + ", not of " + std::to_string(machine.sockets));
  machine.memory = read_memory(text.memory, machine.cpu ? &*machine.cpu : nullptr);
  if (machine.gpu && machine.gpu->unified()) {
    // The memory is soldered: it is the GPU's data sheet that says how fast it is.
    if (machine.memory.stated && text.memory.find("unified") != std::string::npos)
      machine.gpu->bandwidth = *machine.memory.stated;
    machine.memory.stated = machine.gpu->bandwidth;
  }
  if (!text.ram.empty()) {
    Bytes ram;
    std::string expected;
    if (!parse(text.ram, ram, expected) || ram <= Bytes(0))
      throw InputError("", "ram '" + text.ram + "': expected " + expected);
    machine.ram = ram;
  }
  if (!text.ssd.empty()) machine.ssd = find_ssd(text.ssd);
  return machine;
}

std::optional<MachineParts> read_machine(const YamlMap& map) {
  MachineText text;
  text.gpu = map.text("gpu", "");
  text.gpus = static_cast<int>(map.integer("gpus", 1, 64, 1));
  text.cpu = map.text("cpu", "");
  text.sockets = static_cast<int>(map.integer("sockets", 1, 8, 1));
  text.memory = map.text("memory", "");
  text.ram = map.text("ram", "");
  text.ssd = map.text("ssd", "");
  map.done();
  try {
    return machine_of(text);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) map.fail("machine", problem.what);
    return {};
  }
}

}  // namespace moelab
