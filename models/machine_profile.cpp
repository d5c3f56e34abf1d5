#include "models/machine_profile.hpp"

#include <algorithm>

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

class Maker {
 public:
  Maker(const MachineParts& machine, const Runtime& runtime, const StoredWeights& weights)
      : machine_(machine), runtime_(runtime), weights_(weights) {
    source("parts", Source::Kind::datasheet, "data sheets of " + machine.title() + " (configs/parts)");
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
      d_.memory.total = {*machine_.ram, "parts"};
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
      d_.memory.bandwidth = Sourced<BytesPerSecond>{machine_.gpu->bandwidth, "parts"};
  }

  void add_cpu() {
    CpuProfile& cpu = d_.cpu;
    const int cores =
        machine_.cpu ? (machine_.cpu->cores + machine_.cpu->efficiency_cores) * machine_.sockets : 0;
    cpu.threads = {cores > 0 ? cores : kUnknownCores, cores > 0 ? "parts" : "unsaid"};
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
    const SsdPart ssd = machine_.ssd ? *machine_.ssd : find_ssd(kUnnamedSsd);
    d_.ssd.read = {Curve::affine(ssd.latency.value(), ssd.read.value()), machine_.ssd ? "parts" : "unsaid"};
    d_.ssd.slowdown_while_decompressing = {1, "rule"};
    d_.ssd.readers = {{1, 2}, "rule"};
    d_.page_cache.read = {Curve::affine(kPageCacheLatency, kPageCacheRate), "rule"};
    source("codecs", Source::Kind::derived,
           "exponents by LZ4HC 0.48, by Zstd 0.36 of their plain size (ZipMoE, section 2.2); one core of an "
           "AMD Zen 3, from this project's measurements on a Zen 5 and lzbench's ratio of the two");
    d_.codecs["lz4hc"] = {{0.48, "codecs"}, Sourced<BytesPerSecond>{BytesPerSecond(2.86e9), "codecs"}};
    d_.codecs["zstd"] = {{0.36, "codecs"}, Sourced<BytesPerSecond>{BytesPerSecond(1.22e9), "codecs"}};
  }

  void add_gpu() {
    const GpuPart& part = *machine_.gpu;
    GpuProfile& gpu = d_.gpu.emplace();
    gpu.peak = {part.peak, "parts"};
    gpu.flops_efficiency = {1, "runtime"};  // each product has a share of its own
    gpu.launch = {Seconds(runtime_.launch), "runtime"};
    if (part.unified()) return;
    const double rate = link_rate(part.link).value() * runtime_.link;
    const Sourced<Curve> link{Curve::affine(kLinkLatency, rate), "link"};
    source("link", Source::Kind::derived,
           part.link + " by its standard, times the share of runtime " + runtime_.name +
               "; 10 us a transfer are assumed");
    gpu.own = GpuMemory{{part.memory, "parts"},
                        {Bytes(std::min(runtime_.gpu_reserve, 0.5 * part.memory.value())), "runtime"},
                        {part.bandwidth, "parts"},
                        {link, link}};
    source("dfloat11", Source::Kind::derived,
           "DFloat11's Huffman kernel (arXiv 2504.11651): weights of 70 % of their size, decoded at 164 GB/s "
           "on an A5000 (768 GB/s) and 262 GB/s on an A100 (1555 GB/s): 0.19 of the bandwidth between them");
    gpu.codecs["dfloat11"] = {{0.7, "dfloat11"}, {part.bandwidth * kGpuDecodeShare, "dfloat11"}};
    if (machine_.gpus > 1) add_node(gpu);
  }

  void add_node(GpuProfile& gpu) {
    NodeProfile& node = gpu.node.emplace();
    node.gpus = {machine_.gpus, "parts"};
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
