#include "python/trace_arrays.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <new>
#include <vector>

#include "traces/default_trace.hpp"
#include "traces/mapped_file.hpp"
#include "traces/routing_trace.hpp"

namespace nb = nanobind;

namespace moelab {
namespace {

template <class T>
using Array = nb::ndarray<nb::numpy, const T>;  // const: NumPy refuses to write

/// What every trace of RoutingTrace is: shapes, and rows that lie one behind the other in one piece, so that
/// the first row's address is the array's. The array holds on to `self`, and so to the mapping.
struct Trace {
  explicit Trace(const std::string& name) : trace(open_routing_trace(name)) {}
  RoutingTrace trace;
};

const RoutingTrace& trace_of(nb::handle self) {
  check_mapped_files();
  return nb::cast<const Trace&>(self).trace;
}

template <class T>
Array<T> rows(nb::handle self, std::span<const T> first_row, std::size_t width) {
  const RoutingTrace& t = trace_of(self);
  const std::size_t shape[] = {t.tokens(), t.layers(), width};
  return Array<T>(first_row.data(), 3, shape, self);
}

template <class T>
nb::object rows_or_none(nb::handle self, std::span<const T> first_row) {
  return first_row.empty() ? nb::object(nb::none()) : nb::cast(rows(self, first_row, first_row.size()));
}

/// An array of values of its own.
template <class T>
Array<T> own(std::vector<T>&& values, std::vector<std::size_t> shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array<T>(kept->data(), shape.size(), shape.data(), owner);
}

Array<std::uint64_t> request_offsets(const Trace& self) {
  std::vector<std::uint64_t> offsets{0};
  for (const TraceRequest& r : self.trace.requests()) offsets.push_back(r.end);
  const std::size_t n = offsets.size();
  return own(std::move(offsets), {n});
}

Array<std::uint64_t> decode_offsets(const Trace& self) {
  std::vector<std::uint64_t> offsets;
  for (const TraceRequest& r : self.trace.requests()) offsets.push_back(r.decode_begin);
  const std::size_t n = offsets.size();
  return own(std::move(offsets), {n});
}

Array<std::uint8_t> phases(const Trace& self) {
  check_mapped_files();
  std::vector<std::uint8_t> all(self.trace.tokens());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(self.trace.phase_of(i));
  const std::size_t n = all.size();
  return own(std::move(all), {n});
}

nb::object request_domains(const Trace& self) {
  if (self.trace.description().domains.empty()) return nb::none();
  std::vector<std::uint16_t> all(self.trace.requests().size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = self.trace.domain_of(i);
  const std::size_t n = all.size();
  return nb::cast(own(std::move(all), {n}));
}

}  // namespace

void add_trace(nb::module_& module) {
  constexpr auto owned = nb::rv_policy::reference;  // arrays say themselves what they hold on to
  module.attr("NO_EXPERT") = kNoExpert;
  nb::class_<Trace>(
      module, "Trace",
      "A routing trace, a file or one of moelab's own: which experts each token used at each layer.")
      .def(
          "__init__",
          [](Trace* self, const std::filesystem::path& name) {
            const nb::gil_scoped_release others_run;
            new (self) Trace(name.string());
            check_mapped_files();
          },
          nb::arg("path"))
      .def_prop_ro("tokens", [](const Trace& t) { return t.trace.tokens(); })
      .def_prop_ro("layers", [](const Trace& t) { return t.trace.layers(); })
      .def_prop_ro("experts", [](const Trace& t) { return t.trace.experts(); })
      .def_prop_ro("top_k", [](const Trace& t) { return t.trace.top_k(); })
      .def_prop_ro("model", [](const Trace& t) { return t.trace.model(); })
      .def_prop_ro("provenance", [](const Trace& t) { return t.trace.provenance(); })
      .def_prop_ro("synthetic", [](const Trace& t) { return t.trace.synthetic(); })
      .def_prop_ro("domains", [](const Trace& t) { return t.trace.description().domains; })
      .def_prop_ro(
          "expert_ids",
          [](nb::handle self) { return rows(self, trace_of(self).experts_of(0, 0), trace_of(self).top_k()); },
          owned)
      .def_prop_ro("gate_scores",
                   [](nb::handle self) { return rows_or_none(self, trace_of(self).scores_of(0, 0)); })
      .def_prop_ro("lookahead_ids",
                   [](nb::handle self) { return rows_or_none(self, trace_of(self).lookahead_of(0, 0)); })
      .def_prop_ro("candidate_ids",
                   [](nb::handle self) { return rows_or_none(self, trace_of(self).candidates_of(0, 0)); })
      .def_prop_ro("request_offsets", &request_offsets, owned)
      .def_prop_ro("decode_offsets", &decode_offsets, owned)
      .def_prop_ro("request_domains", &request_domains)
      .def_prop_ro("phases", &phases, owned)
      .def("__len__", [](const Trace& t) { return t.trace.requests().size(); })
      .def("__repr__", [](const Trace& t) {
        return "<moelab.Trace of " + std::to_string(t.trace.requests().size()) +
               " requests: " + std::to_string(t.trace.tokens()) + " tokens, " +
               std::to_string(t.trace.layers()) + " layers, " + std::to_string(t.trace.experts()) +
               " experts, top " + std::to_string(t.trace.top_k()) + ">";
      });
}

}  // namespace moelab
