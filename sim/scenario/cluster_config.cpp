#include "sim/scenario/cluster_config.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "models/yaml_reader.hpp"
#include "traces/generator.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostTasks = 4096;
constexpr double kLeastArrivals = 1e-9;  // a second: one in thirty years
// Servers that wait for one look for it every so often: four months of it.
constexpr Seconds kLeastFaultTime{0.001}, kLongestFaultTime{1e7};
constexpr std::uint64_t kMostRequests = 20'000'000;  // of all servers: about a gigabyte

std::vector<std::string> task_names(const ClusterConfig& cluster) {
  std::vector<std::string> names;
  for (const TaskConfig& task : cluster.tasks) names.push_back(task.name);
  return names;
}

using ServersByName = std::map<std::string, std::vector<std::size_t>>;

/// The servers that `server: name` means: one, or a group. Empty after a problem.
std::vector<std::size_t> read_servers(const YamlMap& map, const ServersByName& named) {
  const std::string name = map.text("server");
  if (name.empty()) return {};  // reported already
  const auto found = named.find(name);
  if (found != named.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [any, servers] : named) known.push_back(any);
  map.fail("server", "no server is named '" + name + "'" + suggestion(name, known));
  return {};
}

std::optional<std::size_t> place_of(const std::string& name, const std::vector<std::string>& known) {
  const auto found = std::find(known.begin(), known.end(), name);
  if (found == known.end()) return std::nullopt;
  return static_cast<std::size_t>(found - known.begin());
}

/// `prompt_tokens: 200`, or `prompt_tokens: [150, 250]`.
TokenRange read_range(const YamlMap& task, std::string_view key) {
  TokenRange range;
  if (!task.has(key) || !task.node(key).is_list()) {
    range.low = range.high = static_cast<std::uint32_t>(task.integer(key, 1, kMostCounted));
    return range;
  }
  const std::vector<YamlNode> ends = task.list(key);
  if (ends.size() != 2) {
    task.fail(key, "'" + std::string(key) + "' has " + std::to_string(ends.size()) +
                       " values; expected a number of tokens, or the least and the most: [150, 250]");
    return range;
  }
  range.low = static_cast<std::uint32_t>(ends[0].integer(key, 1, kMostCounted));
  range.high = static_cast<std::uint32_t>(ends[1].integer(key, 1, kMostCounted));
  if (range.high < range.low) ends[1].fail("the most tokens are fewer than the least");
  range.high = std::max(range.high, range.low);
  return range;
}

TaskConfig read_task(const YamlMap& map, const std::string& base) {
  TaskConfig task;
  task.name = map.text("name");
  if (map.has("trace")) {
    task.trace_file = named_file(map.text("trace"), base);
    for (const std::string_view key : {"prompt_tokens", "output_tokens", "domain"})
      if (map.has(key)) map.fail(key, "'" + std::string(key) + "' is the trace's to say");
  } else {
    task.prompt = read_range(map, "prompt_tokens");
    task.output = read_range(map, "output_tokens");
    task.domain = map.text("domain", task.name);
  }
  map.done();
  return task;
}

void read_tasks(const YamlMap& section, const std::string& base, ClusterConfig& cluster) {
  for (const YamlNode& item : section.list("tasks")) {
    const TaskConfig task = read_task(item.map("a task"), base);
    if (place_of(task.name, task_names(cluster))) item.fail("task '" + task.name + "' is listed twice");
    if (cluster.tasks.size() == kMostTasks) {
      item.fail("more than " + std::to_string(kMostTasks) + " tasks");
      return;
    }
    cluster.tasks.push_back(task);
  }
  if (cluster.tasks.empty() && section.has("tasks") && section.node("tasks").is_list())
    section.fail("tasks", "no task is listed; users bring one at least");
}

/// `tasks: {arithmetic: 3, ascii: 1}`: scaled to sum 1. Empty after a problem.
std::vector<double> read_shares(const YamlMap& map, std::string_view key, const ClusterConfig& cluster) {
  const YamlMap shares = map.map(key);
  const std::vector<std::string> known = task_names(cluster);
  std::vector<double> weights(known.size(), 0);
  for (const std::string& name : shares.keys()) {
    const double weight = shares.number(name, {0, 1e9});
    if (const auto task = place_of(name, known))
      weights[*task] = weight;
    else
      shares.fail(name, "no task is named '" + name + "'" + suggestion(name, known));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0)) {
    if (map.has(key) && map.node(key).is_map())
      map.fail(key, "no task has a share above 0: expected a task and its share, such as {" +
                        (known.empty() ? "code" : known.front()) + ": 1}");
    return {};
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

LoadPhase read_phase(const YamlMap& map, const ClusterConfig& cluster) {
  LoadPhase phase;
  if (map.has("requests") && map.node("requests").json() == "0")
    map.fail(
        "requests",
        "0 requests: expected 1 at least; a phase or a server without any is left out, and the entries of "
        "the other servers name theirs (server: NAME)");
  else
    phase.requests = static_cast<std::uint32_t>(map.integer("requests", 1, kMostCounted));
  phase.shares = read_shares(map, "tasks", cluster);
  return phase;
}

void read_log(const YamlMap& map, const std::string& base, Problems& problems, ServerLoad& load) {
  load.request_log = named_file(map.text("request_log"), base);
  if (load.request_log.empty()) return;  // reported already
  for (const std::string_view key : {"requests", "arrivals_per_s", "phases"})
    if (map.has(key)) map.fail(key, "'" + std::string(key) + "' is the request log's to say");
  try {
    load.log = read_request_log(load.request_log);
    if (shares_tokens(load.log))
      map.fail("request_log",
               "has prompts with beginnings in common, which a cluster's servers do not look for; expected a "
               "log of arrival_s, prompt_tokens and output_tokens alone");
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
  }
}

ServerLoad read_load(const YamlMap& map, const std::string& base, Problems& problems,
                     const ClusterConfig& cluster) {
  ServerLoad load;
  if (map.has("request_log")) {
    read_log(map, base, problems, load);
    load.phases.push_back({static_cast<std::uint32_t>(load.log.size()), read_shares(map, "tasks", cluster)});
  } else if (map.has("phases")) {
    for (const YamlNode& item : map.list("phases")) {
      const YamlMap phase = item.map("a phase");
      load.phases.push_back(read_phase(phase, cluster));
      phase.done();
    }
    if (load.phases.empty()) map.fail("phases", "no phase is listed");
  } else if (map.has("tasks") || map.has("requests")) {
    load.phases.push_back(read_phase(map, cluster));
  }
  if (load.log.empty()) load.arrivals_per_s = map.number("arrivals_per_s", {0, 1e9}, 0.0);
  if (load.arrivals_per_s > 0 && load.arrivals_per_s < kLeastArrivals)
    map.fail("arrivals_per_s",
             "requests this far apart never come: expected 0 (all are there from the start), or "
             "1e-9 a second at least");
  if (map.has("history"))
    load.history = read_shares(map, "history", cluster);
  else if (!load.phases.empty())
    load.history = load.phases.front().shares;
  map.done();
  return load;
}

/// Entry of each server whose entries name servers: the one that names itself, else the one of its group;
/// kNoEntry: it has no users.
constexpr std::size_t kNoEntry = std::numeric_limits<std::size_t>::max();
std::vector<std::size_t> entries_by_name(const std::vector<YamlNode>& items, const ClusterProfile& profile) {
  const ServersByName named = profile.servers_by_name();
  std::vector<std::size_t> own(profile.servers.size(), kNoEntry), of_group = own;
  for (std::size_t entry = 0; entry < items.size(); ++entry) {
    if (!items[entry].is_map()) continue;  // reported already
    const YamlMap map = items[entry].map("a server's users");
    if (!map.has("server")) continue;  // likewise
    const std::vector<std::size_t> servers = read_servers(map, named);
    if (servers.empty()) continue;
    const std::string name = map.text("server");
    std::vector<std::size_t>& entries = profile.servers[servers.front()].name == name ? own : of_group;
    if (entries[servers.front()] != kNoEntry) map.fail("server", "users of '" + name + "' are listed twice");
    for (const std::size_t server : servers) entries[server] = entry;
  }
  for (std::size_t server = 0; server < own.size(); ++server)
    if (own[server] == kNoEntry) own[server] = of_group[server];
  return own;
}

/// Entry of each server, in the order of servers; a single one is that of every server.
std::vector<std::size_t> entries_by_place(const std::vector<YamlNode>& items, const ClusterProfile& profile) {
  const std::size_t servers = profile.servers.size();
  if (items.size() > 1 && items.size() != servers && servers > 0)
    items[std::min(items.size() - 1, servers)].fail(
        "users of " + std::to_string(items.size()) + " servers are listed, cluster '" + profile.name +
        "' has " + std::to_string(servers) + ": expected " +
        (servers > 1 ? "one entry, of the users of each server, or " + std::to_string(servers)
                     : "one entry") +
        ", or entries that name their servers ({server: " + profile.servers.front().name +
        ", ...}): one that none of them names has no users");
  std::vector<std::size_t> entries;
  for (std::size_t server = 0; server < servers; ++server) entries.push_back(server % items.size());
  return entries;
}

/// `entries`: as listed.
void check_loads(const YamlMap& section, const ClusterConfig& cluster,
                 const std::vector<ServerLoad>& entries) {
  std::uint64_t requests = 0;
  for (const ServerLoad& load : cluster.loads)
    for (const LoadPhase& phase : load.phases) requests += phase.requests;
  if (requests > kMostRequests)
    section.fail("servers", std::to_string(requests) + " requests of all servers' users, expected at most " +
                                std::to_string(kMostRequests));
  if (std::all_of(entries.begin(), entries.end(), [](const ServerLoad& load) { return load.phases.empty(); }))
    section.fail("servers", "no server has a user: expected 'requests' and 'tasks' of one at least");
}

/// Entries name their servers, or none does.
void read_loads(const YamlMap& section, const std::string& base, Problems& problems, ClusterConfig& cluster) {
  const std::vector<YamlNode> items = section.list("servers");
  if (items.empty()) {
    if (section.has("servers") && section.node("servers").is_list())
      section.fail("servers", "no server's users are listed");
    return;
  }
  const auto names_server = [](const YamlNode& item) {
    return item.is_map() && item.map("a server's users").has("server");
  };
  const auto named = std::count_if(items.begin(), items.end(), names_server);
  std::vector<ServerLoad> loads;
  for (const YamlNode& item : items) {
    const YamlMap map = item.map("a server's users");
    if (named > 0 && item.is_map() && !map.has("server"))
      map.fail("server",
               "expected the server or the group of servers whose users these are, since other "
               "entries of the list say it; or none does, and they go by the order of servers");
    loads.push_back(read_load(map, base, problems, cluster));
    cluster.request_logs.push_back(loads.back().request_log);
  }
  for (const std::size_t entry :
       named > 0 ? entries_by_name(items, cluster.profile) : entries_by_place(items, cluster.profile))
    cluster.loads.push_back(entry == kNoEntry ? ServerLoad() : loads[entry]);
  check_loads(section, cluster, loads);
}

void read_popularity(const YamlMap& section, const std::string& base, WorkloadConfig& w,
                     ClusterConfig& cluster) {
  const GeneratorParameters defaults;
  w.reuse = section.number("reuse", {0, 1}, defaults.reuse);
  if (section.has("counts")) {
    cluster.counts_file = named_file(section.text("counts"), base);
    for (const std::string_view key : {"skew", "own_popularity", "gate_decay"})
      if (section.has(key)) section.fail(key, "'" + std::string(key) + "' is the counts' to say");
    return;
  }
  w.skew = section.number("skew", {0, 10}, defaults.skew);
  w.gate_decay = section.number("gate_decay", {0, 10}, defaults.gate_decay);
  cluster.own_popularity = section.number("own_popularity", {0, 1}, defaults.drift);
}

}  // namespace

ClusterConfig::ClusterConfig() = default;
ClusterConfig::ClusterConfig(const ClusterConfig&) = default;
ClusterConfig::ClusterConfig(ClusterConfig&&) noexcept = default;
ClusterConfig& ClusterConfig::operator=(const ClusterConfig&) = default;
ClusterConfig& ClusterConfig::operator=(ClusterConfig&&) noexcept = default;
ClusterConfig::~ClusterConfig() = default;

void read_cluster_workload(const YamlMap& root, const std::string& base, Problems& problems,
                           WorkloadConfig& workload, ClusterConfig& cluster) {
  const YamlMap section = root.map("workload");
  workload.batch = static_cast<std::uint32_t>(section.integer("batch", 1, 4096, 1));
  read_tasks(section, base, cluster);
  read_loads(section, base, problems, cluster);
  read_popularity(section, base, workload, cluster);
  for (const std::string_view key :
       {"classes", "lengths_of", "closed_loop", "shared_prefix", "conversations", "warm_up", "cool_down"})
    if (section.has(key))
      section.fail(key, "'" + std::string(key) +
                            "' is of a workload on one machine; a cluster's requests are of 'tasks', and "
                            "come as 'servers' say");
  section.done();
}

void read_faults(const YamlMap& root, ClusterConfig& cluster) {
  const auto section = root.optional_map("faults");
  if (!section) return;
  static const std::vector<std::string> kKinds = {"leaves", "returns", "bandwidth"};
  const ServersByName named = cluster.profile.servers_by_name();
  for (const YamlNode& item : section->list_or_empty("events")) {
    const YamlMap map = item.map("an event");
    FaultEvent event;
    event.at_s = map.quantity<Seconds>("at", {Seconds(0), kLongestFaultTime}).value();
    event.kind = static_cast<FaultEvent::Kind>(map.choice("event", kKinds));
    const std::vector<std::size_t> servers = read_servers(map, named);
    if (event.kind == FaultEvent::Kind::bandwidth) {
      event.bandwidth = map.quantity<BytesPerSecond>("bandwidth", at_least(kLeastBandwidth));
      if (cluster.profile.network.topology == ClusterNetwork::Topology::platform)
        map.fail("event", "bandwidths of a platform are its file's");
    }
    map.done();
    for (const std::size_t server : servers) {
      event.server = server;
      cluster.faults.push_back(event);
    }
  }
  std::stable_sort(cluster.faults.begin(), cluster.faults.end(),
                   [](const FaultEvent& a, const FaultEvent& b) { return a.at_s < b.at_s; });
  if (section->has("leaves_every") || section->has("returns_after"))
    cluster.fault_rates =
        FaultRates{section->quantity<Seconds>("leaves_every", {kLeastFaultTime, kLongestFaultTime}),
                   section->quantity<Seconds>("returns_after", {kLeastFaultTime, kLongestFaultTime})};
  section->done();
}

}  // namespace moelab
