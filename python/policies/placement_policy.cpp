// moelab.PlacementPolicy.
#include "policies/guard/policy_error.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

nb::object shape_in_python(const PlacementShape& shape) {
  nb::list servers;
  for (const PlacementServer& server : shape.servers) {
    nb::list gpus;
    for (const double bytes : server.gpu_bytes) gpus.append(bytes);
    servers.append(named("PlacementServer", nb::tuple(gpus), server.load_bytes_per_second, server.up));
  }
  return named("PlacementShape", shape.layers, shape.experts, shape.expert_bytes, nb::tuple(servers),
               shape.copies, shape.seed);
}

nb::object counts_in_python(const ActivationCounts& counts) {
  std::vector<double> all;
  for (std::size_t server = 0; server < counts.servers(); ++server) {
    const std::span<const double> of_server = counts.of_server(server);
    all.insert(all.end(), of_server.begin(), of_server.end());
  }
  return new_array<double>(all, {counts.servers(), counts.layers(), counts.experts()});
}

Placement placement_of(const PythonPolicy& type, const PlacementShape& shape, const ActivationCounts& counts,
                       const PolicyParameters& parameters) {
  check_placement_shape(shape, true);  // without copies the class decides what fills the room
  check_activation_counts(shape, counts);
  Placement placement(shape);
  const std::vector<std::int64_t> held = in_python([&] {
    return whole_numbers(
        type.make(parameters).attr("place")(shape_in_python(shape), counts_in_python(counts)), "place",
        {placement.gpus(), shape.layers, shape.experts});
  });
  auto here = held.begin();
  for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu)
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
      for (std::uint32_t expert = 0; expert < shape.experts; ++expert, ++here) {
        if (*here != 0 && *here != 1)
          throw UnusableAnswer("answers to place() with " + std::to_string(*here) +
                               ", expected True or False");
        if (*here == 1) placement.place(gpu, layer, expert);
      }
  return placement;
}

}  // namespace

PlacementPolicyEntry placement_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .place = [&type](const PlacementShape& shape, const ActivationCounts& counts,
                           const PolicyParameters& parameters) {
            return placement_of(type, shape, counts, parameters);
          }};
}

}  // namespace moelab
