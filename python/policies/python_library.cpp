#include "python/policies/python_library.hpp"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "policies/load_library.hpp"
#include "policies/policy_library.hpp"
#include "python/policies/families.hpp"
#include "sim/child_process.hpp"

namespace moelab {
namespace {

// ---- forks

int forking_calls = 0;  // that need Python in the children; Python's lock guards it
thread_local PyGILState_STATE lock_before_fork;

void flush_streams() {
  nb::module_::import_("moelab._registration").attr("flush")();
}

void before_fork() {
  lock_before_fork = PyGILState_Ensure();
  flush_streams();  // or the child, flushing, would print it again
  PyOS_BeforeFork();
}
void after_fork_in_parent() {
  PyOS_AfterFork_Parent();
  PyGILState_Release(lock_before_fork);
}
/// Work takes the lock where it calls Python.
void after_fork_in_child() {
  PyOS_AfterFork_Child();
  PyEval_SaveThread();
}
void at_end_of_child() {
  const nb::gil_scoped_acquire held;
  flush_streams();
}

constexpr ForkHooks kPythonForks{before_fork, after_fork_in_parent, after_fork_in_child, at_end_of_child};

// ---- classes

std::string text_of(nb::handle described, const char* key) {
  return nb::cast<std::string>(described[key]);
}

/// Never goes away: entries in tables of forked children have its texts.
const PythonPolicy& kept_policy(nb::handle described) {
  static auto* const all = new std::deque<PythonPolicy>;
  PythonPolicy& policy = all->emplace_back();
  policy.type = described["type"];
  policy.family = text_of(described, "family");
  policy.name = text_of(described, "name");
  policy.help = text_of(described, "help");
  policy.source = text_of(described, "source");
  policy.origin = text_of(described, "origin");
  policy.digest = text_of(described, "digest");
  const nb::list parameters = nb::cast<nb::list>(described["parameters"]);
  for (const nb::handle p : parameters)
    policy.parameters.push_back({.name = text_of(p, "name"),
                                 .argument = text_of(p, "argument"),
                                 .unit = text_of(p, "unit"),
                                 .help = text_of(p, "help"),
                                 .whole = nb::cast<bool>(p["whole"])});
  policy.info = {.name = policy.name, .help = policy.help, .source = policy.source};
  std::size_t i = 0;
  for (const nb::handle p : parameters) {
    const PythonPolicy::Parameter& kept = policy.parameters[i++];
    policy.info.parameters.push_back({.name = kept.name,
                                      .unit = kept.unit,
                                      .default_value = nb::cast<double>(p["default"]),
                                      .low = nb::cast<double>(p["low"]),
                                      .high = nb::cast<double>(p["high"]),
                                      .help = kept.help});
  }
  return policy;
}

PolicyLibrary library_of(const PythonPolicy& policy) {
  const std::pair<const char*, std::function<void(PolicyLibrary&)>> adders[] = {
      {"batching", [&](PolicyLibrary& library) { library.add(batching_entry(policy)); }},
      {"cache", [&](PolicyLibrary& library) { library.add(cache_entry(policy)); }},
      {"execution", [&](PolicyLibrary& library) { library.add(execution_entry(policy)); }},
      {"placement", [&](PolicyLibrary& library) { library.add(placement_entry(policy)); }},
      {"planning", [&](PolicyLibrary& library) { library.add(planning_entry(policy)); }},
      {"prefetch", [&](PolicyLibrary& library) { library.add(prefetch_entry(policy)); }},
      {"pressure", [&](PolicyLibrary& library) { library.add(pressure_entry(policy)); }},
      {"residency", [&](PolicyLibrary& library) { library.add(residency_entry(policy)); }},
      {"routing", [&](PolicyLibrary& library) { library.add(routing_entry(policy)); }},
      {"schedule", [&](PolicyLibrary& library) { library.add(schedule_entry(policy)); }},
      {"storage", [&](PolicyLibrary& library) { library.add(storage_entry(policy)); }}};
  PolicyLibrary library;
  for (const auto& [family, add] : adders)
    if (policy.family == family) add(library);
  return library;
}

/// What a process has in its tables.
struct InTables {
  pid_t process = 0;
  std::vector<std::string> origins;
};
InTables in_tables;  // Python's lock guards it

void take_back_all() {
  for (; !in_tables.origins.empty(); in_tables.origins.pop_back())
    take_back_policies(in_tables.origins.back());
}

}  // namespace

PythonForks::PythonForks() {
  if (forking_calls++ == 0) set_fork_hooks(&kPythonForks);
}

PythonForks::~PythonForks() {
  const nb::gil_scoped_acquire held;
  if (--forking_calls == 0) set_fork_hooks(nullptr);
}

PythonLibrary::PythonLibrary(const nb::list& classes) {
  const nb::gil_scoped_acquire held;
  if (classes.size() == 0) return;
  if (in_tables.process != getpid())
    take_back_all();  // of another call of the process that this one was forked from
  if (!in_tables.origins.empty())
    throw std::runtime_error("another call of this process runs with policies: wait for its end");
  in_tables.process = getpid();
  in_use_ = true;
  try {
    for (const nb::handle described : classes) {
      const PythonPolicy& policy = kept_policy(described);
      add_policies(library_of(policy), policy.origin, policy.digest);
      in_tables.origins.push_back(policy.origin);
    }
  } catch (...) {
    take_back_all();
    throw;
  }
}

PythonLibrary::~PythonLibrary() {
  if (!in_use_) return;
  const nb::gil_scoped_acquire held;
  take_back_all();
}

}  // namespace moelab
