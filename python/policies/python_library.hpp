// Policies that are Python classes, in the families' tables for as long as a call needs them.
#pragma once

#include <nanobind/nanobind.h>

namespace moelab {

/// While one lives, processes are forked as Python wants it, so that a child can run Python: with its lock
/// held, and its streams flushed before and at the child's end. Made with Python's lock held.
class PythonForks {
 public:
  PythonForks();
  ~PythonForks();
  PythonForks(const PythonForks&) = delete;
  PythonForks& operator=(const PythonForks&) = delete;
};

/// The classes of a call stand in the tables while it lives.
class PythonLibrary {
 public:
  /// `classes`: of each what moelab._registration.described() says. Takes Python's lock. Throws InputError
  /// where a class does not fit, and std::runtime_error where another call of this process has policies in
  /// the tables.
  explicit PythonLibrary(const nanobind::list& classes);
  ~PythonLibrary();
  PythonLibrary(const PythonLibrary&) = delete;
  PythonLibrary& operator=(const PythonLibrary&) = delete;

 private:
  bool in_use_ = false;
};

}  // namespace moelab
