#include "hw/bench/machine_context.hpp"

#include <sys/utsname.h>
#include <system_error>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "hw/codec/library_versions.hpp"
#include "hw/io/system_memory.hpp"

namespace moelab {

namespace {

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

/// What follows "name :" in the first line of the file that has it.
std::string named_line(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':', name.size());
    const std::size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

/// The mount that the folder is under: the longest of those that it begins with.
std::string filesystem_of(const std::filesystem::path& folder) {
  std::error_code error;
  const std::string path = std::filesystem::weakly_canonical(folder, error).string() + "/";
  std::ifstream lines("/proc/self/mounts");
  std::string found;
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string device, mount, kind;
    words >> device >> mount >> kind;
    if (!mount.ends_with('/')) mount += '/';
    if (!path.starts_with(mount) || mount.size() < longest) continue;
    longest = mount.size();
    found = kind + " on " + device;
  }
  return found;
}

std::string gpus() {
  std::error_code error;
  std::string all;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    const std::string model = named_line(gpu.path() / "information", "Model");
    if (!model.empty()) all += (all.empty() ? "" : ", ") + model;
  }
  return all;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace

std::string cpu_model(const std::filesystem::path& root) {
  const std::filesystem::path cpus = root / "proc/cpuinfo";
  std::string model = named_line(cpus, "model name");
  if (model.empty()) model = first_line(root / "proc/device-tree/model");
  std::erase(model, '\0');
  const std::string part = named_line(cpus, "CPU part");
  if (!model.empty() || part.empty()) return model;
  const std::string product = first_line(root / "sys/class/dmi/id/product_name");
  return "AArch64 implementer " + named_line(cpus, "CPU implementer") + " part " + part +
         (product.empty() ? "" : " of " + product);
}

MachineContext machine_context(const std::filesystem::path& folder, const std::string& program) {
  MachineContext context;
  context.cpu = cpu_model();
  context.cores = std::max(1U, std::thread::hardware_concurrency());
  utsname system{};
  if (::uname(&system) == 0)
    context.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
  context.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  ::getloadavg(&context.load, 1);
  context.filesystem = filesystem_of(folder);
  const SystemMemory memory = system_memory();
  context.memory = memory.total;
  context.available_memory = memory.available;
  context.gpu = gpus();
  context.driver = named_line("/proc/driver/nvidia/version", "NVRM version");
  context.date = utc_now();
  context.program = program;
  context.compiler = __VERSION__;
  context.libraries = codec_libraries();
#ifdef MOELAB_CUDA_TOOLKIT
  context.libraries += ", CUDA " MOELAB_CUDA_TOOLKIT;
#endif
  return context;
}

std::vector<std::string> MachineContext::warnings() const {
  std::vector<std::string> all;
  if (!governor.empty() && governor != "performance")
    all.push_back("the frequency governor is '" + governor +
                  "': speeds depend on what ran before; set 'performance'");
  if (load > 0.3 * cores) {
    std::ostringstream text;
    text << "other programs are running (load " << load << " on " << cores
         << " cores): what they take is missing here";
    all.push_back(text.str());
  }
  return all;
}

}  // namespace moelab
