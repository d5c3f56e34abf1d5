// A policy that is a Python class (python/moelab/policies), as the adapters of the families use it: how it
// is made and called, and how its arrays and answers cross.
//
// Everything here that touches Python is called with Python's lock held: in_python() takes it. Adapters run
// where the simulation runs, which holds no lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/input_error.hpp"
#include "policies/policy_info.hpp"

namespace moelab {

namespace nb = nanobind;

/// Throws what `error`, an exception of Python, says: moelab.InputError as an InputError, any other as a
/// std::runtime_error with its kind, text and place.
[[noreturn]] void throw_python_error(const nb::python_error& error);

/// Calls `work` with Python's lock. What it returns must not be Python's.
template <class Work>
auto in_python(const Work& work) {
  const nb::gil_scoped_acquire held;
  try {
    return work();
  } catch (const nb::python_error& error) {
    throw_python_error(error);
  }
}

/// An object of Python that may be let go without the lock.
class Held {
 public:
  Held() = default;
  explicit Held(nb::object object) : object_(std::move(object)) {}
  ~Held() { reset(); }
  Held(Held&& other) noexcept : object_(std::move(other.object_)) {}
  Held& operator=(Held&& other) noexcept {
    if (this != &other) {
      reset();
      object_ = std::move(other.object_);
    }
    return *this;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const nb::object& get() const { return object_; }
  explicit operator bool() const { return object_.is_valid(); }

 private:
  void reset() {
    if (!object_.is_valid()) return;
    const nb::gil_scoped_acquire held;
    object_.reset();
  }
  nb::object object_;
};

/// A class and what it says of itself; lives as long as the process.
struct PythonPolicy {
  nb::object type;
  std::string family, name, help, source, origin, digest;
  struct Parameter {
    std::string name, argument, unit, help;  // `argument`: its name in Python
    bool whole = false;
  };
  std::vector<Parameter> parameters;
  PolicyInfo info;  // its texts are those above

  bool flag(const char* key) const { return nb::cast<bool>(nb::bool_(nb::object(type.attr(key)))); }
  /// Whether it is a subclass of a class of moelab.policies.
  bool is_a(const char* base) const;
  /// An object of the class: made of `shape`, where the family has one, and of the parameters. Throws
  /// InputError where a parameter is out of its range.
  nb::object make(const PolicyParameters& values, nb::handle shape = {}) const;
};

/// The method of `policy`, or nothing where its class leaves it as the family's base class has it.
Held own_method(const nb::object& policy, const char* base, const char* name);

/// A class, enumeration or type of array of moelab.policies.
nb::object of_policies(const char* name);
/// A tuple of the named class, in the order of its members.
template <class... Members>
nb::object named(const char* type, Members&&... members) {
  return of_policies(type)(std::forward<Members>(members)...);
}

/// A new array with these values, that Python owns.
template <class T>
nb::object new_array(std::span<const T> values, std::initializer_list<std::size_t> shape,
                     bool writable = false) {
  auto* const kept = new std::vector<T>(values.begin(), values.end());
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (writable) return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.begin(), owner));
  return nb::cast(nb::ndarray<nb::numpy, const T>(kept->data(), shape.size(), shape.begin(), owner));
}
template <class T>
nb::object new_array(const std::vector<T>& values) {
  return new_array<T>(std::span<const T>(values), {values.size()});
}

/// 0 and 1 as an array of False and True.
nb::object flags_in_python(std::span<const std::uint8_t> flags);

/// An array of structures (`dtype` of moelab.policies, laid out as the structure is) that is filled again and
/// again.
class Records {
 public:
  explicit Records(const char* dtype) : dtype_(dtype) {}
  template <class T>
  nb::object of(std::span<const T> values) {
    return filled(values.data(), values.size(), sizeof(T));
  }

 private:
  nb::object filled(const void* data, std::size_t count, std::size_t size);

  const char* dtype_;
  Held array_;
  void* memory_ = nullptr;  // the array's
  std::size_t capacity_ = 0;
};

/// A read-only array [rows, columns] of floats that is filled again and again.
class FloatTable {
 public:
  FloatTable(std::size_t rows, std::size_t columns) : rows_(rows), columns_(columns) {}
  nb::object of(std::span<const float> values);

 private:
  std::size_t rows_, columns_;
  Held array_;
  void* memory_ = nullptr;  // the array's
};

/// What `method` answered, a NumPy array or what makes one. Throws UnusableAnswer where it is something else
/// or not of the shape, in which kAny is any length.
inline constexpr std::size_t kAny = static_cast<std::size_t>(-1);
std::vector<std::int64_t> whole_numbers(nb::handle answer, const char* method,
                                        std::initializer_list<std::size_t> shape);
std::vector<double> real_numbers(nb::handle answer, const char* method,
                                 std::initializer_list<std::size_t> shape);
/// The same into `numbers`, as many as there are; without a copy in between where they are floats or doubles.
void fill_from(nb::handle answer, const char* method, std::span<double> numbers);
/// The same of numbers from 0 to 2^32 - 1.
std::vector<std::uint32_t> counts(nb::handle answer, const char* method,
                                  std::initializer_list<std::size_t> shape);
/// One number. Throws UnusableAnswer where it is none from 0 on.
std::uint64_t whole_number(nb::handle answer, const char* method);
/// The two parts of an answer, `expected` for messages. Throws UnusableAnswer where it has not two.
std::pair<nb::object, nb::object> pair_of(nb::handle answer, const char* method, const char* expected);
/// A member of an answer. Throws UnusableAnswer where it has none.
nb::object member(nb::handle answer, const char* method, const char* name);

}  // namespace moelab
