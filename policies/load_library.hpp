// Loads libraries of policies (policy_library.hpp): theirs stand in the families' tables from then on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moelab {

struct PolicyLibrary;

/// A policy that a library brought.
struct LoadedPolicy {
  std::string family, name;
};
struct LoadedLibrary {
  std::string file;  // absolute, no links in it; or what is no file
  std::vector<LoadedPolicy> policies;
  std::int64_t bytes = 0, changed_ns = 0;  // of the file when it was loaded; 0 of what is no file
  std::string digest = {};                 // of what is no file
};

/// Loads the library `file`; one that is there already is not loaded again. Its code runs in this process, so
/// it must belong to this user or to root, and no other user may write to it. Throws InputError with
/// everything that keeps it from being used, and then none of its policies are there: what the loader says,
/// another interface or layout, an entry that lacks something, a name that its family has already. To be
/// called while no other thread runs anything.
const LoadedLibrary& load_policy_library(const std::string& file);

/// Adds policies that come from no file but from `origin`, as messages show it ("Python class mine.Lru");
/// checked likewise. `digest` changes when they do.
const LoadedLibrary& add_policies(PolicyLibrary brought, const std::string& origin,
                                  const std::string& digest = "");

/// Takes away again what add_policies() added from `origin`. Nothing may refer to it any more.
void take_back_policies(const std::string& origin);

/// The digest that add_policies() was given with `origin`.
std::string digest_of_policies(const std::string& origin);

/// Throws InputError where the file of a library is another than the one that was loaded from it, whose code
/// it cannot stand for any more.
void check_library_unchanged(const std::string& file);

/// Loads what MOELAB_POLICY_PATH names, libraries and folders (all of their files whose names end in .so, in
/// the order of names), separated by colons. Throws InputError as above, naming the variable.
void load_policy_path();

}  // namespace moelab
