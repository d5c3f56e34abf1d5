#include "sim/simgrid_module.hpp"

#include <dlfcn.h>

#include <memory>
#include <string>

#include "models/input_error.hpp"
#include "sim/child_process.hpp"

namespace moelab::engine {
namespace {

using MakeEngine = decltype(moelab_make_simgrid_engine);

MakeEngine* load() {
  // Looked for where the program's run path says: in the build, and where it is installed. It stays for good.
  void* const module = dlopen("libmoelab_simgrid.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* const entry = module == nullptr ? nullptr : dlsym(module, "moelab_make_simgrid_engine");
  if (entry == nullptr) {
    const char* const wrong = dlerror();
    throw InputError(
        "executor simgrid",
        "SimGrid's part of moelab cannot be loaded; install moelab again, or use --executor fast: " +
            std::string(wrong != nullptr ? wrong : "its module has no entry"));
  }
  return reinterpret_cast<MakeEngine*>(entry);
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

// -fsanitize=function compares types by address, and a module has its own.
#ifdef __clang__
[[clang::no_sanitize("function")]]
#endif
std::unique_ptr<Engine>
make_simgrid_engine() {
  return std::unique_ptr<Engine>(simgrid_module()());
}

}  // namespace moelab::engine
