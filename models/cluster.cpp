#include "models/cluster.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "models/config_store.hpp"
#include "models/sourced_reader.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMostServers = 16384;
constexpr std::int64_t kMostGpus = 64;  // of a server

const std::vector<std::string>& topology_names() {
  static const std::vector<std::string> names = {"star", "mesh", "platform"};
  return names;
}

struct Reader {
  ClusterProfile& cluster;
  SourcedReader& numbers;
  const std::string& base;
  Problems& problems;
  std::optional<YamlMap> devices;       // that stand in the file itself, by name
  Sourced<BytesPerSecond> bandwidth{};  // of a server that does not say
  std::set<std::string> taken{};        // names of servers and groups

  /// Place of the device among the profiles; its problems are reported at `where`.
  std::size_t device(const std::string& name, const YamlNode& where) {
    for (std::size_t server = 0; server < cluster.device_of.size(); ++server)
      if (cluster.servers[server].device == name) return cluster.device_of[server];
    try {
      const bool stands_here = devices && devices->has(name);
      cluster.devices.push_back(stands_here ? read_device(devices->map(name)) : load_device(name, base));
    } catch (const InputError& error) {
      cluster.devices.emplace_back();
      for (const Problem& problem : error.problems())
        if (problem.file.empty())
          where.fail(problem.what);
        else
          problems.add(problem);
    }
    return cluster.devices.size() - 1;
  }

  void network(const YamlMap& root) {
    const YamlMap section = root.map("network");
    ClusterNetwork& network = cluster.network;
    network.topology = static_cast<ClusterNetwork::Topology>(section.choice("topology", topology_names(), 0));
    if (network.topology == ClusterNetwork::Topology::platform) {
      network.platform_file = section.text("file");
      std::error_code ignored;
      if (std::filesystem::path(network.platform_file).is_relative() &&
          std::filesystem::exists(std::filesystem::path(base) / network.platform_file, ignored))
        network.platform_file = (std::filesystem::path(base) / network.platform_file).string();
    } else {
      bandwidth = numbers.quantity(section, "network.bandwidth", "bandwidth", at_least(kLeastBandwidth));
      network.latency = numbers.quantity(section, "network.latency", "latency", at_least(Seconds(0))).value;
    }
    section.done();
  }

  void server(const YamlNode& item) {
    const YamlMap map = item.map("a server");
    ClusterServer s;
    s.name = s.group = map.text("name");
    s.device = map.text("device");
    s.gpus = static_cast<int>(map.integer("gpus", 1, kMostGpus, 1));
    if (map.has("budget"))
      s.budget = numbers.quantity(map, s.name + ".budget", "budget", above(Bytes(0))).value;
    const std::int64_t count = map.integer("count", 1, kMostServers, 1);
    const bool platform = cluster.network.topology == ClusterNetwork::Topology::platform;
    s.out = s.in = bandwidth.value;
    for (auto [key, way] : {std::pair{"out", &s.out}, std::pair{"in", &s.in}})
      if (map.has(key)) {
        *way = numbers.quantity(map, s.name + "." + key, key, at_least(kLeastBandwidth)).value;
        if (platform) map.fail(key, "'" + std::string(key) + "' is the platform's to say");
      }
    s.host = s.name;
    if (map.has("host")) {
      s.host = map.text("host");
      if (!platform) map.fail("host", "'host' names a host of a platform file; there is none");
      if (count > 1) map.fail("host", "'host' is one server's; there are " + std::to_string(count));
    }
    map.done();
    add(s, count, map, item);
  }

  /// `count` servers that are alike: name-1, name-2, ...
  void add(ClusterServer s, std::int64_t count, const YamlMap& map, const YamlNode& item) {
    if (s.name.empty() || s.device.empty()) return;  // reported already
    if (cluster.servers.size() + static_cast<std::size_t>(count) > kMostServers) {
      item.fail("more than " + std::to_string(kMostServers) + " servers");
      return;
    }
    const std::size_t device_number = device(s.device, item);
    check_gpus(s, cluster.devices[device_number], map);
    take_name(s.group, "", item);
    for (std::int64_t i = 1; i <= count; ++i) {
      if (count > 1) {
        s.name = s.host = s.group + "-" + std::to_string(i);
        take_name(s.name, s.group, item);
      }
      cluster.servers.push_back(s);
      cluster.device_of.push_back(device_number);
    }
  }

  /// More than one only where each has a memory and a link of its own.
  void check_gpus(const ClusterServer& s, const DeviceProfile& profile, const YamlMap& map) {
    if (s.gpus == 1 || profile.name.empty()) return;  // the second: its problems are reported already
    if (profile.is_discrete() && !profile.has_stand_in()) return;
    const std::string one = profile.has_stand_in() ? "the CPU plays its one GPU (gpu.stand_in)"
                            : profile.gpu          ? "its GPU works in the host's memory, and there is one"
                                                   : "it has no GPU, and computes on its CPU";
    map.fail("gpus",
             "server '" + s.name + "' has " + std::to_string(s.gpus) + " GPUs of device '" + s.device +
                 "': " + one +
                 "; expected 'count' for more such machines, or a device with gpu.memory and gpu.link");
  }

  /// A name is one server's, or one group's: scenarios name either.
  void take_name(const std::string& name, const std::string& group, const YamlNode& item) {
    if (taken.insert(name).second) return;
    item.fail("two servers are named '" + name + "'" +
              (group.empty() ? "" : " (one of them is of '" + group + "' with its count)") +
              ": expected names of their own");
  }
};

}  // namespace

ClusterProfile::ClusterProfile() = default;
ClusterProfile::ClusterProfile(const ClusterProfile&) = default;
ClusterProfile::ClusterProfile(ClusterProfile&&) noexcept = default;
ClusterProfile& ClusterProfile::operator=(const ClusterProfile&) = default;
ClusterProfile& ClusterProfile::operator=(ClusterProfile&&) noexcept = default;
ClusterProfile::~ClusterProfile() = default;

std::map<std::string, std::vector<std::size_t>> ClusterProfile::servers_by_name() const {
  std::map<std::string, std::vector<std::size_t>> named;
  for (std::size_t server = 0; server < servers.size(); ++server) {
    named[servers[server].name].push_back(server);
    if (servers[server].group != servers[server].name) named[servers[server].group].push_back(server);
  }
  return named;
}

ClusterProfile read_cluster(const YamlMap& root, const std::string& base, Problems& problems) {
  ClusterProfile cluster;
  SourcedReader read(cluster);
  cluster.name = root.text("name");
  cluster.title = root.text("title");
  read.sources(root);
  Reader reader{cluster, read, base, problems, root.optional_map("devices")};
  reader.network(root);
  for (const YamlNode& item : root.list("servers")) reader.server(item);
  if (cluster.servers.empty() && problems.empty())
    root.fail("servers", "no server is listed; a cluster has one at least");
  if (reader.devices) reader.devices->done();
  root.done();
  for (const DeviceProfile& device : cluster.devices) {
    for (const std::string& line : device.provenance) cluster.provenance.push_back(device.name + " " + line);
    cluster.unmeasured = cluster.unmeasured || device.unmeasured;
  }
  return cluster;
}

ClusterProfile load_cluster(std::string_view name, const std::string& base) {
  const ConfigText config = find_config("clusters", name, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  ClusterProfile cluster =
      read_cluster(document.root(), std::filesystem::path(config.name).parent_path(), problems);
  problems.throw_if_any();
  return cluster;
}

}  // namespace moelab
