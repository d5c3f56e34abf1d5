#include "sim/simgrid_module.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <memory>
#include <string>

#include "models/input_error.hpp"
#include "sim/child_process.hpp"
#include "sim/version.hpp"

namespace moelab::engine {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw InputError("executor simgrid",
                   "SimGrid's part of moelab " + why + "; install moelab again, or use the executor fast");
}

/// The folder of what this code was linked into: a program, or the Python package's extension.
std::filesystem::path own_folder() {
  static const char here = 0;
  Dl_info info{};
  link_map* map = nullptr;
  dladdr1(&here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  const bool program = map == nullptr || map->l_name == nullptr || map->l_name[0] == '\0';
  const std::filesystem::path file = program ? "/proc/self/exe" : map->l_name;
  return std::filesystem::canonical(file).parent_path();
}

/// Throws InputError where there is none.
std::filesystem::path module_file() {
  const std::filesystem::path folder = own_folder();
  for (const char* where :
       {"../lib/moelab", "lib/moelab",  // as installed: the program, the Python package's extension
        "../sim", "../../sim"}) {       // in a build: programs, tests
    const std::filesystem::path file = folder / where / "libmoelab_simgrid.so";
    std::error_code none;
    if (std::filesystem::is_regular_file(file, none)) return file;
  }
  refuse("is not there: expected libmoelab_simgrid.so in ../lib/moelab or lib/moelab of the folder " +
         folder.string());
}

void* symbol(void* module, const char* name) {
  void* const found = module == nullptr ? nullptr : dlsym(module, name);
  if (found != nullptr) return found;
  const char* const wrong = dlerror();
  refuse("cannot be loaded: " + std::string(wrong != nullptr ? wrong : name));
}

using MakeEngine = decltype(moelab_make_simgrid_engine);
using Version = decltype(moelab_simgrid_version);

// -fsanitize=function compares types by address, and a module has its own.
#ifdef __clang__
#define MOELAB_CALLS_MODULE [[clang::no_sanitize("function")]]
#else
#define MOELAB_CALLS_MODULE
#endif

/// It stays for good.
MOELAB_CALLS_MODULE MakeEngine* load() {
  void* const module = dlopen(module_file().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const std::string version = reinterpret_cast<Version*>(symbol(module, "moelab_simgrid_version"))();
  if (version != program_version()) refuse("is of version " + version + ", and this is " + program_version());
  return reinterpret_cast<MakeEngine*>(symbol(module, "moelab_make_simgrid_engine"));
}

MakeEngine& simgrid_module() {
  static MakeEngine* const entry = load();
  return *entry;
}

}  // namespace

void load_simgrid() {
  simgrid_module();
}

std::string run_in_simgrid_child(const std::function<std::string()>& work) {
  load_simgrid();
  return run_in_child(work);
}

MOELAB_CALLS_MODULE std::unique_ptr<Engine> make_simgrid_engine() {
  return std::unique_ptr<Engine>(simgrid_module()());
}

}  // namespace moelab::engine
