// Parts that machines are put together from: GPUs, CPUs, SSDs by their catalogue names, with the figures of
// their data sheets (configs/parts/*.yaml: one row a part).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/units.hpp"

namespace moelab {

class YamlMap;

struct GpuPart {
  std::string name;        // "rtx-4090-24gb"
  std::string title;       // "NVIDIA GeForce RTX 4090"
  std::string maker;       // "nvidia", "amd", "apple", "intel"
  std::string generation;  // "ada"
  Bytes memory;            // of its own; 0: it works in the host's
  BytesPerSecond bandwidth;
  FlopsPerSecond peak;       // dense 16-bit matrix products with sums in 32 bits
  double byte_products = 1;  // of 8-bit values, as a multiple of that peak
  std::string link;          // "pcie4-x16"; empty: it works in the host's memory
  BytesPerSecond peer_link;  // one way to the others of its board (NVLink); 0: they meet over `link`
  double watts = 0;          // of the board; 0: the data sheet does not say
  std::string cpu;           // on the same chip, by its catalogue name; empty: not said
  std::string ssd_slot;      // what an SSD of its board hangs on: "pcie3-x4"; empty: not said
  std::string source;
  bool own = false;  // a user's, which stands in no catalogue
  bool unified() const { return link.empty(); }
};

/// One core that decompresses exponents: plain bytes a second.
struct DecodeSpeeds {
  BytesPerSecond lz4hc, zstd;
  double clock = 0;  // Hz, at which it did; 0: not said
  std::string source;
};

struct CpuPart {
  std::string name;   // "ryzen-9-7950x"
  std::string title;  // "AMD Ryzen 9 7950X"
  std::string generation;
  int cores = 0;  // performance cores, where there are two kinds
  int efficiency_cores = 0;
  double clock = 0;          // Hz, of all cores at work
  int flops_per_cycle = 0;   // FP32, of one core's vector units
  double byte_products = 1;  // of 8-bit values (VNNI), as a multiple of those without such instructions
  bool amx = false;
  std::string memory;                       // the fastest it takes: "ddr5-5200"
  int channels = 0;                         // of 64 bits, a socket
  int sockets = 1;                          // at most
  std::optional<BytesPerSecond> bandwidth;  // of memory that is soldered to it
  double watts = 0;                         // of a socket (TDP); 0: the data sheet does not say
  std::string source;
  bool own = false;  // a user's, which stands in no catalogue

  /// Whether its vectors may have 512 bits (AVX-512), by its generation.
  bool avx512() const;
  /// Of all cores; an efficiency core counts 0.4 (half the vector units at 0.8 of the clock).
  FlopsPerSecond peak() const {
    return FlopsPerSecond((cores + 0.4 * efficiency_cores) * clock * flops_per_cycle);
  }
};

struct SsdPart {
  std::string name;
  std::string title;
  BytesPerSecond read;  // sequential
  Seconds latency;      // of 4 KiB at queue depth 1
  std::string source;
  bool own = false;  // a user's, which stands in no catalogue
};

const std::vector<GpuPart>& gpu_parts();
const std::vector<CpuPart>& cpu_parts();
const std::vector<SsdPart>& ssd_parts();

/// Reads the program's tables of parts anew. Throws InputError with all that is wrong in one.
void check_part_tables();

/// By name or alias. Throws InputError with the closest name.
const GpuPart& find_gpu(std::string_view name);
const SsdPart& find_ssd(std::string_view name);
/// By name, alias or what a program or a person calls it: "Intel(R) Core(TM) i9-10900X CPU @ 3.70GHz", "EPYC
/// 9355 (16 threads used)", "Xeon Gold 6454S". Of a text the model number decides. Throws InputError with the
/// closest name.
const CpuPart& find_cpu(std::string_view text);

/// Of a generation of CPUs; nullptr where its cores were not measured.
const DecodeSpeeds* decode_speeds(std::string_view generation);

enum class PartKind { gpu, cpu, ssd };
/// A part of a user's own, as JSON, where `text` is one: a map in flow style ("{name: ..., ...}"), or the
/// path of a file that has such a map (relative to `base`, then to the working folder). Its keys are those of
/// a row of the catalogue; `source` may be left out. Any other text, a catalogue's name, stays as it is.
/// Throws InputError with what is wrong in it, where it stands.
std::string held_part(PartKind kind, const std::string& text, const std::string& base = {});
/// Reads such a part where it stands; what is wrong is a problem of its document.
void check_part(PartKind kind, const YamlMap& map);
/// Parts by what held_part() returns. Throw InputError.
GpuPart gpu_part(const std::string& text);
CpuPart cpu_part(const std::string& text);
SsdPart ssd_part(const std::string& text);

/// Memory modules: what transfers a second they make and over how many channels of 64 bits a socket.
struct MemoryPart {
  std::string type;                      // "ddr5"
  double transfers = 0;                  // a second
  int channels = 0;                      // a socket
  std::optional<BytesPerSecond> stated;  // a bandwidth that the text gives, of all channels

  BytesPerSecond bandwidth() const { return stated ? *stated : BytesPerSecond(8 * transfers * channels); }
};
/// "ddr5-6000 x 2", "ddr5-5600, 2 channels", "ddr4, 4 channels", "unified 273 GB/s", "ddr5-4800, 8 channels a
/// socket". What the text leaves open is the CPU's: its fastest memory in all channels. An empty text, or
/// "not stated", leaves all open. Throws InputError: no such memory, or one that the CPU does not take.
MemoryPart read_memory(std::string_view text, const CpuPart* cpu);

/// Bytes a second one way over a link: "pcie4-x16" is 31.5 GB/s (lanes x rate x 128/130), "pcie3-x8",
/// "pcie5-x16", "nvlink-c2c" (450 GB/s). Throws InputError.
BytesPerSecond link_rate(std::string_view link);

}  // namespace moelab
