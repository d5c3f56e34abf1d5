#include "sim/sweep/uncertain_figure.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/results/cause_words.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

constexpr double kLeastShare = 0.1;  // of the time that a figure has to be behind

constexpr std::string_view kCpu = "CPU", kGpu = "GPU", kDisk = "disk", kLink = "link",
                           kHostMemory = "host memory", kNetwork = "network", kHost = "host";

struct CausePlace {
  std::string_view cause, place;
};
/// Where the system decides it, place_of_cause() does.
constexpr std::array<CausePlace, 16> kPlaces = {{{"ssd_read", kDisk},
                                                 {"page_cache_read", kHostMemory},
                                                 {"expert_compute", kGpu},
                                                 {"dense_compute", kGpu},
                                                 {"prediction", kGpu},
                                                 {"recover", kGpu},
                                                 {"host", kHost},
                                                 {"activations", kLink},
                                                 {"kv_swap", kLink},
                                                 {"cpu_experts", kCpu},
                                                 {"all_reduce", kLink},
                                                 {"exchange", kLink},
                                                 {"drafting", kGpu},
                                                 {"network", kNetwork},
                                                 {"recovery", kNetwork},
                                                 {"remote_experts", kGpu}}};

/// The kind of resources that fetches and was busiest, a slot.
std::string_view resource_of_fetches(const RunResult& r) {
  static constexpr std::array<CausePlace, 4> kFetching = {
      {{"io", kDisk}, {"ssd", kDisk}, {"link", kLink}, {"decode", kGpu}}};
  std::string_view place;
  double most = 0;
  for (const ResourceUse& use : r.busy)
    for (const CausePlace& kind : kFetching)
      if (const double busy = use.busy_s / use.slots; resource_kind(use.name) == kind.cause && busy > most) {
        most = busy;
        place = kind.place;
      }
  return place;
}

std::string_view resource_of(const std::string& cause, const Scenario& s, const SystemConfig& system,
                             const RunResult& r) {
  if (cause == "prefetch" || cause == "expert_load" || cause == "low_score_load")
    return resource_of_fetches(r);
  if (cause == "decompress") return system.decoder == Decoder::gpu ? kGpu : kCpu;
  const auto* const found = std::find_if(kPlaces.begin(), kPlaces.end(),
                                         [&](const CausePlace& known) { return known.cause == cause; });
  if (found == kPlaces.end()) return "";
  return found->place == kGpu && !s.cluster && !s.device.gpu ? kCpu : found->place;
}

/// By which its experts lie compressed, also those in pages.
std::string codec_of(const SystemConfig& system) {
  if (!system.codec.empty() || !system.paging) return system.codec;
  static constexpr std::array<std::string_view, 3> kPlain = {"resident", "host", "ssd"};
  for (const std::string& backend : system.paging->backends)
    if (std::find(kPlain.begin(), kPlain.end(), backend) == kPlain.end()) return backend;
  return "";
}

/// Of the sums over as many GPUs as share the model, as TimingModel::all_reduce takes them.
std::string all_reduce_figure(const Scenario& s) {
  const std::string path = "gpu.node.all_reduce";
  if (!s.device.gpu || !s.device.gpu->node) return path;
  for (const AllReduceProfile& reduce : s.device.gpu->node->all_reduce)
    if (reduce.gpus >= static_cast<int>(s.gpus())) return path + ", " + std::to_string(reduce.gpus) + " GPUs";
  return path;
}

/// Paths of the figures that its length rests on, as provenance has them; the first one that is there counts.
std::vector<std::string> figures_of(std::string_view place, const std::string& cause,
                                    const SystemConfig& system, const Scenario& s) {
  if (cause == "decompress" && place == kCpu) return {"codecs." + system.codec + ".decompress"};
  if ((cause == "decompress" || cause == "recover") && system.decoder == Decoder::gpu)
    return {"gpu.codecs." + system.codec + ".rate"};
  if (cause == "prefetch" && place == kGpu) return {"gpu.codecs." + codec_of(system) + ".rate"};
  if (cause == "all_reduce" || cause == "exchange") return {all_reduce_figure(s)};
  if (place == kDisk) return {"ssd.read"};
  if (place == kHostMemory) return {"page_cache.read"};
  if (place == kLink) return {"gpu.link.to_device"};
  if (place == kNetwork) return {"network.bandwidth"};
  if (place == kCpu) return {"cpu.experts", "cpu.bandwidth", "memory.bandwidth"};
  if (place == kGpu) return {"gpu.bandwidth", "memory.bandwidth"};
  if (place == kHost) return {"constants.launch:", "host overhead"};
  return {};
}

/// How little a kind of source says: higher is less.
int doubt_of(std::string_view kind) {
  static constexpr std::array<std::string_view, 6> kKinds = {"measured", "datasheet", "paper",
                                                             "derived",  "fitted",    "assumed"};
  static constexpr std::array<int, 6> kDoubts = {0, 1, 1, 2, 3, 4};
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i] == kind) return kDoubts[i];
  return -1;  // not a line of a figure
}

/// A line "device ssd.read: paper (...)" that is of the path: its figure and kind.
std::optional<UncertainFigure> figure_in(const std::string& line, const std::string& path) {
  const bool runtime = path.starts_with("constants.");
  const bool profile = line.starts_with("device ") || line.starts_with("cluster ");
  if (!profile && !(runtime ? line.starts_with("runtime ") : line.starts_with(path))) return std::nullopt;
  const std::size_t colon = line.find(": "), at = line.find(path);
  if (colon == line.npos || at == line.npos || at > colon || (at > 0 && line[at - 1] != ' '))
    return std::nullopt;
  const std::string kind = line.substr(colon + 2, line.find(' ', colon + 2) - colon - 2);
  if (doubt_of(kind) < 0) return std::nullopt;
  return UncertainFigure{line.substr(0, colon), kind, 0};
}

std::optional<UncertainFigure> figure_of(const std::vector<std::string>& paths, const RunResult& r) {
  for (const std::string& path : paths)
    for (const std::string& line : r.provenance)
      if (auto found = figure_in(line, path)) return found;
  return std::nullopt;
}

}  // namespace

std::string place_of_cause(const std::string& cause, const Scenario& s, const SystemConfig& system,
                           const RunResult& r) {
  return std::string(resource_of(cause, s, system, r));
}

std::optional<UncertainFigure> least_certain_figure(const CauseShares& causes, const Scenario& s,
                                                    const SystemConfig& system, const RunResult& r) {
  std::vector<UncertainFigure> figures;  // each once, with all of the time that it is behind
  for (const auto& [cause, share] : causes) {
    auto figure = figure_of(figures_of(resource_of(cause, s, system, r), cause, system, s), r);
    if (!figure) continue;
    const auto same = std::find_if(figures.begin(), figures.end(),
                                   [&](const UncertainFigure& f) { return f.figure == figure->figure; });
    (same == figures.end() ? *figures.insert(figures.end(), *figure) : *same).share += share;
  }
  std::erase_if(figures, [](const UncertainFigure& f) { return f.share < kLeastShare; });
  if (figures.empty()) return std::nullopt;
  return *std::max_element(
      figures.begin(), figures.end(), [](const UncertainFigure& a, const UncertainFigure& b) {
        return std::pair(doubt_of(a.kind), a.share) < std::pair(doubt_of(b.kind), b.share);
      });
}

bool rests_on_routing(const CauseShares& causes) {
  double moved = 0;
  for (const auto& [cause, share] : causes)
    if (cause != kWaitingCause && cause != "dense_compute" && cause != "expert_compute" && cause != "host" &&
        cause != "all_reduce" && cause != "kv_swap")
      moved += share;
  return moved >= kLeastShare;
}

}  // namespace moelab
