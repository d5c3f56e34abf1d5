#include "python/policies/python_policy.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "policies/checked_parameter.hpp"
#include "policies/guard/policy_error.hpp"

namespace moelab {
namespace {

nb::object numpy(const char* name) {
  return nb::module_::import_("numpy").attr(name);
}
nb::object registration(const char* name) {
  return nb::module_::import_("moelab._registration").attr(name);
}

std::string text_of(const nb::object& value) {
  return nb::cast<std::string>(nb::str(nb::handle(value)));
}

/// The answer as an array of the shape, whose kind of numbers is among `kinds`.
nb::object as_array(nb::handle answer, const char* method, const char* kinds, const char* expected,
                    std::initializer_list<std::size_t> shape) {
  const std::string said = std::string("answers to ") + method + "() with ";
  nb::object array;
  try {
    array = numpy("asarray")(answer);
  } catch (const nb::python_error&) {
    throw UnusableAnswer(said + "what is no array, expected " + expected);
  }
  const auto found = nb::cast<nb::tuple>(array.attr("shape"));
  const bool none = nb::cast<std::size_t>(array.attr("size")) == 0;  // [] has one dimension and no kind
  bool same = found.size() == shape.size();
  std::string wanted;
  std::size_t i = 0, all = 1;
  for (const std::size_t length : shape) {
    same = same && (length == kAny || nb::cast<std::size_t>(found[i]) == length);
    wanted += (i++ > 0 ? ", " : "") + (length == kAny ? std::string("any") : std::to_string(length));
    all *= length == kAny ? 0 : length;
  }
  if (!same && !(none && all == 0))
    throw UnusableAnswer(said + "an array of shape " + text_of(array.attr("shape")) + ", expected (" +
                         wanted + ")");
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (!none && std::strchr(kinds, kind[0]) == nullptr)
    throw UnusableAnswer(said + "an array of " + text_of(array.attr("dtype")) + ", expected " + expected);
  return array;
}

/// Of any size, and negative ones too.
nb::object whole_parameter(const std::string& policy, const std::string& name, double value) {
  if (value != std::floor(value))
    throw InputError("", "policy '" + policy + "': parameter '" + name + "' is " + std::to_string(value) +
                             ", expected a whole number");
  PyObject* const number = PyLong_FromDouble(value);
  if (number == nullptr) throw nb::python_error();
  return nb::steal(number);
}

template <class T>
std::vector<T> values_of(const nb::object& array, const char* dtype) {
  const nb::object same = numpy("ascontiguousarray")(array, nb::arg("dtype") = dtype);
  const auto view = nb::cast<nb::ndarray<const T, nb::c_contig, nb::device::cpu>>(same);
  return {view.data(), view.data() + view.size()};
}

/// A new array that NumPy refuses to write; `memory` is where its values lie.
nb::object owned_array(const nb::tuple& shape, const nb::object& dtype, void*& memory) {
  nb::object array = numpy("empty")(shape, dtype);
  memory = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(array.attr("ctypes").attr("data")));
  array.attr("setflags")(nb::arg("write") = false);
  return array;
}

template <class T>
bool copied(nb::handle answer, std::span<double> numbers) {
  nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> view;
  if (!nb::try_cast(answer, view, false) || view.shape(0) != numbers.size()) return false;
  std::copy(view.data(), view.data() + numbers.size(), numbers.begin());
  return true;
}

}  // namespace

void throw_python_error(const nb::python_error& error) {
  const nb::tuple told = nb::cast<nb::tuple>(registration("told")(error.value()));
  const nb::list problems = nb::cast<nb::list>(told[1]);
  if (problems.size() > 0) {
    std::vector<Problem> all;
    for (const nb::handle p : problems)
      all.push_back({nb::cast<std::string>(p[0]), nb::cast<int>(p[1]), nb::cast<int>(p[2]),
                     nb::cast<std::string>(p[3])});
    throw InputError(std::move(all));
  }
  throw std::runtime_error(nb::cast<std::string>(told[0]));
}

bool PythonPolicy::is_a(const char* base) const {
  const int is = PyObject_IsSubclass(type.ptr(), of_policies(base).ptr());
  if (is < 0) throw nb::python_error();
  return is != 0;
}

nb::object PythonPolicy::make(const PolicyParameters& values, nb::handle shape) const {
  nb::dict arguments;
  for (const Parameter& p : parameters) {
    const double value = checked_parameter(info, values, p.name);
    arguments[p.argument.c_str()] =
        p.whole ? whole_parameter(name, p.name, value) : nb::object(nb::float_(value));
  }
  return shape.is_valid() ? type(shape, **arguments) : type(**arguments);
}

Held own_method(const nb::object& policy, const char* base, const char* name) {
  const nb::object inherited = of_policies(base).attr(name);
  if (nb::object(policy.type().attr(name)).is(inherited)) return Held();
  return Held(policy.attr(name));
}

nb::object of_policies(const char* name) {
  static PyObject* const module = nb::module_::import_("moelab.policies").release().ptr();
  return nb::handle(module).attr(name);
}

nb::object flags_in_python(std::span<const std::uint8_t> flags) {
  return new_array<std::uint8_t>(flags, {flags.size()}).attr("view")("bool");
}

nb::object FloatTable::of(std::span<const float> values) {
  if (!array_) array_ = Held(owned_array(nb::make_tuple(rows_, columns_), numpy("float32"), memory_));
  std::memcpy(memory_, values.data(), values.size_bytes());
  return array_.get();
}

nb::object Records::filled(const void* data, std::size_t count, std::size_t size) {
  if (!array_ || count > capacity_) {
    capacity_ = std::max<std::size_t>(2 * count, 16);
    array_ = Held(owned_array(nb::make_tuple(capacity_), of_policies(dtype_), memory_));
    if (nb::cast<std::size_t>(array_.get().attr("itemsize")) != size)
      throw std::logic_error(std::string(dtype_) + " is laid out otherwise in Python");
  }
  if (count > 0) std::memcpy(memory_, data, count * size);
  PyObject* const slice = PySequence_GetSlice(array_.get().ptr(), 0, static_cast<Py_ssize_t>(count));
  if (slice == nullptr) throw nb::python_error();
  return nb::steal(slice);
}

std::vector<std::int64_t> whole_numbers(nb::handle answer, const char* method,
                                        std::initializer_list<std::size_t> shape) {
  return values_of<std::int64_t>(as_array(answer, method, "iub", "whole numbers", shape), "int64");
}

std::vector<double> real_numbers(nb::handle answer, const char* method,
                                 std::initializer_list<std::size_t> shape) {
  return values_of<double>(as_array(answer, method, "iubf", "numbers", shape), "float64");
}

void fill_from(nb::handle answer, const char* method, std::span<double> numbers) {
  if (copied<float>(answer, numbers) || copied<double>(answer, numbers)) return;
  const std::vector<double> others = real_numbers(answer, method, {numbers.size()});
  std::copy(others.begin(), others.end(), numbers.begin());
}

std::vector<std::uint32_t> counts(nb::handle answer, const char* method,
                                  std::initializer_list<std::size_t> shape) {
  std::vector<std::uint32_t> numbers;
  for (const std::int64_t number : whole_numbers(answer, method, shape)) {
    if (number < 0 || number > std::numeric_limits<std::uint32_t>::max())
      throw UnusableAnswer(std::string("answers to ") + method + "() with " + std::to_string(number) +
                           ", expected numbers from 0 to 4294967295");
    numbers.push_back(static_cast<std::uint32_t>(number));
  }
  return numbers;
}

std::uint64_t whole_number(nb::handle answer, const char* method) {
  PyObject* const index = PyNumber_Index(answer.ptr());
  const unsigned long long number = index != nullptr ? PyLong_AsUnsignedLongLong(index) : 0;
  Py_XDECREF(index);
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  throw UnusableAnswer(std::string("answers to ") + method + "() with " +
                       nb::cast<std::string>(registration("shown")(answer)) +
                       ", expected a whole number from 0 on");
}

std::pair<nb::object, nb::object> pair_of(nb::handle answer, const char* method, const char* expected) {
  if (!nb::hasattr(answer, "__len__") || nb::len(answer) != 2)
    throw UnusableAnswer(std::string("answers to ") + method + "() with " +
                         nb::cast<std::string>(registration("shown")(answer)) + ", expected " + expected);
  return {nb::object(answer[0]), nb::object(answer[1])};
}

nb::object member(nb::handle answer, const char* method, const char* name) {
  if (nb::hasattr(answer, name)) return answer.attr(name);
  throw UnusableAnswer(std::string("answers to ") + method + "() with " +
                       nb::cast<std::string>(registration("shown")(answer)) + ", which has no '" + name +
                       "'");
}

}  // namespace moelab
