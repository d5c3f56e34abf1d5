// A cluster profile: several servers, each a machine of any kind (discrete GPUs, a GPU that shares the host's
// memory, a CPU alone, a CPU that plays a GPU), and the network between them.
// configs/clusters/README.md describes the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/device.hpp"
#include "models/units.hpp"

namespace moelab {

class Problems;
class YamlMap;

/// Of a network interface. With less, a message takes longer than any user waits.
inline constexpr BytesPerSecond kLeastBandwidth{1};

struct ClusterServer {
  std::string name;
  std::string group;   // what the file calls it: "box" of box-1 to box-64; the name of a server without count
  std::string device;  // device profile, as the file names it
  /// Each of the device's kind, with a link of its own. 1 where there is one memory: its GPU, or, without
  /// one, its CPU.
  int gpus = 1;
  std::optional<Bytes> budget;  // of each of its GPUs, in place of the scenario's
  BytesPerSecond out, in;       // of its network interface; not of a platform
  std::string host;             // of the platform; the server's name where the file does not say
};

struct ClusterNetwork {
  /// star: every server has one way to a switch that never blocks. mesh: every ordered pair of servers has a
  /// link of its own. platform: as a SimGrid file says.
  enum class Topology : std::uint8_t { star, mesh, platform };
  Topology topology = Topology::star;
  Seconds latency;  // of one message, one way; not of a platform
  std::string platform_file;
};

struct ClusterProfile : SourcedNumbers {
  std::string name;  // "edge-a100-3"
  std::string title;
  std::vector<ClusterServer> servers;  // one at least; no name is another's, or another one's group
  ClusterNetwork network;

  /// Device profiles that servers name, each once, in the order of first use, and which one each server has.
  std::vector<DeviceProfile> devices;
  std::vector<std::size_t> device_of;  // by server

  const DeviceProfile& device(std::size_t server) const { return devices[device_of[server]]; }
  /// Servers that a scenario means by a name: the server of this name, or those of the group, in their order.
  std::map<std::string, std::vector<std::size_t>> servers_by_name() const;

  // Compiled once: copying the members is most of what a source that takes one by value compiles.
  ClusterProfile();
  ClusterProfile(const ClusterProfile&);
  ClusterProfile(ClusterProfile&&) noexcept;
  ClusterProfile& operator=(const ClusterProfile&);
  ClusterProfile& operator=(ClusterProfile&&) noexcept;
  ~ClusterProfile();
};

/// Reads a cluster file and the device profiles that it names: those under its `devices`, else by the
/// configuration store, relative to `base`, the file's folder. What
/// is wrong goes to `problems`, the document's; the result is to be used only when there are none.
ClusterProfile read_cluster(const YamlMap& root, const std::string& base, Problems& problems);
/// By name or path, through the configuration store. Throws InputError.
ClusterProfile load_cluster(std::string_view name, const std::string& base = {});

}  // namespace moelab
