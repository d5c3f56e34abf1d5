#include "models/machine_profile.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "models/device_writer.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr double kUnstatedRam = 1e12;       // bytes, of a host whose size is not said
constexpr double kPageCacheLatency = 2e-6;  // seconds
constexpr double kPageCacheRate = 10e9;     // bytes a second, as one core copies
constexpr double kJoinRate = 10e9;          // bytes a second, of a core that joins planes: 4 an element
constexpr double kLinkLatency = 10e-6;      // seconds: the copy engine's start
constexpr double kGpuDecodeShare = 0.19;    // of the GPU's bandwidth: DFloat11's kernel
constexpr int kUnknownCores = 8;
constexpr std::string_view kMeasuredCores = "zen3";  // whose decompression stands in for cores not measured

/// "data sheet of NVIDIA L4 (configs/parts: NVIDIA product page)"
template <class Part>
std::string said_by(const Part& part) {
  return part.own ? "what the machine's user says of " + part.title + ": " + part.source
                  : "data sheet of " + part.title + " (configs/parts: " + part.source + ")";
}

class Maker {
 public:
  Maker(const MachineParts& machine, const Runtime& runtime, const StoredWeights& weights)
      : machine_(machine), runtime_(runtime), weights_(weights), cores_(machine.cores()) {
    source("machine", Source::Kind::datasheet, "the scenario's machine says it");
    if (machine.gpu) source("gpu", Source::Kind::datasheet, said_by(*machine.gpu));
    if (cores_) source("cpu", Source::Kind::datasheet, said_by(*cores_));
    source("runtime", Source::Kind::derived, "constants of runtime " + runtime.name);
    source("unsaid", Source::Kind::assumed, "the scenario's machine does not say it");
    source("rule", Source::Kind::assumed, "no part's data sheet says it: a rule for all machines");
  }

  DeviceProfile make() {
    d_.name = "machine";
    d_.title = machine_.title();
    add_memory();
    add_cpu();
    add_storage();
    if (machine_.gpu) add_gpu();
    d_ = as_read(d_);  // with its account of where numbers are from
    if (d_.usable_memory() <= Bytes(0))
      throw InputError("",
                       "what drivers and the system hold leaves nothing of a memory of " +
                           to_string(d_.is_discrete() ? d_.gpu->own->total.value : d_.memory.total.value) +
                           ": expected 'ram: 16 GiB' or more");
    d_.software = runtime_.on(machine_.gpu, weights_);
    return d_;
  }

 private:
  void source(const std::string& name, Source::Kind kind, std::string text) {
    d_.sources[name] = {name, kind, std::move(text)};
  }
  bool unified() const { return !machine_.gpu || machine_.gpu->unified(); }

  void add_memory() {
    if (machine_.ram) {
      d_.memory.total = {*machine_.ram, "machine"};
    } else {
      if (unified())
        throw InputError("", std::string("the size of the memory has to be known, since ") +
                                 (machine_.gpu ? machine_.gpu->title + " works in the host's"
                                               : std::string("there is no GPU with one of its own")) +
                                 ": give 'ram: 64 GiB'");
      d_.memory.total = {Bytes(kUnstatedRam), "unsaid"};
    }
    d_.memory.system_reserve = {Bytes(kSystemReserve), "rule"};
    if (machine_.gpu && machine_.gpu->unified())
      d_.memory.bandwidth = Sourced<BytesPerSecond>{machine_.gpu->bandwidth, "gpu"};
  }

  void add_cpu() {
    CpuProfile& cpu = d_.cpu;
    cpu.threads = {kUnknownCores, "unsaid"};
    if (cores_) cpu.threads = {(cores_->cores + cores_->efficiency_cores) * machine_.sockets, "cpu"};
    cpu.dispatch = {Seconds(0), "runtime"};
    if (!machine_.gpu) cpu.recover = Sourced<Curve>{Curve::affine(0, kJoinRate / 4), "rule"};
    if (!machine_.cpu) return;
    const double sockets = runtime_.share_of_sockets(machine_.sockets);
    const double share = runtime_.share_at(machine_.memory.bandwidth().value());
    source("cores", Source::Kind::derived,
           "data sheets, times what is left of two sockets and of many memory channels by runtime " +
               runtime_.name);
    cpu.peak = Sourced<FlopsPerSecond>{machine_.cpu_peak(weights_, runtime_), "cores"};
    cpu.bandwidth = Sourced<BytesPerSecond>{machine_.host_bandwidth() * sockets * share, "cores"};
    cpu.dense_launch = Sourced<Seconds>{Seconds(runtime_.cpu_launch), "runtime"};
  }

  void add_storage() {
    const SsdPart ssd = machine_.ssd_in_slot();
    const std::string capped = machine_.slot_note();
    source("ssd", machine_.ssd ? Source::Kind::datasheet : Source::Kind::assumed,
           (machine_.ssd ? said_by(ssd) : "no SSD is named: as a " + ssd.title) +
               (capped.empty() ? "" : "; " + capped + " (" + machine_.gpu->source + ")"));
    d_.ssd.read = {Curve::affine(ssd.latency.value(), ssd.read.value()), "ssd"};
    d_.ssd.slowdown_while_decompressing = {1, "rule"};
    d_.ssd.readers = {{1, 2}, "rule"};
    d_.page_cache.read = {Curve::affine(kPageCacheLatency, kPageCacheRate), "rule"};
    add_codecs();
  }

  void add_codecs() {
    const DecodeSpeeds* const own = cores_ ? decode_speeds(cores_->generation) : nullptr;
    const DecodeSpeeds& speeds = own != nullptr ? *own : *decode_speeds(kMeasuredCores);
    const double clocks = own != nullptr && own->clock > 0 ? cores_->clock / own->clock : 1;
    const std::string scaled = clocks == 1 ? ""
                                           : ", times " + shortest_text(cores_->clock / 1e9) + " of " +
                                                 shortest_text(own->clock / 1e9) + " GHz";
    const std::string whose =
        cores_ ? cores_->title + "'s cores were" : "the machine's CPU is not named, and was";
    source("ratios", Source::Kind::paper,
           "exponents by LZ4HC 0.48, by Zstd 0.36 of their plain size (ZipMoE, section 2.2)");
    source("decompress", own != nullptr ? Source::Kind::derived : Source::Kind::assumed,
           own != nullptr ? speeds.source + scaled : whose + " not measured: as fast as " + speeds.source);
    const auto rate = [&](BytesPerSecond speed) {
      return Sourced<BytesPerSecond>{speed * clocks, "decompress"};
    };
    d_.codecs["lz4hc"] = {{0.48, "ratios"}, rate(speeds.lz4hc)};
    d_.codecs["zstd"] = {{0.36, "ratios"}, rate(speeds.zstd)};
  }

  void add_gpu() {
    const GpuPart& part = *machine_.gpu;
    GpuProfile& gpu = d_.gpu.emplace();
    gpu.peak = {part.peak, "gpu"};
    gpu.flops_efficiency = {1, "runtime"};  // each product has a share of its own
    gpu.launch = {Seconds(runtime_.launch), "runtime"};
    if (part.unified()) return;
    const double rate = link_rate(part.link).value() * runtime_.link;
    const Sourced<Curve> link{Curve::affine(kLinkLatency, rate), "link"};
    source("link", Source::Kind::derived,
           part.link + " by its standard, times the share of runtime " + runtime_.name +
               "; 10 us a transfer are assumed");
    gpu.own = GpuMemory{{part.memory, "gpu"},
                        {Bytes(std::min(runtime_.gpu_reserve, 0.5 * part.memory.value())), "runtime"},
                        {part.bandwidth, "gpu"},
                        {link, link}};
    source("dfloat11", Source::Kind::derived,
           "DFloat11's Huffman kernel (arXiv 2504.11651): weights of 70 % of their size, decoded at 164 GB/s "
           "on an A5000 (768 GB/s) and 262 GB/s on an A100 (1555 GB/s): 0.19 of the bandwidth between them");
    gpu.codecs["dfloat11"] = {{0.7, "dfloat11"}, {part.bandwidth * kGpuDecodeShare, "dfloat11"}};
    if (machine_.gpus > 1) add_node(gpu);
  }

  void add_node(GpuProfile& gpu) {
    NodeProfile& node = gpu.node.emplace();
    node.gpus = {machine_.gpus, "machine"};
    const bool own_links = machine_.gpu->peer_link.value() > 0;
    source("all_reduce", Source::Kind::derived,
           "the runtime's constant for a few kilobytes, then " +
               (own_links ? "a ring over links of " + to_string(machine_.gpu->peer_link) +
                                " between the GPUs (data sheet), times the runtime's share of them"
                          : "twice the bytes over " + machine_.gpu->link));
    for (int ranks = 2; ranks <= machine_.gpus; ++ranks)  // some of them may share a model
      node.all_reduce.push_back({ranks, {machine_.all_reduce(ranks, runtime_), "all_reduce"}});
  }

  const MachineParts& machine_;
  const Runtime& runtime_;
  const StoredWeights& weights_;
  std::optional<CpuPart> cores_;  // that decompress
  DeviceProfile d_;
};

}  // namespace

DeviceProfile profile_of(const MachineParts& machine, const Runtime& runtime, const StoredWeights& weights) {
  return Maker(machine, runtime, weights).make();
}

DeviceProfile with_runtime(DeviceProfile profile, const Runtime& runtime) {
  profile.software = runtime.on(std::nullopt, {}).times_alone();
  return profile;
}

}  // namespace moelab
