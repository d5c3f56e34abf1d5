// The checks that placement policies share.
#include <algorithm>
#include <cmath>

#include "models/input_error.hpp"
#include "models/units.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/room.hpp"

namespace moelab {
namespace {

// Bound the tables of a placement to a few gigabytes.
constexpr std::uint32_t kMostLayers = 65536, kMostExperts = 65536;
constexpr std::size_t kMostServers = 65536, kMostGpus = 255;  // GPUs of a server: counted in a byte
constexpr double kMostCells = 2e9;                            // GPUs or servers * layers * experts
constexpr double kMostExpertBytes = 1e15;                     // no sum of sizes overflows

[[noreturn]] void refuse(const std::string& what) {
  throw InputError("", "placement: " + what);
}

void check_between(std::size_t count, std::size_t most, const char* what) {
  if (count == 0 || count > most)
    refuse(std::to_string(count) + " " + what + ", expected 1 to " + std::to_string(most));
}

void check_server(const PlacementShape& shape, std::size_t server) {
  const std::string who = "server " + std::to_string(server);
  const std::vector<double>& gpus = shape.servers[server].gpu_bytes;
  if (gpus.size() > kMostGpus)
    refuse(who + " has " + std::to_string(gpus.size()) + " GPUs, expected at most " +
           std::to_string(kMostGpus));
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu)
    if (!std::isfinite(gpus[gpu]) || gpus[gpu] < 0)
      refuse(who + ": GPU " + std::to_string(gpu) + " has " + std::to_string(gpus[gpu]) +
             " B for experts, expected 0 or more: lower what else it holds");
  if (!(shape.servers[server].load_bytes_per_second >= 0))
    refuse(who + " loads experts at " + std::to_string(shape.servers[server].load_bytes_per_second) +
           " B/s, expected 0 (not known) or more");
}

void check_cells(const PlacementShape& shape) {
  double rows = static_cast<double>(shape.servers.size()), gpus = 0;
  for (const PlacementServer& server : shape.servers) gpus += static_cast<double>(server.gpu_bytes.size());
  rows = std::max(rows, gpus);
  if (rows * shape.layers * shape.experts > kMostCells)
    refuse(std::to_string(static_cast<std::uint64_t>(rows)) + " GPUs and " +
           std::to_string(std::uint64_t{shape.layers} * shape.experts) +
           " experts are above 2e9 pairs: use fewer GPUs or a smaller model");
}

// Enough: experts * copies can be dealt to the servers in turn, each as many as it has room for and all
// different, since none has room for more than all of them and each expert's copies come on different ones.
void check_room(const PlacementShape& shape, bool fills_room) {
  std::size_t up = 0;
  for (const PlacementServer& server : shape.servers) up += server.up ? 1 : 0;
  if (shape.copies == 0 && !fills_room)
    refuse(
        "no copy of an expert is asked for (copies: 0), and the policy places as many as are asked for: "
        "every "
        "GPU would stay empty. Expected a policy that fills what room there is (prism, redundance, optimal), "
        "or copies: 1");
  if (shape.copies > shape.servers.size() || (shape.copies > up && up > 0))
    refuse("each expert is wanted on " + std::to_string(shape.copies) + " servers, expected at most " +
           std::to_string(up) + ", the servers that are up");
  const std::uint64_t missing = missing_slots(shape);
  if (missing == 0) return;
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts * shape.copies;
  refuse(
      "the GPUs of the " + std::to_string(up) + " servers that are up have room for " +
      std::to_string(all - missing) + " experts, " +
      (shape.copies == 1 ? "one copy" : std::to_string(shape.copies) + " copies on different servers") +
      " of " + std::to_string(shape.layers) + " layers of " + std::to_string(shape.experts) +
      " experts take " + std::to_string(all) + ": room for " + std::to_string(missing) +
      " experts is missing (" + to_string(Bytes(static_cast<double>(missing) * shape.expert_bytes)) +
      "); give GPUs more memory for experts, add servers or use a smaller model; or let servers load what no "
      "GPU holds (execution: load or call-or-load, placement.copies: 0)");
}

}  // namespace

void check_placement_shape(const PlacementShape& shape, bool fills_room) {
  check_between(shape.layers, kMostLayers, "layers");
  check_between(shape.experts, kMostExperts, "experts a layer");
  check_between(shape.servers.size(), kMostServers, "servers");
  if (!(shape.expert_bytes > 0 && shape.expert_bytes <= kMostExpertBytes))
    refuse("an expert takes " + std::to_string(shape.expert_bytes) + " B, expected above 0, at most 1 PB");
  for (std::size_t server = 0; server < shape.servers.size(); ++server) check_server(shape, server);
  check_cells(shape);
  check_room(shape, fills_room);
}

void check_activation_counts(const PlacementShape& shape, const ActivationCounts& counts) {
  if (counts.servers() != shape.servers.size() || counts.layers() != shape.layers ||
      counts.experts() != shape.experts)
    refuse("counts are of " + std::to_string(counts.servers()) + " servers, " +
           std::to_string(counts.layers()) + " layers and " + std::to_string(counts.experts()) +
           " experts a layer, expected " + std::to_string(shape.servers.size()) + ", " +
           std::to_string(shape.layers) + " and " + std::to_string(shape.experts) +
           ": use counts of the same model, one set a server");
  for (std::size_t server = 0; server < counts.servers(); ++server)
    for (const double count : counts.of_server(server))
      if (!std::isfinite(count) || count < 0)
        refuse("server " + std::to_string(server) + " has a count of " + std::to_string(count) +
               " activations, expected 0 or more");
}

}  // namespace moelab
