#include "policies/load_library.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <list>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "models/input_error.hpp"
#include "policies/policy_families.hpp"
#include "policies/policy_library.hpp"

namespace moelab {
namespace {

/// Keys that stand beside a policy's parameters in its section of systems: no parameter can have their names.
constexpr std::pair<std::string_view, std::string_view> kTaken[] = {
    {"cache", "keep_as"},       {"cache", "domain"},           {"cache", "pools"},
    {"cache", "share"},         {"cache", "experts"},          {"planning", "step"},
    {"planning", "reads"},      {"planning", "ranks"},         {"planning", "k"},
    {"planning", "ratios"},     {"batching", "max_tokens"},    {"pressure", "first"},
    {"pressure", "swap_space"}, {"pressure", "block_tokens"},  {"pressure", "grows"},
    {"prefetch", "buffer"},     {"prefetch", "buffer_layers"}, {"placement", "copies"}};

/// Every family of a library with its table: use(family's name, its entries, its table).
template <class Use>
void each_family(PolicyLibrary& library, const Use& use) {
  for_each_policy_family([&]<class Entry>(std::string_view family, PolicyTable<Entry>& table) {
    use(family, library.of_family<Entry>(), table);
  });
}

template <class Entry>
bool can_be_made(const Entry& entry) {
  if constexpr (requires { entry.make; })
    return static_cast<bool>(entry.make);
  else if constexpr (requires { entry.split; })
    return static_cast<bool>(entry.split);
  else if constexpr (requires { entry.place; })
    return static_cast<bool>(entry.place);
  else if constexpr (requires { entry.plan; })
    return static_cast<bool>(entry.plan);
  else
    return static_cast<bool>(entry.requests);
}

/// What is wrong with a parameter, as a sentence's end; "" where nothing is.
std::string wrong_with(std::string_view family, const PolicyParameter& p,
                       const std::vector<PolicyParameter>& all) {
  if (!is_policy_name(p.name))
    return "has no name of small letters, digits, - and _, a letter first, 64 at most";
  const auto is_it = [&](const auto& taken) { return taken.first == family && taken.second == p.name; };
  if (p.name == "policy" || std::any_of(std::begin(kTaken), std::end(kTaken), is_it))
    return "has the name of another key of systems";
  if (std::count_if(all.begin(), all.end(), [&](const PolicyParameter& o) { return o.name == p.name; }) > 1)
    return "is there twice";
  if (p.help.empty()) return "has no help";
  if (!std::isfinite(p.default_value) || !(p.default_value >= p.low && p.default_value <= p.high))
    return "has a default outside its range";
  return "";
}

/// What is wrong with the entries of a family.
template <class Entry>
void check_entries(const std::string& file, std::string_view family, const std::vector<Entry>& entries,
                   const PolicyTable<Entry>& table, Problems& problems) {
  for (const Entry& entry : entries) {
    const PolicyInfo& info = entry.info;
    const std::string which = "policy '" + shown_word(info.name) + "' of family " + std::string(family) + " ";
    const auto wrong = [&](const std::string& what) { problems.add({file, 0, 0, which + what}); };
    if (!is_policy_name(info.name))
      wrong("has no name of small letters, digits, - and _, a letter first, 64 at most");
    if (info.help.empty()) wrong("has no help: a line that says what it does");
    for (const std::string_view text : {info.help, info.source})
      if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }))
        wrong("has control characters in its help or source, expected one line");
    if (!can_be_made(entry)) wrong("has no function that makes it");
    const auto same = [&](const Entry& other) { return other.info.name == info.name; };
    if (std::count_if(entries.begin(), entries.end(), same) > 1) wrong("is there twice");
    if (const Entry* const there = table.find(info.name))
      wrong("is there already, " +
            (there->info.library.empty() ? "as one of moelab's own"
                                         : "from " + std::string(there->info.library)) +
            ": give it another name");
    if constexpr (std::is_same_v<Entry, RoutingPolicyEntry>)
      if (!entry.needs_all_scores)
        wrong("does not set needs_all_scores: a routing policy is asked where all scores are known");
    for (const PolicyParameter& p : info.parameters)
      if (const std::string what = wrong_with(family, p, info.parameters); !what.empty())
        wrong("has a parameter '" + shown_word(p.name) + "' that " + what);
  }
}

struct stat found_at(const std::string& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0)
    throw InputError(file, "cannot be opened: " + std::generic_category().message(errno));
  return found;
}

/// Of this user's or root's, and not to be changed by others.
bool is_closed(const struct stat& found) {
  const bool own = found.st_uid == geteuid() || found.st_uid == 0;
  const bool of_group = (found.st_mode & S_IWGRP) != 0 && found.st_gid != getegid() && found.st_gid != 0;
  return own && !of_group && (found.st_mode & S_IWOTH) == 0;
}

/// Its code is to run here: neither the file nor its folder may be such that other users can change them.
void check_owner(const std::string& file) {
  const struct stat found = found_at(file);
  if (!S_ISREG(found.st_mode)) throw InputError(file, "is not a regular file, expected a shared library");
  const struct stat folder = found_at(std::filesystem::path(file).parent_path().string());
  if (!is_closed(found) || (!is_closed(folder) && (folder.st_mode & S_ISVTX) == 0))
    throw InputError(file,
                     "can be written, or put into its folder, by other users, whose code would run here: "
                     "expected a library and a folder of your own, closed to others (chown, chmod go-w)");
}

std::int64_t changed_ns(const struct stat& found) {
  return std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

using Interface = std::uint32_t();
using Layout = std::uint64_t();
using Policies = void(PolicyLibrary&);

// -fsanitize=function compares types by address, and a library has its own.
#ifdef __clang__
#define MOELAB_CALLS_LIBRARY [[clang::no_sanitize("function")]]
#else
#define MOELAB_CALLS_LIBRARY
#endif

void* symbol(void* library, const std::string& file, const char* name) {
  if (void* const found = dlsym(library, name)) return found;
  throw InputError(file, "is no library of policies: it has no " + std::string(name) +
                             ", which MOELAB_POLICIES(...) defines");
}

/// What it brings, read only where it was compiled as this program was.
MOELAB_CALLS_LIBRARY PolicyLibrary brought_by(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const wrong = dlerror();
    throw InputError(file,
                     "cannot be loaded: " + std::string(wrong != nullptr ? wrong : "no reason is given"));
  }
  const std::uint32_t interface =
      reinterpret_cast<Interface*>(symbol(library, file, "moelab_policy_interface"))();
  if (interface != kPolicyInterface)
    throw InputError(file, "was compiled for interface " + std::to_string(interface) +
                               " of policies, and this is " + std::to_string(kPolicyInterface) +
                               ": compile it with the headers of this moelab");
  if (reinterpret_cast<Layout*>(symbol(library, file, "moelab_policy_layout"))() != kPolicyLayout)
    throw InputError(file,
                     "was compiled with another standard library, or settings of it, than moelab: expected "
                     "libstdc++ as its compiler has it by default");
  PolicyLibrary brought;
  try {
    reinterpret_cast<Policies*>(symbol(library, file, "moelab_policies"))(brought);
  } catch (const std::exception& error) {
    throw InputError(file, "cannot say what policies it has: " + std::string(error.what()));
  } catch (...) {
    throw InputError(file, "cannot say what policies it has: it throws what is no std::exception");
  }
  return brought;
}

std::list<LoadedLibrary>& loaded() {
  static std::list<LoadedLibrary> all;
  return all;
}

std::string real_path(const std::string& file) {
  std::error_code wrong;
  const std::filesystem::path real = std::filesystem::canonical(file, wrong);
  if (wrong) throw InputError(file, "cannot be opened: " + wrong.message());
  return real.string();
}

/// The libraries of a folder, in the order of their names.
std::vector<std::string> libraries_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code wrong;
  for (const auto& entry : std::filesystem::directory_iterator(folder, wrong))
    if (entry.path().extension() == ".so") files.push_back(entry.path().string());
  if (wrong) throw InputError(folder, "cannot be listed: " + wrong.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const LoadedLibrary& add_policies(PolicyLibrary brought, const std::string& origin,
                                  const std::string& digest) {
  Problems problems;
  bool any = false;
  each_family(brought, [&](std::string_view family, const auto& entries, const auto& table) {
    check_entries(origin, family, entries, table, problems);
    any = any || !entries.empty();
  });
  if (!any)
    problems.add({origin, 0, 0, "has no policies: expected MOELAB_POLICIES(entry, ...) with one at least"});
  problems.throw_if_any();
  LoadedLibrary& library =
      loaded().emplace_back(LoadedLibrary{.file = origin, .policies = {}, .digest = digest});
  each_family(brought, [&](std::string_view family, auto& entries, auto& table) {
    for (auto& entry : entries) {
      library.policies.push_back({std::string(family), std::string(entry.info.name)});
      entry.info.library = library.file;
      table.add(std::move(entry));
    }
  });
  return library;
}

void take_back_policies(const std::string& origin) {
  for_each_policy_family([&](const char*, auto& table) { table.take_back(origin); });
  loaded().remove_if([&](const LoadedLibrary& library) { return library.file == origin; });
}

std::string digest_of_policies(const std::string& origin) {
  for (const LoadedLibrary& library : loaded())
    if (library.file == origin) return library.digest;
  return "";
}

void check_library_unchanged(const std::string& file) {
  for (const LoadedLibrary& library : loaded()) {
    if (library.file != file) continue;
    const struct stat now = found_at(file);
    if (now.st_size != library.bytes || changed_ns(now) != library.changed_ns)
      throw InputError(file, "was changed since its policies were loaded: begin again, in a new process");
  }
}

const LoadedLibrary& load_policy_library(const std::string& file) {
  const std::string real = real_path(file);
  for (const LoadedLibrary& library : loaded())
    if (library.file == real) {
      check_library_unchanged(real);
      return library;
    }
  check_owner(real);
  const struct stat found = found_at(real);
  PolicyLibrary brought = brought_by(real);
  add_policies(std::move(brought), real);
  loaded().back().bytes = found.st_size;
  loaded().back().changed_ns = changed_ns(found);
  return loaded().back();
}

void load_policy_path() {
  const char* const path = std::getenv("MOELAB_POLICY_PATH");
  if (path == nullptr) return;
  const std::string_view text = path;
  try {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(':', begin), text.size());
      const std::string name(text.substr(begin, end - begin));
      begin = end + 1;
      if (name.empty()) continue;
      if (!std::filesystem::is_directory(name))
        load_policy_library(name);
      else
        for (const std::string& file : libraries_in(name)) load_policy_library(file);
    }
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) problem.what += " (named by MOELAB_POLICY_PATH)";
    throw InputError(std::move(problems));
  }
}

}  // namespace moelab
